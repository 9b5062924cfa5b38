/** The routes of plans: what the `plans` commands do, with the same rules and sentences. */
import { changePlan, refuseTemporaryName, removePlan, requireUseful } from '../access/manage.ts'
import { type Plan, TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { Expected } from '../config/parsers.ts'
import { SETTINGS } from '../config/settings.ts'
import { AdminError } from './errors.ts'
import { type AdminRoutes, type Asked, ok, type Replied, readMembers, readObject } from './route.ts'

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

/** @throws AdminError for a name that no plan can have. */
function requireName(name: string): void {
  refuseTemporaryName(name, 'the name')
  try {
    SETTINGS.plan.read(name)
  } catch (error) {
    if (!(error instanceof Expected)) throw error
    throw new AdminError('INVALID_PARAMETER', `the name must be ${error.message}`)
  }
}

async function setPlan(registry: Registry, { request, name, nowMs }: Asked): Promise<Replied> {
  requireName(name)
  const { enabled: given, ...limits } = await readObject(request)
  const enabled = typeof given === 'boolean' ? (given ? 'on' : 'off') : given
  const { enabled: state, ...changes } = readMembers(
    given === undefined ? limits : { ...limits, enabled },
    [...LIMITS, 'enabled'],
    UNLIMITED,
  )
  requireUseful(name, Object.keys(changes), '')
  await changePlan(registry.plans, name, {
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
      await removePlan(registry.plans, name)
      return ok({})
    },
  },
})
