/** Owns the routes of keys: what the `keys` commands do, with the same rules and sentences. */
import { keyState, type ListedKey, newKey } from '../access/key.ts'
import {
  addKey,
  changeKey,
  endOf,
  factsOf,
  futureExpiry,
  removeKey,
  resetKey,
  revokeKey,
  rotateKey,
  STANDARD_PLAN,
} from '../access/manage.ts'
import { TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { operatorReport } from '../api/key-report.ts'
import { SETTINGS } from '../config/settings.ts'
import { formatInstant, utcDay } from '../lib/time.ts'
import { AdminError } from './errors.ts'
import {
  type AdminRoutes,
  type Asked,
  created,
  ok,
  type Replied,
  readMembers,
  readObject,
} from './route.ts'

/** The value of a duration that is not given. */
const durationOf = (name: 'ttl' | 'overlap'): number =>
  SETTINGS[name].read(SETTINGS[name].fallback ?? '')

const orNull = (ms: number | null): string | null => (ms === null ? null : formatInstant(ms))

/** Keys with their state, use of today and when they were last seen, in their order. */
async function describe({ plans, usage }: Registry, keys: readonly ListedKey[], nowMs: number) {
  const daily = new Map((await plans.list()).map(plan => [plan.name, plan.daily]))
  const today = utcDay(nowMs)
  const ids = keys.map(({ id }) => id)
  const uses = await usage.history(ids, today, today)
  return keys.map((key, i) => ({
    id: key.id,
    prefix: key.prefix,
    label: key.label,
    plan: key.plan,
    state: keyState(key, nowMs),
    created: formatInstant(key.createdAt),
    expires: orNull(key.expiresAt),
    requests_today: key.requestsToday,
    daily_limit: daily.get(key.plan ?? TEMP_PLAN) ?? null,
    last_seen: orNull(uses[i]?.lastSeenMs ?? null),
  }))
}

/** The one answer with the secret of a new key. */
async function makeKey(registry: Registry, { request, nowMs }: Asked): Promise<Replied> {
  const { kind, ...given } = await readObject(request)
  if (kind !== 'regular' && kind !== 'temp') {
    throw new AdminError('INVALID_PARAMETER', 'kind must be regular or temp')
  }
  const key = newKey(kind)
  if (kind === 'temp') {
    const { ttl = durationOf('ttl'), label = '' } = readMembers(given, ['ttl', 'label'])
    const expiresAt = futureExpiry(nowMs + ttl, nowMs, 'ttl')
    const id = await addKey(registry, { key, label, plan: null, expiresAt }, nowMs)
    return created({ id, key })
  }
  const members = readMembers(given, ['plan', 'label', 'expires'], { expires: 'never' })
  const { plan = STANDARD_PLAN, label = '', expires } = members
  const expiresAt = endOf(expires, nowMs, 'expires')
  const id = await addKey(registry, { key, label, plan, expiresAt }, nowMs)
  return created({ id, key })
}

/** Changes a key; what is not given stays. */
async function setKey(registry: Registry, { request, name: id, nowMs }: Asked): Promise<Replied> {
  const given = await readObject(request)
  const members = readMembers(given, ['plan', 'label', 'expires'], { expires: 'never' })
  const { expires, ...rest } = members
  if (Object.keys(members).length === 0) {
    throw new AdminError('INVALID_PARAMETER', 'nothing to change: give plan, label or expires')
  }
  const changes = {
    ...rest,
    ...(expires !== undefined && { expiresAt: endOf(expires, nowMs, 'expires') }),
  }
  const changed = await changeKey(registry, id, changes, nowMs)
  return ok((await describe(registry, [changed], nowMs))[0])
}

async function rotate(registry: Registry, { request, name: id, nowMs }: Asked): Promise<Replied> {
  const { overlap: overlapMs = durationOf('overlap') } = readMembers(await readObject(request), [
    'overlap',
  ])
  const change = { overlapMs, option: 'overlap' }
  const { key, untilMs } = await rotateKey(registry, id, change, nowMs)
  return ok({ id, key, overlap_until: overlapMs === 0 ? null : formatInstant(untilMs) })
}

/** A change that takes no members, and is answered with an empty object. */
async function without(request: Request, change: () => Promise<void>): Promise<Replied> {
  readMembers(await readObject(request), [])
  await change()
  return ok({})
}

export const keyRoutes = (registry: Registry): AdminRoutes => ({
  '/console/keys': {
    GET: async ({ nowMs }) =>
      ok({ keys: await describe(registry, await registry.keys.list(nowMs), nowMs) }),
    POST: asked => makeKey(registry, asked),
  },
  '/console/keys/*': {
    GET: async ({ name, nowMs }) => ok(operatorReport(await factsOf(registry, name, nowMs), nowMs)),
    POST: asked => setKey(registry, asked),
    async DELETE({ name }) {
      await removeKey(registry, name)
      return ok({})
    },
  },
  '/console/keys/*/rotate': { POST: asked => rotate(registry, asked) },
  '/console/keys/*/revoke': {
    POST: ({ request, name, nowMs }) => without(request, () => revokeKey(registry, name, nowMs)),
  },
  '/console/keys/*/reset': {
    POST: ({ request, name, nowMs }) =>
      without(request, () => resetKey(registry, name, 'all', nowMs)),
  },
})
