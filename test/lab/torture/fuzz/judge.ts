/**
 * Judging an answer: a failure of the server, a shape other than the contract's, a key in it,
 * or an unexpected status. Knows nothing of connections.
 */
import { gunzipSync } from 'node:zlib'
import type { HttpAnswer } from '../../support/client.ts'
import { isReflected } from './keys.ts'

/** What can be wrong. */
export const FAULTS = ['fault', 'shape', 'key', 'status', 'probe', 'slow', 'lost'] as const
export type Fault = (typeof FAULTS)[number]
export type Wrong = { fault: Fault; why: string }

/** Every error code of the service and its status (spec 2.3, contract A). */
const STATUSES = new Map(
  Object.entries({
    KEY_MISSING: 400,
    INVALID_PARAMETER: 400,
    INVALID_KEY: 403,
    TEMP_KEY_INVALID: 403,
    NOT_FOUND: 404,
    PROXIES_NOT_FOUND: 404,
    METHOD_NOT_ALLOWED: 405,
    RATE_LIMIT_EXCEEDED: 429,
    DAILY_LIMIT_REACHED: 429,
    DEMO_LIMIT_REACHED: 429,
    TEMP_LIMIT_REACHED: 429,
    SUBNET_LIMIT_REACHED: 429,
    INTERNAL_ERROR: 500,
    DB_EXECUTE_FAILED: 503,
  }),
)

