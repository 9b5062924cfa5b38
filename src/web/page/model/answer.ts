/**
 * Sending a request of the visitor, and asking for the use of a key; reading what comes back: rows of any form, limits,
 * errors, sizes. The key travels in a header and is in nothing that this file gives back.
 */
import type { KeyReport } from '../../../api/key-report.ts'
import { nowMs } from '../../parts/browser.ts'
import type { LimitLeft } from '../../parts/key-report.ts'
import { type Choice, type Form, formOf } from './query.ts'

export type Row = { readonly [member: string]: unknown }

export type Problem = { code: string; message: string }

export type Answer = {
  status: number
  ms: number
  /** Of the text, decompressed. */
  bytes: number
  /** As it was sent; `null` when the browser does not say. */
  sentBytes: number | null
  text: string
  /** Whether the text ends before the answer does: no more than TEXT_MAX is read. */
  isCut: boolean
  /** `null`: what came is not a list. */
  rows: readonly Row[] | null
  problem: Problem | null
  limits: readonly LimitLeft[]
  /** After a 429; 0 otherwise. */
  retryAfterSeconds: number
}

/** Most bytes of an answer that are read: a whole list can have hundreds of megabytes. */
const BYTES_MAX = 4_000_000

/** The limits that two header fields name (draft-ietf-httpapi-ratelimit-headers). */
export function readLimits(limit: string | null, policy: string | null): LimitLeft[] {
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

/** The records of CSV text (RFC 4180), the header as names. */
function readCsv(text: string): Row[] {
  const table: string[][] = [[]]
  for (const [, quoted, plain = '', end = ''] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g,
  )) {
    table.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === '') break
    if (end !== ',') table.push([])
  }
  const [names = [], ...rows] = table.filter(row => row.length > 1 || row[0] !== '')
  return rows.map(row => Object.fromEntries(names.map((name, i) => [name, row[i] ?? ''])))
}

const isRow = (value: unknown): value is Row => typeof value === 'object' && value !== null

function readJson(text: string): Row[] | null {
  const value: unknown = JSON.parse(text)
  const data: unknown = isRow(value) && 'data' in value && 'count' in value ? value.data : value
  if (Array.isArray(data)) return data.filter(isRow)
  if (!isRow(data)) return null
  return Object.entries(data).map(([ip, row]) => ({ ip, ...(isRow(row) ? row : {}) }))
}

const linesOf = (text: string): string[] => text.split('\n').filter(line => line !== '')

/** `socks5://1.2.3.4:1080` or `1.2.3.4:1080`. */
function readLine(line: string): Row {
  const [, type, ip = line] = /^(\w+):\/\/(.*)$/.exec(line) ?? []
  return type === undefined ? { ip } : { ip, type }
}

const READERS: { [F in Form]: (text: string) => Row[] | null } = {
  txt: text => linesOf(text).map(readLine),
  json: readJson,
  csv: readCsv,
  ndjson: text => linesOf(text).map((line): Row => JSON.parse(line)),
}

/** The rows of an answer; `null` when it does not have the form that was asked for. */
export function readRows(text: string, form: Form): Row[] | null {
  try {
    return READERS[form](text)
  } catch {
    return null
  }
}

const quotedCsv = (value: unknown): string => {
  const text = String(value ?? '')
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export type FileForm = 'txt' | 'csv' | 'json'

export const FILES: { readonly [F in FileForm]: (rows: readonly Row[]) => string } = {
  txt: rows =>
    rows.map(({ ip, port }) => `${ip}${port === undefined ? '' : `:${port}`}\n`).join(''),
  csv(rows) {
    const names = [...new Set(rows.flatMap(Object.keys))]
    const lines = [names, ...rows.map(row => names.map(name => row[name]))]
    return lines.map(line => `${line.map(quotedCsv).join()}\r\n`).join('')
  },
  json: rows => `${JSON.stringify(rows, null, 2)}\n`,
}

/** What an error body says, JSON or plain text (contract A9); never markup of a stranger's page. */
export function readProblem(text: string, status: number): Problem {
  try {
    const { code, message } = JSON.parse(text)
    if (typeof message === 'string') return { code: String(code ?? status), message }
  } catch {
    // Not JSON: an error of the older variant, or of a proxy in between.
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
    const lines = text.lastIndexOf('\n') + 1 // none of JSON without white space
    return { text: lines === 0 ? text : text.slice(0, lines), bytes, isCut: true }
  }
  return { text: text + decoder.decode(), bytes, isCut: false }
}

/** Bytes of the last response to a URL as they were sent, if the browser knows. */
async function sentBytesOf(path: string): Promise<number | null> {
  // The entry is made in a task of its own, after the body has ended.
  await new Promise(resolve => setTimeout(resolve))
  const entries = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
  return entries.findLast(({ name }) => name.endsWith(path))?.encodedBodySize || null
}

/** Whether a header can carry a key: `fetch` throws when it cannot. */
export const isSendable = (key: string): boolean => /^[\x21-\x7e]*$/.test(key)

/** The header that carries a key; none without one. */
export const bearer = (key: string): { [name: string]: string } =>
  key === '' ? {} : { Authorization: `Bearer ${key}` }

/** How all requests of the page are sent: no cookies, no referrer, nothing kept by the browser. */
const PRIVATE = {
  ...{ cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' },
  redirect: 'error',
} as const satisfies RequestInit

/**
 * Sends the request of a choice with a key.
 * @throws when the service does not answer, or `signal` aborts.
 */
export async function ask(
  query: string,
  choice: Choice,
  key: string,
  signal: AbortSignal,
): Promise<Answer> {
  performance.clearResourceTimings()
  const path = `/api${query === '' ? '' : `?${query}`}`
  const began = nowMs()
  const response = await fetch(path, { ...PRIVATE, headers: bearer(key), signal })
  const { text, bytes, isCut } = await readText(response.body)
  const ms = nowMs() - began
  const { status, ok, headers } = response
  const isWhole = !isCut || formOf(choice) !== 'json'
  return {
    ...{ status, ms, bytes, sentBytes: isCut ? null : await sentBytesOf(path), text, isCut },
    rows: ok && isWhole ? readRows(text, formOf(choice)) : null,
    problem: ok ? null : readProblem(text, status),
    limits: readLimits(headers.get('ratelimit'), headers.get('ratelimit-policy')),
    retryAfterSeconds: status === 429 ? Math.max(1, Number(headers.get('retry-after')) || 0) : 0,
  }
}

export type KeyReply = { kind: 'usage'; usage: KeyReport } | ({ kind: 'problem' } & Problem)

/** What the service says of a key. @throws when it does not answer. */
export async function askKey(key: string): Promise<KeyReply> {
  const response = await fetch('/key', { ...PRIVATE, headers: bearer(key) })
  if (response.ok) return { kind: 'usage', usage: (await response.json()) as KeyReport }
  return { kind: 'problem', ...readProblem(await response.text(), response.status) }
}
