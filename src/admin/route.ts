/**
 * What a route of the admin listener is, finding the one of a request, and reading what a
 * request brings: the members of a JSON object and the parameters of a query, with the parsers and
 * the sentences of the command line.
 */
import { Expected } from '../config/parsers.ts'
import { SETTINGS, type SettingName, type Settings } from '../config/settings.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import { shownName } from '../lib/redact.ts'
import { requireJson } from './csrf.ts'
import { AdminError } from './errors.ts'

/** A request that may be answered, and when it arrived; `name` is what stands for `*` in its path. */
export type Asked = { request: Request; name: string; nowMs: number }

/** What a route answers: a value, which becomes JSON; a text; or JSON lines while they are made. */
export type Replied =
  | { kind: 'value'; status: 200 | 201; value: unknown }
  | { kind: 'text'; text: string; type: string }
  | { kind: 'lines'; lines: ReadableStream<Uint8Array> }

export const ok = (value: unknown): Replied => ({ kind: 'value', status: 200, value })
export const created = (value: unknown): Replied => ({ kind: 'value', status: 201, value })

/** Answers a request. @throws AdminError, RuleError, StoreError. */
type AdminRoute = (asked: Asked) => Awaitable<Replied>

/** Routes by path, in which `*` stands for one segment, and method. */
export type AdminRoutes = { readonly [path: string]: { readonly [method: string]: AdminRoute } }

/** The text of a segment of a path. @throws AdminError NOT_FOUND when it is malformed. */
function decodeSegment(segment: string): string {
  let text: string
  try {
    text = decodeURIComponent(segment)
  } catch {
    throw nothingHere()
  }
  if (text.includes('\0')) throw nothingHere() // PostgreSQL refuses it in text, so nothing has it
  return text
}

const nothingHere = (): AdminError => new AdminError('NOT_FOUND', 'nothing is served here')

/** The route of a method and path. @throws AdminError NOT_FOUND, METHOD_NOT_ALLOWED */
export function findRoute(
  routes: AdminRoutes,
  method: string,
  path: string,
): { route: AdminRoute; name: string } {
  const segments = path.split('/')
  for (const [pattern, methods] of Object.entries(routes)) {
    const parts = pattern.split('/')
    const fits = (part: string, i: number): boolean =>
      part === '*' ? segments[i] !== '' : part === segments[i]
    if (parts.length !== segments.length || !parts.every(fits)) continue
    const route = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (route === undefined) {
      const allow = Object.keys(methods)
      const which = allow.join(' and ')
      throw new AdminError('METHOD_NOT_ALLOWED', `only ${which} can be done here`, { allow })
    }
    return { route, name: decodeSegment(segments[parts.indexOf('*')] ?? '') }
  }
  throw nothingHere()
}

/** The error of what a request brings, and of which member. */
export const invalid = (message: string, field?: string): AdminError =>
  new AdminError('INVALID_PARAMETER', message, { field })
export const conflict = (message: string): AdminError => new AdminError('CONFLICT', message)

const JSON_BYTES_MAX = 64 * 1024

const tooLong = (): AdminError =>
  new AdminError('BODY_TOO_LARGE', `the body may have at most ${JSON_BYTES_MAX / 1024} KiB`)

async function readText({ body, headers }: Request): Promise<string> {
  if (Number(headers.get('content-length') ?? 0) > JSON_BYTES_MAX) throw tooLong()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > JSON_BYTES_MAX) throw tooLong()
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

const isObject = (value: unknown): value is { [member: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object in the body of a request. @throws AdminError when there is none. */
export async function readObject(request: Request): Promise<{ [member: string]: unknown }> {
  requireJson(request)
  let value: unknown
  try {
    value = JSON.parse(await readText(request))
  } catch (error) {
    if (error instanceof AdminError) throw error
    throw invalid('the body must be a JSON object in UTF-8')
  }
  if (isObject(value)) return value
  throw invalid('the body must be a JSON object')
}

/** A value of JSON as the command line would spell it; `null` when it has no such form. */
function spell(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  if (!isObject(value)) return null
  const { requests, seconds } = value
  const areNumbers = typeof requests === 'number' && typeof seconds === 'number'
  return areNumbers ? `${requests}/${seconds}s` : null
}

/** Names of members that are settings, as they are written on the wire: `ping_unit`. */
export const wireName = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

type Members<N extends SettingName> = { [K in N]?: Exclude<Settings<N>[K], undefined> }

/**
 * What members of a request mean, by the parsers of the command line. `names` are those that may be
 * given; a `null` member is spelled as `nullAs` has it.
 * @throws AdminError naming a member that is not known, or what it accepts.
 */
export function readMembers<N extends SettingName>(
  given: { readonly [member: string]: unknown },
  names: readonly N[],
  nullAs: { readonly [name in N]?: string } = {},
): Members<N> {
  const known = new Map(names.map(name => [wireName(name), name]))
  const read = Object.entries(given).map(([member, value]) => {
    const name = known.get(member)
    if (name === undefined) throw invalid(unknown('member', member, [...known.keys()]))
    const text = value === null ? (nullAs[name] ?? null) : spell(value)
    try {
      if (text !== value && /^(?:label|note|from)$/.test(name)) throw new Expected('a string')
      if (text === null) throw new Expected('a string or a number')
      return [name, SETTINGS[name].read(text)]
    } catch (error) {
      if (error instanceof Expected) throw invalid(`${member} must be ${error.message}`, member)
      throw error
    }
  })
  return Object.fromEntries(read) as Members<N> // the table says what each parser returns
}

function unknown(what: string, name: string, names: readonly string[]): string {
  const near = nearest(name, names)
  const hint =
    near === null ? `; it may have ${names.join(', ') || 'none'}` : `; did you mean '${near}'?`
  return `unknown ${what}${shownName(name, '', near !== null)}${hint}`
}

/** The parameters of a query, each given once. @throws AdminError for others. */
export function readQuery(url: string, names: readonly string[]): { [name: string]: string } {
  const found: { [name: string]: string } = {}
  for (const { name, value } of splitQueryString(queryStringOf(url))) {
    if (name === null || value === null) throw invalid('the query must be valid UTF-8')
    if (names.length === 0) throw invalid('this takes no parameters')
    if (!names.includes(name)) throw invalid(unknown('parameter', name, names))
    if (Object.hasOwn(found, name)) throw invalid(`${name} may be given only once`)
    found[name] = value
  }
  return found
}
