/** Sends the request and the query for a key's limits, with the key in a header, and reads the answers. */
import type { KeyReport } from '../../../api/key-report.ts'
import { nowMs } from '../../parts/browser.ts'
import { type Choice, formOf } from './query.ts'

export type Row = { readonly [member: string]: unknown }

export type Problem = { code: string; message: string }

export type Answer = {
  status: number
  ms: number
  /** Of the decompressed text. */
  bytes: number
  text: string
  /** Whether the page read only the beginning: BYTES_MAX. */
  isCut: boolean
  /** Of a whole JSON answer; `null` for other forms, which are shown as they are. */
  rows: readonly Row[] | null
  /** The number of records; `null` of errors and of answers that are cut. */
  count: number | null
  problem: Problem | null
  limits: KeyReport['limits']
  /** When the request may be sent again after a 429, by `nowMs`; 0 otherwise. */
  retryAtMs: number
}

/** Most bytes that are read: a whole list can have hundreds of megabytes. */
const BYTES_MAX = 4_000_000

/** The limits in the fields RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
export function readLimits(limit: string | null, policy: string | null): KeyReport['limits'] {
  const parse = (field: string | null) =>
    [...(field ?? '').matchAll(/"([^"]*)"((?:\s*;\s*\w+=\d+)*)/g)].map(
      ([, name = '', rest = '']) => {
        const of = (key: string) => Number(new RegExp(`\\b${key}=(\\d+)`).exec(rest)?.[1] ?? 0)
        return [name, of] as const
      },
    )
  const policies = new Map(parse(policy))
  return parse(limit).map(([name, of]) => {
    const ofPolicy = policies.get(name) ?? (() => 0)
    return { name, quota: ofPolicy('q'), window: ofPolicy('w'), left: of('r'), reset: of('t') }
  })
}

const isRow = (value: unknown): value is Row => typeof value === 'object' && value !== null

/** The records of a JSON answer of any shape; `null` when the text is not JSON. */
export function readRows(text: string): Row[] | null {
  try {
    const value: unknown = JSON.parse(text)
    const data: unknown = isRow(value) && 'data' in value && 'count' in value ? value.data : value
    if (Array.isArray(data)) return data.filter(isRow)
    if (!isRow(data)) return null
    return Object.entries(data).map(([ip, row]) => ({ ip, ...(isRow(row) ? row : {}) }))
  } catch {
    return null
  }
}

/** An error of the API, JSON or text (contract A9), or of a proxy in between. */
export function readProblem(text: string, status: number): Problem {
  try {
    const { code, message } = JSON.parse(text)
    if (typeof message === 'string') return { code: String(code ?? status), message }
  } catch {
    // Not JSON.
  }
  return { code: String(status), message: text.replace(/^Error: /, '').slice(0, 500) }
}

/** The text of a body up to BYTES_MAX, and whether there was more. */
async function readText(body: ReadableStream<Uint8Array> | null) {
  const reader = body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  while (reader !== undefined) {
    const { done, value } = await reader.read()
    if (done) break
    bytes += value.length
    text += decoder.decode(value, { stream: true })
    if (bytes < BYTES_MAX) continue
    await reader.cancel()
    return { text, bytes, isCut: true }
  }
  return { text, bytes, isCut: false }
}

/** Whether a header can carry a key: `fetch` throws when it cannot. */
export const isSendable = (key: string): boolean => /^[\x21-\x7e]*$/.test(key)

/** A dead connection must not keep the button disabled. */
const TIMEOUT_MS = 60_000

/** Sends no cookies and no referrer, and lets the browser keep nothing. */
const send = (path: string, key: string): Promise<Response> =>
  fetch(path, {
    ...{ cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' },
    ...{ redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) },
    headers: key === '' ? {} : { Authorization: `Bearer ${key}` },
  })

/** @throws when the server does not answer. */
export async function ask(query: string, choice: Choice, key: string): Promise<Answer> {
  const began = nowMs()
  const response = await send(`/api${query === '' ? '' : `?${query}`}`, key)
  const { text, bytes, isCut } = await readText(response.body)
  const atMs = nowMs()
  const waitSeconds = Math.max(1, Number(response.headers.get('retry-after')) || 0)
  const { status, ok, headers } = response
  const form = formOf(choice)
  const isWhole = ok && !isCut
  const rows = isWhole && form === 'json' ? readRows(text) : null
  const lines = text.split('\n').length - (form === 'csv' ? 2 : 1) // without the header of CSV
  return {
    ...{ status, ms: atMs - began, bytes, text, isCut, rows },
    count: rows?.length ?? (isWhole && form !== 'json' ? lines : null),
    problem: ok ? null : readProblem(text, status),
    limits: readLimits(headers.get('ratelimit'), headers.get('ratelimit-policy')),
    retryAtMs: status === 429 ? atMs + waitSeconds * 1000 : 0,
  }
}

export type KeyReply = { kind: 'usage'; usage: KeyReport } | ({ kind: 'problem' } & Problem)

/** @throws when the server does not answer. */
export async function askKey(key: string): Promise<KeyReply> {
  const response = await send('/key', key)
  if (response.ok) return { kind: 'usage', usage: (await response.json()) as KeyReport }
  return { kind: 'problem', ...readProblem(await response.text(), response.status) }
}
