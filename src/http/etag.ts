/** Entity tags (RFC 9110, 8.8.3), and documents that are the same for every client, compressed in advance. */
import type { Answer } from '../api/answer.ts'
import { chooseEncoding, type EncodedBodies, type Encoding } from '../lib/compression.ts'
import type { HeaderFields, Reply } from './reply.ts'

/** A strong tag of a kept answer in one encoding; `''` for others. */
export const etagOf = ({ hash }: Answer, encoding: Encoding | null): string => {
  if (hash === undefined) return ''
  return encoding === null ? `"${hash}"` : `"${hash}-${encoding}"`
}

export type Document = { fields: HeaderFields; etag: string; coded: EncodedBodies }

/** The tag is weak, because all encodings share it. */
export const documentOf = (coded: EncodedBodies, fields: HeaderFields): Document => ({
  fields,
  etag: `W/"${Bun.hash(coded.identity).toString(36)}"`,
  coded,
})

/** Whether `If-None-Match` names this tag. Weak and strong tags are equal here. */
export const isKnown = (given: string | null, etag: string): boolean =>
  given !== null && (given.trim() === '*' || given.includes(etag.slice(etag.indexOf('"'))))

/** The document in an encoding that the client accepts, or a 304. */
export function documentReply({ fields, etag, coded }: Document, request: Headers): Reply {
  const headers = new Headers({ vary: 'Accept-Encoding', ...fields, etag })
  if (isKnown(request.get('if-none-match'), etag)) {
    return { status: 304, headers, body: { kind: 'none' }, records: 0 }
  }
  const encoding = chooseEncoding(request.get('accept-encoding'))
  const body = { kind: 'whole', content: coded[encoding ?? 'identity'] } as const
  if (encoding !== null) headers.set('content-encoding', encoding)
  return { status: 200, headers, body, records: 0 }
}
