/**
 * A request to the judge, through a proxy or without, and what counts as its answer (contract H2): only what the
 * judge has signed for this very request.
 */
import type { SecureContext } from 'node:tls'
import type { Address, ProxyType } from '../proxies/proxy.ts'
import type { Header } from './classify.ts'
import type { Call, Destination } from './dial.ts'
import {
  ANSWER_BYTES_MAX,
  type Answer,
  type Keys,
  readAnswer,
  readTimeRefusal,
  type TokenKind,
} from './protocol.ts'
import {
  createResponseReader,
  done,
  failed,
  type Heard,
  type HttpResponse,
  type Reader,
  reasonOfStatus,
} from './response.ts'

/** A listener of the judge, and how it is asked. */
export type Site = {
  kind: TokenKind
  /** `http://HOST:PORT` */
  origin: string
  destination: Destination
  /** What is sent: the lines of its headers, and each of them. */
  fields: string
  sent: ReadonlyMap<string, string>
  /** Who may vouch for it; `null`: no TLS. */
  tls: SecureContext | null
}

/** The judge's answer, or its clock, when it refused the token because of its time. */
export type Told = { kind: 'answer'; answer: Answer } | { kind: 'clock'; nowMs: number }

type Way = ProxyType | 'none'

const TIME = /\r\ntime: ([^\r\n]*)\r\n/i

function judged(keys: Keys, token: string, way: Way, response: HttpResponse): Heard<Told> {
  const { status, head, body, isWhole } = response
  if (status !== 200) {
    const nowMs = readTimeRefusal(keys, token, TIME.exec(head)?.[1] ?? '')
    if (nowMs !== null) return done({ kind: 'clock', nowMs })
    return failed(reasonOfStatus(status), `status ${status}`)
  }
  const answer = readAnswer(keys, token, body)
  if (answer === 'altered' && !isWhole) return failed('too long', 'more than the payload')
  if (typeof answer === 'string') return failed(answer, '')
  // A proxy asks for a path: what arrives as it was sent was never read on its way.
  const isForwarded = way === 'http' && answer.form === 'absolute'
  return isForwarded ? failed('forwarder', '') : done({ kind: 'answer', answer })
}

function createAnswerReader(keys: Keys, token: string, way: Way, size: number): Reader<Told> {
  const reader = createResponseReader(ANSWER_BYTES_MAX + size, false)
  const judge = (heard: Heard<HttpResponse>): Heard<Told> =>
    heard.kind === 'done' ? judged(keys, token, way, heard.value) : heard
  return { push: bytes => judge(reader.push(bytes)), end: () => judge(reader.end()) }
}

/** Headers as the lines of a request. */
export const fieldsOf = (headers: readonly Header[]): string =>
  headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')

/** The text of a request; `target` is a path, or a URL for http proxies. */
export const requestOf = (target: string, fields: string): string =>
  `GET ${target} HTTP/1.1\r\n${fields}\r\n`

type Asking = { keys: Keys; token: string; to: Address; way: Way; size: number }

/** What asks the judge with a token of `size` for the proxy `to`; `none` asks without one. */
export function callOf(site: Site, { keys, token, to, way, size }: Asking): Call<Told> {
  const { origin, destination, fields, tls } = site
  const request = requestOf(way === 'http' ? `${origin}/${token}` : `/${token}`, fields)
  const reader = createAnswerReader(keys, token, way, size)
  return { to, type: way, destination, tls, request, reader }
}
