/** The routes of keys and of plans: what their commands do, by the same rules. A write answers with what it changed. */
import { keyState, type ListedKey, newKey } from '../access/key.ts'
import * as manage from '../access/manage.ts'
import { type Plan, TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { operatorReport } from '../api/key-report.ts'
import { requirePlanName } from '../config/parsers.ts'
import { SETTINGS } from '../config/settings.ts'
import { formatInstant, formatInstantOrNull, utcDay } from '../lib/time.ts'
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

/** Keys with their state, use of today and when they were last seen, in their order. */
export async function describeKeys(
  { plans, usage }: Registry,
  keys: readonly ListedKey[],
  nowMs: number,
) {
  const daily = new Map((await plans.list()).map(plan => [plan.name, plan.daily]))
  const today = utcDay(nowMs)
  const ids = keys.map(({ id }) => id)
  const uses = await usage.history(ids, today, today)
  return keys.map((key, i) => ({
    id: key.id,
    prefix: key.prefix,
    label: key.label,
    note: key.note,
    plan: key.plan,
    state: keyState(key, nowMs),
    created: formatInstant(key.createdAt),
    expires: formatInstantOrNull(key.expiresAt),
    requests_today: key.requestsToday,
    daily_limit: daily.get(key.plan ?? TEMP_PLAN) ?? null,
    last_seen: formatInstantOrNull(uses[i]?.lastSeenMs ?? null),
  }))
}

/** Everything that is known of a key, as it is now. */
const reportOf = async (registry: Registry, id: string, nowMs: number) =>
  operatorReport(await manage.factsOf(registry, id, nowMs), nowMs)

/** The one answer with the secret of a new key. */
async function makeKey(registry: Registry, { request, nowMs }: Asked): Promise<Replied> {
  const { kind, ...given } = await readObject(request)
  if (kind !== 'regular' && kind !== 'temp') {
    throw new AdminError('INVALID_PARAMETER', 'kind must be regular or temp')
  }
  const key = newKey(kind)
  const read = kind === 'temp' ? readTemporary : readRegular
  const id = await manage.addKey(registry, { key, ...read(given, nowMs) }, nowMs)
  const [item] = await describeKeys(
    registry,
    [await manage.findKey(registry.keys, id, nowMs)],
    nowMs,
  )
  return created({ ...item, key })
}

/** What is chosen of a regular key. */
const CHANGEABLE = ['plan', 'label', 'note', 'expires'] as const

type Given = { readonly [member: string]: unknown }

function readTemporary(given: Given, nowMs: number) {
  const members = readMembers(given, ['ttl', 'label', 'note'])
  const { ttl = durationOf('ttl'), label = '', note = '' } = members
  return { label, note, plan: null, expiresAt: manage.futureExpiry(nowMs + ttl, nowMs, 'ttl') }
}

function readRegular(given: Given, nowMs: number) {
  const members = readMembers(given, CHANGEABLE, { expires: 'never' })
  const { plan = manage.STANDARD_PLAN, label = '', note = '', expires } = members
  return { label, note, plan, expiresAt: manage.endOf(expires, nowMs, 'expires') }
}

/** Changes a key; what is not given stays. */
async function setKey(registry: Registry, { request, name: id, nowMs }: Asked): Promise<Replied> {
  const given = await readObject(request)
  const members = readMembers(given, CHANGEABLE, { expires: 'never' })
  const { expires, ...rest } = members
  if (Object.keys(members).length === 0) {
    throw new AdminError(
      'INVALID_PARAMETER',
      'nothing to change: give plan, label, note or expires',
    )
  }
  const changes = {
    ...rest,
    ...(expires !== undefined && { expiresAt: manage.endOf(expires, nowMs, 'expires') }),
  }
  await manage.changeKey(registry, id, changes, nowMs)
  return ok(await reportOf(registry, id, nowMs))
}

/** Gives a key a new secret; `overlap_until`: when the old one ends, `null` at once. */
export async function rotate(registry: Registry, { request, name: id, nowMs }: Asked) {
  const { overlap: overlapMs = durationOf('overlap') } = readMembers(await readObject(request), [
    'overlap',
  ])
  const change = { overlapMs, option: 'overlap' }
  const { key, untilMs } = await manage.rotateKey(registry, id, change, nowMs)
  return {
    ...{ id, key, overlap_until: overlapMs === 0 ? null : formatInstant(untilMs) },
    report: await reportOf(registry, id, nowMs),
  }
}

/** A change that takes no members. */
const changing =
  (registry: Registry, change: (id: string, nowMs: number) => Promise<void>) =>
  async ({ request, name: id, nowMs }: Asked): Promise<Replied> => {
    readMembers(await readObject(request), [])
    await change(id, nowMs)
    return ok(await reportOf(registry, id, nowMs))
  }

export const keyRoutes = (registry: Registry): AdminRoutes => ({
  '/console/keys': {
    GET: async ({ nowMs }) =>
      ok({ keys: await describeKeys(registry, await registry.keys.list(nowMs), nowMs) }),
    POST: asked => makeKey(registry, asked),
  },
  '/console/keys/*': {
    GET: async ({ name, nowMs }) => ok(await reportOf(registry, name, nowMs)),
    POST: asked => setKey(registry, asked),
    async DELETE({ name }) {
      await manage.removeKey(registry, name)
      return ok({})
    },
  },
  '/console/keys/*/rotate': { POST: async asked => ok(await rotate(registry, asked)) },
  '/console/keys/*/revoke': {
    POST: changing(registry, (id, nowMs) => manage.revokeKey(registry, id, nowMs)),
  },
  '/console/keys/*/reset': {
    POST: changing(registry, (id, nowMs) => manage.resetKey(registry, id, 'all', nowMs)),
  },
})

/** Limits of a plan that `null` makes unlimited. */
const LIMITS = ['burst', 'daily', 'subnets', 'clients', 'count', 'downloads'] as const
const UNLIMITED = Object.fromEntries(LIMITS.map(name => [name, 'unlimited']))

/** All plans by name, and how many keys have each, revoked ones included. */
async function listPlans({ keys, plans }: Registry, nowMs: number) {
  const count = new Map<string | null, number>()
  for (const { plan } of await keys.list(nowMs)) count.set(plan, (count.get(plan) ?? 0) + 1)
  const countOf = ({ name }: Plan): number => count.get(name === TEMP_PLAN ? null : name) ?? 0
  return (await plans.list()).map(plan => ({ ...plan, keys: countOf(plan) }))
}

async function setPlan(registry: Registry, { request, name, nowMs }: Asked): Promise<Replied> {
  requirePlanName(name, 'the name')
  const { enabled: given, ...limits } = await readObject(request)
  const enabled = typeof given === 'boolean' ? (given ? 'on' : 'off') : given
  const { enabled: state, ...changes } = readMembers(
    given === undefined ? limits : { ...limits, enabled },
    [...LIMITS, 'enabled'],
    UNLIMITED,
  )
  manage.requireUseful(name, Object.keys(changes), '')
  await manage.changePlan(registry.plans, name, {
    ...changes,
    ...(state !== undefined && { enabled: state === 'on' }),
  })
  return ok((await listPlans(registry, nowMs)).find(plan => plan.name === name))
}

export const planRoutes = (registry: Registry): AdminRoutes => ({
  '/console/plans': {
    GET: async ({ nowMs }) => ok({ plans: await listPlans(registry, nowMs) }),
  },
  '/console/plans/*': {
    PUT: asked => setPlan(registry, asked),
    async DELETE({ name }) {
      await manage.removePlan(registry.plans, name)
      return ok({})
    },
  },
})
