/**
 * Which requests the admin listener may look at: those that its own page or a program sends.
 * A page of another site that a browser shows can send requests to a loopback address, also under a
 * name of its own that resolves there (DNS rebinding); it cannot choose these header fields.
 */
import { isIP } from 'node:net'
import type { Listen } from '../config/parsers.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import { AdminError } from './errors.ts'

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']
const WILDCARDS = ['0.0.0.0', '::']

const bare = (name: string): string => name.replace(/^\[|\]$/g, '')

/** The name and port of a `Host` field; `null` when it is malformed. */
function parseHost(host: string): { name: string; port: number } | null {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/.exec(host)
  return match && { name: match[1] ?? '', port: Number(match[2] ?? 80) }
}

/**
 * Whether a `Host` field, in lower case, names this listener. Where it listens on all addresses, that
 * is any IP address: only a name can be made to resolve to another machine. A unix socket is reached
 * through a tunnel, whose port is the client's choice.
 */
export function isOwnHost(host: string, where: Listen): boolean {
  const given = parseHost(host)
  if (given === null) return false
  const { name, port } = given
  if (where.kind === 'unix') return LOOPBACK.includes(name)
  if (port !== where.port) return false
  if (LOOPBACK.includes(name) || bare(name) === where.hostname.toLowerCase()) return true
  return WILDCARDS.includes(where.hostname) && isIP(bare(name)) > 0
}

/** Names under which somebody may put a token into a URL. */
const TOKEN_NAMES = /^(?:token|access_token|key|auth|authorization|bearer)$/i

/** @throws AdminError unless a request may be looked at. */
export function guard(request: Request, where: Listen): void {
  const { headers } = request
  const host = headers.get('host')?.toLowerCase() ?? ''
  if (!isOwnHost(host, where)) {
    throw new AdminError(
      'HOST_REFUSED',
      'the Host of this request is not the address of the admin listener; use the one that proxylist console prints',
    )
  }
  const origin = headers.get('origin')
  const site = headers.get('sec-fetch-site')
  const isForeign = origin !== null && origin.toLowerCase() !== `http://${host}`
  if (isForeign || (site !== null && !['same-origin', 'none'].includes(site))) {
    throw new AdminError(
      'ORIGIN_REFUSED',
      'this request was sent by a page of another site; open the console itself',
    )
  }
  const query = splitQueryString(queryStringOf(request.url))
  if (query.some(({ name }) => name !== null && TOKEN_NAMES.test(name))) {
    throw new AdminError(
      'TOKEN_IN_URL',
      'a token in a URL ends up in logs and histories; send it as Authorization: Bearer TOKEN',
    )
  }
}

const FORMS = ['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain']

const typeOf = (request: Request): string =>
  (request.headers.get('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** @throws AdminError for the types of bodies that a form of any page can send. */
export function refuseForms(request: Request): void {
  const type = typeOf(request)
  if (!FORMS.includes(type)) return
  throw new AdminError(
    'CONTENT_TYPE_REFUSED',
    `Content-Type ${type} is what forms send; send application/octet-stream`,
  )
}

/** @throws AdminError unless the body is declared as JSON. */
export function requireJson(request: Request): void {
  if (typeOf(request) === 'application/json') return
  throw new AdminError('CONTENT_TYPE_REFUSED', 'Content-Type must be application/json')
}
