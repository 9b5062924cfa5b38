/**
 * Owns sending one file to be imported. `fetch` does not say how much of a body was sent, so this
 * is the one place with an `XMLHttpRequest`.
 */

import type { ImportLine } from '../../admin/wire.ts'
import { type Client, RequestError } from './client.ts'
import { createLineReader } from './lines.ts'

export type ImportOptions = {
  format: string
  type: string
  replace: boolean
  allowShrink: boolean
}

/** What the list is sent to. Options that are not set are left out. */
export function importPath(file: string, options: ImportOptions): string {
  const query = new URLSearchParams({ name: file, format: options.format })
  if (options.type !== '') query.set('type', options.type)
  if (options.replace) query.set('replace', '1')
  if (options.replace && options.allowShrink) query.set('allow_shrink', '1')
  return `/console/import?${query}`
}

export type Upload = { done: Promise<ImportLine>; cancel(): void }

/**
 * Sends a file. `onSent` and `onRead` are called with the bytes that were sent, and that the server
 * has read; `done` is the last line, or throws `RequestError`.
 */
export function sendFile(
  client: Client,
  path: string,
  file: Blob,
  on: { sent(bytes: number): void; read(bytes: number): void },
  sentences: { broken: () => string },
): Upload {
  const request = new XMLHttpRequest()
  const lines = createLineReader<ImportLine>()
  let seen = 0
  let last: ImportLine | null = null
  const take = (values: readonly ImportLine[]): void => {
    for (const line of values) {
      if (line.kind === 'progress') on.read(line.bytes)
      else last = line
    }
  }
  const readMore = (): void => {
    if (request.status !== 200) return
    const text = request.responseText
    take(lines.push(text.slice(seen)))
    seen = text.length
  }
  const done = new Promise<ImportLine>((resolve, reject) => {
    const fail = (): void => reject(new RequestError(sentences.broken(), null))
    request.upload.onprogress = ({ loaded }) => on.sent(loaded)
    request.onprogress = readMore
    request.onerror = fail
    request.onload = () => {
      if (request.status !== 200) {
        return reject(client.refuse(request.status, request.responseText))
      }
      readMore()
      take(lines.rest())
      if (last === null) return fail()
      return resolve(last)
    }
  })
  request.open('POST', path)
  request.setRequestHeader('authorization', client.authorization())
  // The type that a browser gives to a text file is one of those that forms send, and is refused.
  request.setRequestHeader('content-type', 'application/octet-stream')
  request.send(file)
  return { done, cancel: () => request.abort() }
}