/** Statuses that Bun gives by itself, before our code runs. */
const BUN_STATUSES = [400, 413, 417, 431, 505]
const ALWAYS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}
/** What differs for the page at /, whatever its query string. */
const OF_PAGE = { ...ALWAYS, 'cache-control': 'no-cache' }
/** What differs for /favicon.ico, of which there is none. */
const OF_NO_ICON = { ...ALWAYS, 'cache-control': 'public, max-age=86400' }
const PAGE_TYPE = 'text/html; charset=utf-8'
const JSON_TYPE = 'application/json; charset=utf-8'
const TXT_TYPE = 'text/plain; charset=utf-8'
const CSV_TYPE = 'text/csv; charset=utf-8; header=present'
const NDJSON_TYPE = 'application/x-ndjson'
const TXT_LINES = /^(?:[\w:/.]+\n)*$/
/** A header and at least one record; no value of the list needs quotes but an empty one. */
const CSV_LINES = /^[\w ,]+\r\n(?:[^"\r\n]+\r\n|""\r\n)+$/
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/
const CONTEXT: { [member: string]: readonly string[] } = {
  retry_after: [...STATUSES].filter(([, status]) => status === 429).map(([code]) => code),
  daily_limit: ['DAILY_LIMIT_REACHED'],
  used_subnets: ['SUBNET_LIMIT_REACHED'],
}

/** Answers of our code carry a request id; what Bun answers by itself does not. */
export const isOurs = ({ headers }: HttpAnswer): boolean => headers.has('x-request-id')

function bodyOf({ headers, body }: HttpAnswer): string {
  const encoding = headers.get('content-encoding')
  if (encoding === undefined) return body
  const bytes = Buffer.from(body, 'latin1')
  if (encoding === 'gzip') return gunzipSync(bytes).toString('latin1')
  if (encoding === 'zstd') return Buffer.from(Bun.zstdDecompressSync(bytes)).toString('latin1')
  throw new Error(`unknown encoding ${encoding}`)
}

/** What differs from spec 2.3 in the body of an error, or `null`. */
function errorShape({ status, headers }: HttpAnswer, text: string): string | null {
  if (headers.get('content-type') !== JSON_TYPE) return 'an error that is not JSON'
  const body: { [member: string]: unknown } = JSON.parse(text)
  const { status: word, code, message, timestamp, ...context } = body
  if (word !== 'error' || typeof code !== 'string' || STATUSES.get(code) !== status) {
    return `status ${status} with ${word} and ${code}`
  }
  if (typeof message !== 'string' || message === '') return 'no message'
  if (typeof timestamp !== 'string' || !INSTANT.test(timestamp)) return `timestamp ${timestamp}`
  const stray = Object.entries(context).find(
    ([member, value]) => !CONTEXT[member]?.includes(code) || !/^\d+$/.test(`${value}`),
  )
  if (stray) return `${stray} with ${code}`
  if (status === 429 && headers.get('retry-after') !== `${body.retry_after}`)
    return 'no Retry-After'
  if (status === 405 && headers.get('allow') !== 'GET, HEAD') return 'no Allow'
  return null
}

/** What differs in an answer with the page, or `null`; one that the client has is 304, empty. */
function pageShape({ status }: HttpAnswer, text: string): string | null {
  const isRight = status === 304 ? text === '' : text.startsWith('<!doctype html>')
  return isRight ? null : 'a page that is none'
}

/** What differs in the body of an answer with a list, or `null`. */
function listShape({ headers }: HttpAnswer, text: string): string | null {
  const type = headers.get('content-type')
  if (type === JSON_TYPE) JSON.parse(text)
  else if (type === NDJSON_TYPE) for (const line of text.trimEnd().split('\n')) JSON.parse(line)
  else if (!(type === CSV_TYPE ? CSV_LINES : TXT_LINES).test(text))
    return 'a text that is not a list'
  else if (type !== TXT_TYPE && type !== CSV_TYPE) return `content type ${type}`
  return null
}

/** What differs from contract A8 in any answer, or `null`. */
function shape(answer: HttpAnswer, text: string, isHead: boolean): string | null {
  const { status, headers } = answer
  const isPage = headers.get('content-type') === PAGE_TYPE
  const isNoIcon = status === 204
  for (const [name, value] of Object.entries(isPage ? OF_PAGE : isNoIcon ? OF_NO_ICON : ALWAYS)) {
    if (headers.get(name) !== value) return `${name} is ${headers.get(name)}`
  }
  if (isHead) return null
  if (isPage) return pageShape(answer, text)
  if (isNoIcon) return text === '' ? null : 'a body with status 204'
  if (status === 304) return text === '' && headers.has('etag') ? null : 'no 304 of an answer'
  return status === 200 ? listShape(answer, text) : errorShape(answer, text)
}

/** What is wrong with an answer that Bun gave by itself, or `null`. */
function judgeBuns({ status }: HttpAnswer): Wrong | null {
  if (status === 100 || BUN_STATUSES.includes(status)) return null
  return { fault: status >= 500 ? 'fault' : 'shape', why: `${status} without a request id` }
}

function judgeOurs(
  answer: HttpAnswer,
  text: string,
  statuses: readonly number[] | null,
  isHead: boolean,
): Wrong | null {
  const { status } = answer
  const said = `${status} ${text.slice(0, 300)}`
  if (status >= 500) return { fault: 'fault', why: said }
  const why = shape(answer, text, isHead)
  if (why !== null) return { fault: 'shape', why }
  // Where a client may get an answer, it may have it already.
  if (statuses === null || statuses.includes(status === 304 ? 200 : status)) return null
  return { fault: 'status', why: `not ${statuses.join(' or ')} but ${said}` }
}

/**
 * The first thing that is wrong with an answer, or `null`.
 * @param statuses those it may have; `null`: any
 */
export function judge(
  answer: HttpAnswer,
  statuses: readonly number[] | null,
  isHead: boolean,
): Wrong | null {
  try {
    const text = isHead ? '' : bodyOf(answer)
    const head = [...answer.headers].filter(([name]) => name !== 'x-request-id').join('\n')
    if (isReflected(text) || isReflected(head)) return { fault: 'key', why: text.slice(0, 300) }
    return isOurs(answer) ? judgeOurs(answer, text, statuses, isHead) : judgeBuns(answer)
  } catch (error) {
    return { fault: 'shape', why: error instanceof Error ? error.message : String(error) }
  }
}
