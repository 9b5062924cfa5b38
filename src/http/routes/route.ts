/** Owns what a route is: what it gets of a request, and how it ends it. */
import { ApiError } from '../../api/errors.ts'
import type { Refused } from '../../api/handler.ts'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { METHODS, type Reply } from '../reply.ts'

/**
 * A request and when it arrived. `ip` finds the client's address, in a microsecond; the connection
 * must still be open, so a route that needs it calls it before it waits for anything.
 */
export type Incoming = { request: Request; isHead: boolean; ip: () => string; nowMs: number }
/** Ends a request with `end`, at once or later. A route may throw, but its promise never rejects. */
export type Route = (incoming: Incoming, end: End) => Awaitable<Response>
export type End = (routed: Reply | Refused) => Awaitable<Response>

/** The route of other methods. */
export const methodNotAllowed: Route = () => {
  throw new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)
}

/** The error of a path that is not served. */
export const noSuchPath = (): ApiError =>
  new ApiError(
    'NOT_FOUND',
    'nothing is served here; the list is at /api, and /openapi.json describes it',
  )

/** The route of every other path. */
export const notFound: Route = () => {
  throw noSuchPath()
}
