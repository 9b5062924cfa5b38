/** Routes of the admin listener, and the parsers of their bodies and queries. */
import { Expected } from '../config/parsers.ts'
import { SETTINGS, type SettingName, type Settings } from '../config/settings.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import { shownName } from '../lib/redact.ts'
import { requireJson } from './csrf.ts'
import { AdminError } from './errors.ts'

/** An accepted request and its time; `name` is the segment that matches `*` in the path. */
export type Asked = { request: Request; name: string; nowMs: number }

/** The answer of a route: a value for JSON, a text, or a stream of JSON lines. */
export type Replied =
  | { kind: 'value'; status: 200 | 201; value: unknown }
  | { kind: 'text'; text: string; type: string }
  | { kind: 'lines'; lines: ReadableStream<Uint8Array> }

export const ok = (value: unknown): Replied => ({ kind: 'value', status: 200, value })
export const created = (value: unknown): Replied => ({ kind: 'value', status: 201, value })

/** @throws AdminError, RuleError, StoreError */
type AdminRoute = (asked: Asked) => Awaitable<Replied>

/** Routes by path and method. `*` matches one segment. */
export type AdminRoutes = { readonly [path: string]: { readonly [method: string]: AdminRoute } }

/** The text of a path segment. @throws AdminError NOT_FOUND for a malformed one */
function decodeSegment(segment: string): string {
  let text: string
  try {
    text = decodeURIComponent(segment)
  } catch {
    throw nothingHere()
  }
  if (text.includes('\0')) throw nothingHere() // PostgreSQL refuses it
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
      throw new AdminError('METHOD_NOT_ALLOWED', `only ${which} is allowed here`, allow)
    }
    return { route, name: decodeSegment(segments[parts.indexOf('*')] ?? '') }
  }
  throw nothingHere()
}

export const invalid = (message: string): AdminError => new AdminError('INVALID_PARAMETER', message)
export const conflict = (message: string): AdminError => new AdminError('CONFLICT', message)

const JSON_BYTES_MAX = 64 * 1024

const isObject = (value: unknown): value is { [member: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object in the body of a request. @throws AdminError if there is none */
export async function readObject(request: Request): Promise<{ [member: string]: unknown }> {
  requireJson(request)
  const text = await request.text()
  if (text.length > JSON_BYTES_MAX) {
    const message = `the body may have at most ${JSON_BYTES_MAX / 1024} KiB`
    throw new AdminError('BODY_TOO_LARGE', message)
  }
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // The same error as for another value.
  }
  throw invalid('the body must be a JSON object')
}

/** The name of a setting on the wire: `ping_unit`. */
export const wireName = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

type Members<N extends SettingName> = { [K in N]?: Exclude<Settings<N>[K], undefined> }

/**
 * Reads members, which are strings, with the parsers of the command line. Only `names` may be given.
 * @throws AdminError for an unknown member or a bad value; its message names the accepted ones
 */
export function readMembers<N extends SettingName>(
  given: { readonly [member: string]: unknown },
  names: readonly N[],
): Members<N> {
  const known = new Map(names.map(name => [wireName(name), name]))
  const read = Object.entries(given).map(([member, value]) => {
    const name = known.get(member)
    if (name === undefined) throw invalid(unknown('member', member, [...known.keys()]))
    try {
      if (typeof value !== 'string') throw new Expected('a string')
      return [name, SETTINGS[name].read(value)]
    } catch (error) {
      if (error instanceof Expected) throw invalid(`${member} must be ${error.message}`)
      throw error
    }
  })
  return Object.fromEntries(read) as Members<N> // the table says what each parser returns
}

const unknown = (what: string, name: string, names: readonly string[]): string =>
  `unknown ${what}${shownName(name, '', false)}; it may have ${names.join(', ') || 'none'}`

/** The parameters of a query. @throws AdminError for unknown or repeated ones */
export function readQuery(url: string, names: readonly string[]): { [name: string]: string } {
  const found: { [name: string]: string } = {}
  for (const { name, value } of splitQueryString(queryStringOf(url))) {
    if (name === null || value === null) throw invalid('the query must be valid UTF-8')
    if (!names.includes(name)) throw invalid(unknown('parameter', name, names))
    if (Object.hasOwn(found, name)) throw invalid(`${name} may be given only once`)
    found[name] = value
  }
  return found
}
