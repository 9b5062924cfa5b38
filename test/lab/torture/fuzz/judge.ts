/** Judges an answer to a hostile request by the contract. Knows nothing of connections. */
import { gunzipSync } from 'node:zlib'
import type { HttpAnswer } from '../../support/client.ts'
import { isReflected } from './requests.ts'

/** Every error code of the service and its status (spec 2.3, contract A). */
const STATUSES = new Map<unknown, number>(
  Object.entries({
    ...{ KEY_MISSING: 400, INVALID_PARAMETER: 400, INVALID_KEY: 403, TEMP_KEY_INVALID: 403 },
    ...{ NOT_FOUND: 404, PROXIES_NOT_FOUND: 404, METHOD_NOT_ALLOWED: 405 },
    ...{ RATE_LIMIT_EXCEEDED: 429, DAILY_LIMIT_REACHED: 429, DEMO_LIMIT_REACHED: 429 },
    ...{ TEMP_LIMIT_REACHED: 429, SUBNET_LIMIT_REACHED: 429 },
  }),
)
/** Statuses that Bun gives by itself, before our code runs. */
const BUN_STATUSES = [100, 400, 413, 417, 431, 505]

const ALWAYS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}
/** What the page at /, /stats, and /favicon.ico, of which there is none, say instead. */
const CACHE_CONTROL = ['no-cache', 'max-age=15', 'public, max-age=86400']
const JSON_TYPE = 'application/json; charset=utf-8'
/** The content types of answers with status 200, and what their text is. */
const TYPES: { readonly [type: string]: (text: string) => boolean } = {
  'text/html; charset=utf-8': text => text.startsWith('<!doctype html>'),
  [JSON_TYPE]: text => JSON.parse(text) !== null,
  'application/x-ndjson': text =>
    text
      .trimEnd()
      .split('\n')
      .every(line => JSON.parse(line)),
  'text/plain; charset=utf-8': text => /^(?:[\w:/. =]+\n)*$/.test(text),
  // A header and at least one record; no value of the list needs quotes but an empty one.
  'text/csv; charset=utf-8; header=present': text =>
    /^[\w ,]+\r\n(?:[^"\r\n]+\r\n|""\r\n)+$/.test(text),
}
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/

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

/** What differs from spec 2.3 in an error; `null`: nothing. */
function errorFault({ status, headers }: HttpAnswer, text: string): string | null {
  if (headers.get('content-type') !== JSON_TYPE) return 'an error that is not JSON'
  const { status: word, code, message, timestamp, ...context } = JSON.parse(text)
  if (word !== 'error' || STATUSES.get(code) !== status)
    return `status ${status} with ${word}, ${code}`
  if (typeof message !== 'string' || message === '') return 'no message'
  if (typeof timestamp !== 'string' || !INSTANT.test(timestamp)) return `timestamp ${timestamp}`
  const members = {
    ...(status === 429 && { retry_after: true }),
    ...(code === 'DAILY_LIMIT_REACHED' && { daily_limit: true }),
    ...(code === 'SUBNET_LIMIT_REACHED' && { used_subnets: true }),
  }
  const stray = Object.keys(context).find(
    name => !(name in members) || !Number.isInteger(context[name]),
  )
  if (stray) return `${stray} with ${code}`
  if (status === 429 && headers.get('retry-after') !== `${context.retry_after}`)
    return 'no Retry-After'
  return status === 405 && headers.get('allow') !== 'GET, HEAD' ? 'no Allow' : null
}

/** What differs from contract A8 in an answer of ours; `null`: nothing. */
function shapeFault(answer: HttpAnswer, text: string, isHead: boolean): string | null {
  const { status, headers } = answer
  for (const [name, value] of Object.entries(ALWAYS)) {
    const given = headers.get(name) ?? ''
    const isOther = status < 400 && name === 'cache-control' && CACHE_CONTROL.includes(given)
    if (given !== value && !isOther) return `${name} is ${given}`
  }
  if (isHead) return null
  if (status === 204) return text === '' ? null : 'a body with status 204'
  if (status === 304) return text === '' && headers.has('etag') ? null : 'a 304 of no answer'
  if (status !== 200) return errorFault(answer, text)
  const type = headers.get('content-type') ?? ''
  return TYPES[type]?.(text) ? null : `no ${type}: ${text.slice(0, 200)}`
}

/**
 * What is wrong with an answer; `null`: nothing.
 * @param statuses those it may have; `null`: any
 */
export function judge(
  answer: HttpAnswer,
  statuses: readonly number[] | null,
  isHead: boolean,
): string | null {
  const { status } = answer
  try {
    const text = isHead ? '' : bodyOf(answer)
    const head = [...answer.headers].filter(([name]) => name !== 'x-request-id').join('\n')
    if (isReflected(text) || isReflected(head)) return `key: ${text.slice(0, 300)}`
    if (!isOurs(answer)) return BUN_STATUSES.includes(status) ? null : `${status} without an id`
    if (status >= 500) return `failure: ${status} ${text.slice(0, 300)}`
    const fault = shapeFault(answer, text, isHead)
    if (fault !== null) return `shape: ${fault}`
    // Where a client may get an answer, it may have it already.
    if (statuses === null || statuses.includes(status === 304 ? 200 : status)) return null
    return `status: not ${statuses.join(' or ')} but ${status} ${text.slice(0, 300)}`
  } catch (error) {
    return `shape: ${error instanceof Error ? error.message : String(error)}`
  }
}
