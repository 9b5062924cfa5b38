/** CORS (Fetch standard). Preflights carry no key and do not count. */
import type { Origins } from '../config/parsers.ts'
import { COMMON_HEADERS, type HeaderFields, METHODS, plainText, type Reply } from './reply.ts'

export function createCors(origins: Origins) {
  // Scripts may always read some fields, and these.
  const exposed = {
    'access-control-expose-headers':
      'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Content-Disposition',
  }
  const forAll: HeaderFields = { ...exposed, 'access-control-allow-origin': '*' }
  const forOthers: HeaderFields = { vary: 'Origin' }
  const byOrigin = new Map<string, HeaderFields>()
  if (origins.kind === 'some') {
    for (const origin of origins.list) {
      byOrigin.set(origin, { ...forOthers, ...exposed, 'access-control-allow-origin': origin })
    }
  }

  return {
    /** The fields of an answer to a request from `origin`. Do not change the object: it is shared. */
    fields: (origin: string | null): HeaderFields =>
      origins.kind === 'all' ? forAll : (byOrigin.get(origin ?? '') ?? forOthers),
    /** The reply to a preflight; `null` for other requests. `*` does not allow Authorization, so it is named. */
    preflight: ({ method, headers }: Request): Reply | null => {
      const isPreflight =
        method === 'OPTIONS' &&
        headers.has('origin') &&
        headers.has('access-control-request-method')
      return isPreflight ? PREFLIGHT : null
    },
  }
}

const PREFLIGHT: Reply = {
  ...plainText(''),
  status: 204,
  headers: new Headers({
    ...COMMON_HEADERS,
    'access-control-allow-methods': METHODS.join(', '),
    'access-control-allow-headers': 'Authorization, *',
    'access-control-max-age': '7200', // Chromium accepts no more
  }),
}
