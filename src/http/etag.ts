/**
 * Replies of documents: content that is the same for every client, compressed before anybody
 * asks, with an entity tag, so that a client that has it gets a 304 (RFC 9110, 13.1.2).
 */
import { chooseEncoding, type EncodedBodies } from '../lib/encoding.ts'
import type { HeaderFields, Reply } from './reply.ts'

export type Document = { fields: HeaderFields; etag: string; coded: EncodedBodies }

/** A document. Its tag is weak: one for all codings. */
export const documentOf = (coded: EncodedBodies, fields: HeaderFields): Document => ({
  fields,
  etag: `W/"${Bun.hash(coded.identity).toString(36)}"`,
  coded,
})

/** Whether `If-None-Match` names this tag, weak or not. */
const isKnown = (given: string | null, etag: string): boolean =>
  given !== null && (given.trim() === '*' || given.includes(etag.slice('W/'.length)))

/** The reply with a document, in the coding that suits the client, or that it has it already. */
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
