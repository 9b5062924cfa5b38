/**
 * Refuses requests from pages of other sites. Such a page can reach a loopback address, also by a name
 * that resolves to it (DNS rebinding), but cannot choose these header fields.
 */
import { isIP } from 'node:net'
import type { Listen } from '../config/parsers.ts'
import { AdminError } from './errors.ts'

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']
const WILDCARDS = ['0.0.0.0', '::']

const bare = (name: string): string => name.replace(/^\[|\]$/g, '')

/** The name and port in a `Host` field; `null` if it is malformed. */
function parseHost(host: string): { name: string; port: number } | null {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/.exec(host)
  return match && { name: match[1] ?? '', port: Number(match[2] ?? 80) }
}

/**
 * Whether a `Host` field, in lower case, names this listener. A listener on all addresses accepts any IP
 * address, because only names can be rebound. The client chooses the port of a tunnel to a unix socket.
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

/** @throws AdminError for a request from another site */
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
}

const FORMS = ['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain']

const typeOf = (request: Request): string =>
  (request.headers.get('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** @throws AdminError for body types that forms of other sites can send */
export function refuseForms(request: Request): void {
  const type = typeOf(request)
  if (!FORMS.includes(type)) return
  throw new AdminError(
    'CONTENT_TYPE_REFUSED',
    `Content-Type ${type} is what forms send; send application/octet-stream`,
  )
}

/** @throws AdminError unless the body is declared as JSON */
export function requireJson(request: Request): void {
  if (typeOf(request) === 'application/json') return
  throw new AdminError('CONTENT_TYPE_REFUSED', 'Content-Type must be application/json')
}
