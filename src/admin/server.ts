/** The admin listener (contract G3): the checks of a request, its route, and the response. */
import { resolve } from 'node:path'
import { type RuleCode, RuleError } from '../access/manage.ts'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import { guard } from './csrf.ts'
import { ADMIN_STATUS, type AdminCode, AdminError } from './errors.ts'
import { type AdminRoutes, findRoute, type Replied } from './route.ts'
import { checkToken } from './token.ts'

type AdminParts = {
  /** The data directory, with the token. */
  dir: string
  routes: AdminRoutes
  /** Serves the files of the console; `null` for other requests. */
  pages: (request: Request) => Promise<Response | null>
  /** Header fields of every response. */
  fields: { readonly [name: string]: string }
  metrics: () => Promise<{ text: string; type: string }>
  /** Whether metrics need no token. */
  metricsOpen: boolean
  clock: Clock
  log: Pick<Log, 'sayRepeated'>
}

const METRICS_PATH = '/metrics'

const LINES_TYPE = 'application/x-ndjson'
const JSON_TYPE = 'application/json; charset=utf-8'

/** The token of a request. @throws AdminError TOKEN_MISSING */
function tokenOf({ headers }: Request): string {
  const token = /^Bearer +(\S+)$/i.exec(headers.get('authorization')?.trim() ?? '')?.[1]
  if (token !== undefined) return token
  throw new AdminError('TOKEN_MISSING', 'a token is required: Authorization: Bearer TOKEN')
}

/** The command that makes a token for this listener. */
function signInCommand(dir: string, where: Listen): string {
  const quoted = (text: string): string =>
    /^[\w./:[\]-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
  const address = showListen(where).replace(/^http:\/\//, '')
  return `proxylist console --data ${quoted(resolve(dir))} --admin-listen ${quoted(address)}`
}

/** The codes of domain errors. All others are conflicts. */
const RULES: { readonly [code in RuleCode]?: AdminCode } = {
  invalid: 'INVALID_PARAMETER',
  'unknown-key': 'NOT_FOUND',
  'unknown-plan': 'NOT_FOUND',
}

const isOfStore = (thrown: unknown): boolean =>
  thrown instanceof StoreError || thrown instanceof CommandError

/** The error that the client sees. */
function toAdminError(thrown: unknown): AdminError {
  if (thrown instanceof AdminError) return thrown
  if (thrown instanceof RuleError) {
    return new AdminError(RULES[thrown.code] ?? 'CONFLICT', thrown.message)
  }
  if (isOfStore(thrown)) {
    const message = 'the data cannot be used now; stderr of the server says more'
    return new AdminError('DB_EXECUTE_FAILED', message)
  }
  const message = 'an internal error occurred; stderr of the server says more'
  return new AdminError('INTERNAL_ERROR', message)
}

export function createAdmin(parts: AdminParts) {
  const { dir, routes, pages, fields, metrics, metricsOpen, clock, log } = parts
  const plain = { ...fields, 'cache-control': 'no-store' }

  /** @throws AdminError TOKEN_MISSING, TOKEN_INVALID */
  function authenticate(request: Request): void {
    const found = checkToken(dir, tokenOf(request))
    if (found === 'right') return
    throw new AdminError(
      'TOKEN_INVALID',
      found === 'none'
        ? 'there is no token; make one with: proxylist console'
        : 'this token is wrong or has ended; make a new one with: proxylist console',
    )
  }

  function respond(replied: Replied): Response {
    const reply = (body: string | ReadableStream<Uint8Array>, type: string, status = 200) =>
      new Response(body, { status, headers: { ...plain, 'content-type': type } })
    if (replied.kind === 'lines') return reply(replied.lines, LINES_TYPE)
    if (replied.kind === 'text') return reply(replied.text, replied.type)
    return reply(JSON.stringify(replied.value), JSON_TYPE, replied.status)
  }

  async function answer(request: Request, where: Listen): Promise<Response> {
    const nowMs = clock()
    guard(request, where)
    const { method } = request
    const path = new URL(request.url).pathname
    const page = method === 'GET' ? await pages(request) : null
    if (page !== null) return page
    if (!(path === METRICS_PATH && metricsOpen)) authenticate(request)
    const { route, name } = findRoute(routesWithMetrics, method, path)
    return respond(await route({ request, name, nowMs }))
  }

  const routesWithMetrics: AdminRoutes = {
    ...routes,
    [METRICS_PATH]: { GET: async () => ({ kind: 'text', ...(await metrics()) }) },
  }

  function refuse(thrown: unknown, where: Listen): Response {
    const { code, message, allow } = toAdminError(thrown)
    const status = ADMIN_STATUS[code]
    if (status === 500 || isOfStore(thrown)) {
      const stack = status === 500 && thrown instanceof Error ? thrown.stack : undefined
      log.sayRepeated(`the console failed: ${stack ?? messageOf(thrown)}`)
    }
    const headers: { [name: string]: string } = { ...plain, 'content-type': JSON_TYPE }
    if (status === 401) headers['www-authenticate'] = 'Bearer'
    if (allow !== undefined) headers.allow = allow.join(', ')
    // The error body of spec 2.3, and how to sign in.
    const body = {
      ...{ status: 'error', code, message, timestamp: formatInstant(clock()) },
      ...(status === 401 && { command: signInCommand(dir, where) }),
    }
    return new Response(JSON.stringify(body), { status, headers })
  }

  return {
    /** Never rejects. */
    handle: (request: Request, where: Listen): Promise<Response> =>
      answer(request, where).catch(error => refuse(error, where)),
  }
}
