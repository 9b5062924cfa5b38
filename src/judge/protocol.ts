/**
 * The protocol of checker and judge (contract H2). The checker mints a token, which travels in the URL. The judge signs
 * its answer, and adds a payload derived from the token. Pure.
 */
import { createCipheriv, timingSafeEqual } from 'node:crypto'

export const SECRET_BYTES = 32

/** A key for each purpose, so that a signature for one is not valid for another. */
export type Keys = { readonly [purpose in 'token' | 'answer' | 'payload']: Uint8Array }

const hmac = (key: Uint8Array, data: string | Uint8Array): Buffer =>
  new Bun.CryptoHasher('sha256', key).update(data).digest()

export const keysOf = (secret: Uint8Array): Keys => ({
  token: hmac(secret, 'token'),
  answer: hmac(secret, 'answer'),
  payload: hmac(secret, 'payload'),
})

// -----------------------------------------------------------------------------------------------
// Tokens: 60 characters without spare bits, so that each has only one form.

/** The listener that answers a token. Its index here is a byte of the token. */
const KINDS = ['plain', 'tls'] as const
export type TokenKind = (typeof KINDS)[number]

export const SELF = 'self'

const AT = { time: 0, random: 6, address: 16, kind: 24, size: 25, mac: 29, end: 45 } as const
const RANDOM_BYTES = AT.address - AT.random
const MAC_BYTES = AT.end - AT.mac

export const TOKEN = '[A-Za-z0-9_-]{60}'
const TOKEN_ALONE = new RegExp(`^${TOKEN}$`)

export type TokenRequest = {
  /** The judge's time, as the checker knows it. */
  timeMs: number
  /** `a.b.c.d:port` of the proxy, or `SELF`. */
  address: string
  kind: TokenKind
  size: number
}

/** Mints a token. @throws RangeError for a time or a size that is too large. */
export function mintToken(
  keys: Keys,
  { timeMs, address, kind, size }: TokenRequest,
  random = crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)),
): string {
  const bytes = Buffer.alloc(AT.end)
  bytes.writeUIntBE(timeMs, AT.time, AT.random - AT.time)
  bytes.set(random.subarray(0, RANDOM_BYTES), AT.random)
  bytes.set(new Bun.CryptoHasher('sha256').update(address).digest().subarray(0, 8), AT.address)
  bytes.writeUInt8(KINDS.indexOf(kind), AT.kind)
  bytes.writeUInt32BE(size, AT.size)
  bytes.set(hmac(keys.token, bytes.subarray(0, AT.mac)).subarray(0, MAC_BYTES), AT.mac)
  return bytes.toString('base64url')
}

/** Reads a token; `null` when it is not ours. */
export function openToken(
  keys: Keys,
  text: string,
): Pick<TokenRequest, 'timeMs' | 'kind' | 'size'> | null {
  if (!TOKEN_ALONE.test(text)) return null // the decoder accepts other characters, too
  const bytes = Buffer.from(text, 'base64url')
  const mac = hmac(keys.token, bytes.subarray(0, AT.mac)).subarray(0, MAC_BYTES)
  if (!timingSafeEqual(mac, bytes.subarray(AT.mac))) return null
  const timeMs = bytes.readUIntBE(AT.time, AT.random - AT.time)
  const kind = KINDS[bytes.readUInt8(AT.kind)]
  return kind === undefined ? null : { timeMs, kind, size: bytes.readUInt32BE(AT.size) }
}

/** A token is valid from 30 s before its time to 60 s after it. */
export const TOKEN_AGE_MAX_MS = 60_000
export const TOKEN_AHEAD_MAX_MS = 30_000

/** Whether a judge that started at `startedMs` accepts a token of `timeMs`. */
export const isTimely = (timeMs: number, nowMs: number, startedMs: number): boolean =>
  timeMs >= startedMs && nowMs - timeMs <= TOKEN_AGE_MAX_MS && timeMs - nowMs <= TOKEN_AHEAD_MAX_MS

// -----------------------------------------------------------------------------------------------
// Answers: a line of JSON, a line with its signature, and the payload. A proxy that injects scripts changes the page.

/** The judge's report of a request. */
export type Answer = {
  token: string
  /** The address that the request came from, canonical. */
  peer: string
  /** In the order and letter case of the request, with duplicates. */
  headers: readonly (readonly [name: string, value: string])[]
  /** `GET /…`, or `GET http://…`, which is only for proxies. */
  form: 'origin' | 'absolute'
  tls: boolean
  /** Now and the start of the judge, in Unix milliseconds of its clock. */
  time: number
  started: number
}

export const HEAD_BYTES_MAX = 16 * 1024
/** The longest answer with a page: JSON makes a head up to five times as long. */
export const ANSWER_BYTES_MAX = 6 * HEAD_BYTES_MAX

const signatureOf = (key: Uint8Array, text: string | Uint8Array): string =>
  hmac(key, text).toString('base64url')

/** Writes the body of an answer, without its payload. */
export function writeAnswer(keys: Keys, answer: Answer): string {
  const line = JSON.stringify(answer)
  return `${line}\n${signatureOf(keys.answer, line)}\n`
}

/** A page in HTML, or `bytes` bytes for a measurement of speed. */
export function payloadOf(keys: Keys, token: string, bytes: number): Buffer {
  const key = hmac(keys.payload, token)
  if (bytes === 0) {
    const text = key.toString('base64url')
    return Buffer.from(`<!doctype html><html><head></head><body>${text}</body></html>\n`)
  }
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(bytes))
}

const NEWLINE = '\n'.charCodeAt(0)
const SIGNATURE_CHARACTERS = 43
const SIGNATURE_LINE = /^[A-Za-z0-9_-]{43}\n$/

type Lie = 'not the judge' | 'forged' | 'replayed' | 'altered'

const isSame = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && timingSafeEqual(one, other)

/** Reads the answer to a token of this checker, or returns why the body is a lie. */
export function readAnswer(keys: Keys, token: string, body: Buffer): Answer | Lie {
  const lineEnd = body.indexOf(NEWLINE)
  const payloadStart = lineEnd + 1 + SIGNATURE_CHARACTERS + 1
  const signature = body.toString('latin1', lineEnd + 1, payloadStart)
  if (lineEnd < 0 || !SIGNATURE_LINE.test(signature)) return 'not the judge'
  const line = body.toString('utf8', 0, lineEnd)
  const right = Buffer.from(`${signatureOf(keys.answer, line)}\n`)
  if (!isSame(right, Buffer.from(signature))) return 'forged'
  const answer: Answer = JSON.parse(line) // signed: the judge wrote it
  if (answer.token !== token) return 'replayed'
  const size = Buffer.from(token, 'base64url').readUInt32BE(AT.size)
  const isRight = isSame(payloadOf(keys, token, size), body.subarray(payloadStart))
  return isRight ? answer : 'altered'
}
