/** Files that are compiled into the program as text (`with { type: 'text' }`). */
declare module '*.sql' {
  const text: string
  export default text
}
declare module '*.service' {
  const text: string
  export default text
}
