/** What of a new installation is set up: the checklist of its first day. */
import { BUILT_IN_PLANS } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import type { Observed } from '../metrics/observed.ts'
import type { AllTraffic } from '../metrics/traffic.ts'
import { type AdminRoutes, ok } from './route.ts'
import type { Setup } from './wire.ts'

type SetupParts = {
  registry: Pick<Registry, 'keys' | 'plans'>
  observed: Pick<Observed, 'extent' | 'feeds'>
  traffic: AllTraffic
  /** Where the page is; `null`: it is off, or nobody can tell. */
  pageUrl: string | null
  canHaveFeeds: boolean
}

async function setupOf(parts: SetupParts, nowMs: number): Promise<Setup> {
  const { registry, observed, traffic, pageUrl, canHaveFeeds } = parts
  const builtIn = new Map(BUILT_IN_PLANS.map(plan => [plan.name, plan]))
  const plans = await registry.plans.list()
  const opened = [...(traffic.routes.get('/')?.outcomes.values() ?? [])].some(
    ({ count }) => count > 0,
  )
  return {
    list: observed.extent().newestMs !== null,
    ...(canHaveFeeds && { feed: (await observed.feeds()).length > 0 }),
    plan: plans.some(plan => !Bun.deepEquals(plan, builtIn.get(plan.name))),
    key: (await registry.keys.count(nowMs)).total > 0,
    ...(pageUrl !== null && { page: opened }),
    page_url: pageUrl,
  }
}

export const setupRoutes = (parts: SetupParts): AdminRoutes => ({
  '/console/setup': { GET: async ({ nowMs }) => ok(await setupOf(parts, nowMs)) },
})
