/** The routes of keys and plans, with the rules of their commands. A change answers with the changed item, a new secret alone. */
import { keySubject } from '../access/entitlements.ts'
import { keyState, newKey } from '../access/key.ts'
import * as manage from '../access/manage.ts'
import { BUILT_IN_PLANS, type Plan, TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { UNUSED } from '../access/rate-limit.ts'
import { limitsLeft, operatorReport } from '../api/key-report.ts'
import { requirePlanName } from '../config/parsers.ts'
import { SETTINGS } from '../config/settings.ts'
import { formatInstant, formatInstantOrNull, utcDay } from '../lib/time.ts'
import { findKeys, PAGE_KEYS, readKeyQuery } from './key-page.ts'
import {
  type AdminRoutes,
  type Asked,
  created,
  invalid,
  ok,
  type Replied,
  readMembers,
  readObject,
} from './route.ts'

/** The default of a duration. */
const durationOf = (name: 'ttl' | 'overlap'): number =>
  SETTINGS[name].read(SETTINGS[name].fallback ?? '')

/** The items of a list, in the order of `ids`. Unknown ids are skipped. */
export async function describeKeys(registry: Registry, ids: readonly string[], nowMs: number) {
  const { keys, plans, usage } = registry
  const byId = new Map((await keys.list(nowMs, ids)).map(key => [key.id, key]))
  const byName = new Map((await plans.list()).map(plan => [plan.name, plan]))
  const { usages, nowMs: judgedMs } = await usage.peek(ids.map(keySubject), nowMs)
  const today = utcDay(nowMs)
  const uses = await usage.history(ids, today, today)
  return ids.flatMap((id, i) => {
    const key = byId.get(id)
    const plan = byName.get(key?.plan ?? TEMP_PLAN)
    if (!key || !plan) return []
    const use = uses[i] ?? { lastSeenMs: null, days: [] }
    return {
      id,
      prefix: key.prefix,
      label: key.label,
      note: key.note,
      plan: key.plan,
      state: keyState(key, nowMs),
      created: formatInstant(key.createdAt),
      expires: formatInstantOrNull(key.expiresAt),
      requests_today: key.requestsToday,
      refused_today: use.days[0]?.refused ?? 0,
      last_seen: formatInstantOrNull(use.lastSeenMs),
      limits: limitsLeft({ key, plan, used: usages[i] ?? UNUSED, judgedMs, use }),
    }
  })
}

const reportOf = async (registry: Registry, id: string, nowMs: number) =>
  operatorReport(await manage.factsOf(registry, id, nowMs), nowMs)

async function makeKey(registry: Registry, { request, nowMs }: Asked): Promise<Replied> {
  const { kind, ...given } = await readObject(request)
  if (kind !== 'regular' && kind !== 'temp') {
    throw invalid('kind must be regular or temp')
  }
  const key = newKey(kind)
  const read = kind === 'temp' ? readTemporary : readRegular
  const id = await manage.addKey(registry, { key, ...read(given, nowMs) }, nowMs)
  return created({ id, key })
}

/** The members of a regular key that an operator chooses. */
const CHANGEABLE = ['plan', 'label', 'note', 'from', 'expires'] as const

type Given = { readonly [member: string]: unknown }

function readTemporary(given: Given, nowMs: number) {
  const members = readMembers(given, ['ttl', 'label', 'note', 'from'])
  const { ttl = durationOf('ttl'), label = '', note = '', from = '' } = members
  const expiresAt = manage.futureExpiry(nowMs + ttl, nowMs, 'ttl')
  return { label, note, from, plan: null, expiresAt }
}

function readRegular(given: Given, nowMs: number) {
  const members = readMembers(given, CHANGEABLE)
  const { plan = manage.STANDARD_PLAN, label = '', note = '', from = '', expires } = members
  return { label, note, from, plan, expiresAt: manage.endOf(expires, nowMs, 'expires') }
}

/** Changes the given members of a key. */
async function setKey(registry: Registry, { request, name: id, nowMs }: Asked): Promise<Replied> {
  const given = await readObject(request)
  const members = readMembers(given, CHANGEABLE)
  const { expires, ...rest } = members
  if (Object.keys(members).length === 0) {
    throw invalid('nothing to change: give plan, label, note, from or expires')
  }
  const changes = {
    ...rest,
    ...(expires !== undefined && { expiresAt: manage.endOf(expires, nowMs, 'expires') }),
  }
  await manage.changeKey(registry, id, changes, nowMs)
  return ok(await reportOf(registry, id, nowMs))
}

/** Gives a key a new secret; `overlap_until`: when the old one ends, `null` at once. */
async function rotate(registry: Registry, { request, name: id, nowMs }: Asked): Promise<Replied> {
  const { overlap: overlapMs = durationOf('overlap') } = readMembers(await readObject(request), [
    'overlap',
  ])
  const change = { overlapMs, option: 'overlap' }
  const { key, untilMs } = await manage.rotateKey(registry, id, change, nowMs)
  return ok({ key, overlap_until: overlapMs === 0 ? null : formatInstant(untilMs) })
}

/** A change without members. */
const changing =
  (registry: Registry, change: (id: string, nowMs: number) => Promise<void>) =>
  async ({ request, name: id, nowMs }: Asked): Promise<Replied> => {
    readMembers(await readObject(request), [])
    await change(id, nowMs)
    return ok(await reportOf(registry, id, nowMs))
  }

export async function listPage(registry: Registry, { request, nowMs }: Asked) {
  const { ids, ...found } = await findKeys(registry.keys, readKeyQuery(request.url), nowMs)
  return { ...found, page_keys: PAGE_KEYS, keys: await describeKeys(registry, ids, nowMs) }
}

export const keyRoutes = (registry: Registry): AdminRoutes => ({
  '/console/keys': {
    GET: async asked => ok(await listPage(registry, asked)),
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
  '/console/keys/*/rotate': { POST: asked => rotate(registry, asked) },
  '/console/keys/*/revoke': {
    POST: changing(registry, (id, nowMs) => manage.revokeKey(registry, id, nowMs)),
  },
  '/console/keys/*/reset': {
    POST: changing(registry, (id, nowMs) => manage.resetKey(registry, id, 'all', nowMs)),
  },
})

const PLAN_MEMBERS = [
  ...(['burst', 'daily', 'subnets', 'clients', 'count', 'downloads', 'enabled'] as const),
]

/** All plans by name, with the number of their keys (with revoked ones). */
async function listPlans({ keys, plans }: Registry) {
  const count = new Map((await keys.countByPlan()).map(({ plan, keys }) => [plan, keys]))
  const countOf = ({ name }: Plan): number => count.get(name === TEMP_PLAN ? null : name) ?? 0
  return (await plans.list()).map(plan => ({
    ...{ ...plan, keys: countOf(plan) },
    built_in: BUILT_IN_PLANS.some(({ name }) => name === plan.name),
  }))
}

async function setPlan(registry: Registry, { request, name }: Asked): Promise<Replied> {
  requirePlanName(name, 'the name')
  const { enabled, ...limits } = readMembers(await readObject(request), PLAN_MEMBERS)
  const changes = { ...limits, ...(enabled !== undefined && { enabled: enabled === 'on' }) }
  manage.requireUseful(name, Object.keys(limits), '')
  await registry.plans.set({ ...changes, name })
  return ok((await listPlans(registry)).find(plan => plan.name === name))
}

export const planRoutes = (registry: Registry): AdminRoutes => ({
  '/console/plans': {
    GET: async () => ok({ plans: await listPlans(registry) }),
  },
  '/console/plans/*': {
    PUT: asked => setPlan(registry, asked),
    async DELETE({ name }) {
      await manage.removePlan(registry.plans, name)
      return ok({})
    },
  },
})
