/**
 * Reading HTTP answers from a connection, strictly: framing other than RFC 9112's is an
 * error. Bytes are Latin-1 strings.
 */

export type HttpAnswer = {
  status: number
  /** Names in lower case; of several fields with one name, the last. */
  headers: Map<string, string>
  /** As it was sent, chunks joined. */
  body: string
}

const HEAD_END = '\r\n\r\n'

function readHead(head: string): { status: number; headers: Map<string, string> } {
  const [first = '', ...fields] = head.split('\r\n')
  const status = /^HTTP\/1\.1 ([1-5]\d\d) /.exec(first)?.[1]
  if (status === undefined) throw new Error(`no status line: ${JSON.stringify(first)}`)
  const headers = new Map<string, string>()
  for (const field of fields) {
    const [, name, value] = /^([\w-]+): *([^\r\n\0]*)$/.exec(field) ?? []
    if (name === undefined) throw new Error(`no header field: ${JSON.stringify(field)}`)
    headers.set(name.toLowerCase(), value ?? '')
  }
  return { status: Number(status), headers }
}

/** The joined chunks of a body that begins at `from`, or `null` while its end is missing. */
function readChunks(text: string, from: number): { body: string; end: number } | null {
  let at = from
  let body = ''
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = text.slice(at, lineEnd)
    if (!/^[0-9a-f]{1,8}$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`)
    const length = Number.parseInt(size, 16)
    const end = lineEnd + 2 + length
    if (text.length < end + 2) return null
    if (text.slice(end, end + 2) !== '\r\n') throw new Error('a chunk has no end')
    body += text.slice(lineEnd + 2, end)
    at = end + 2
    if (length === 0) return { body, end: at }
  }
}

/**
 * The first answer in `text` and the index behind it; `null` while it is incomplete.
 * @param isHead the answer is to HEAD and has no body
 */
export function readAnswer(
  text: string,
  isHead: boolean,
): { answer: HttpAnswer; end: number } | null {
  const headEnd = text.indexOf(HEAD_END)
  if (headEnd < 0) return null
  const head = readHead(text.slice(0, headEnd))
  const from = headEnd + HEAD_END.length
  const { status, headers } = head
  if (isHead || status < 200 || status === 204 || status === 304) {
    return { answer: { ...head, body: '' }, end: from }
  }
  if (headers.get('transfer-encoding') === 'chunked') {
    const chunks = readChunks(text, from)
    return chunks && { answer: { ...head, body: chunks.body }, end: chunks.end }
  }
  const length = Number(headers.get('content-length') ?? 0)
  if (!Number.isSafeInteger(length)) throw new Error('no length')
  if (text.length < from + length) return null
  return { answer: { ...head, body: text.slice(from, from + length) }, end: from + length }
}
