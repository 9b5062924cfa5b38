/** Files that are compiled into the program as text (`with { type: 'text' }`). */
declare module '*.md' {
  const text: string
  export default text
}
declare module '*.sql' {
  const text: string
  export default text
}
declare module '*.service' {
  const text: string
  export default text
}

/** The path of a file in the program (`with { type: 'file' }`). */
declare module '*.ndjson' {
  const path: string
  export default path
}
