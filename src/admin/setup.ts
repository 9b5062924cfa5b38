/** What of a new installation is set up: the checklist of its first day. */
import { BUILT_IN_PLANS } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import type { Observed } from '../metrics/observed.ts'
import type { AllTraffic } from '../metrics/traffic.ts'

type SetupParts = {
  registry: Pick<Registry, 'keys' | 'plans'>
  observed: Pick<Observed, 'checks' | 'feeds'>
  traffic: AllTraffic
  hasPage: boolean
  canHaveFeeds: boolean
}

/** Which steps are done; those that this server does not have are missing. */
export async function setupOf(parts: SetupParts, nowMs: number) {
  const { registry, observed, traffic, hasPage, canHaveFeeds } = parts
  const builtIn = new Map(BUILT_IN_PLANS.map(plan => [plan.name, plan]))
  const plans = await registry.plans.list()
  const opened = [...(traffic.routes.get('/')?.outcomes.values() ?? [])].some(
    ({ count }) => count > 0,
  )
  return {
    list: observed.checks().newest !== null,
    ...(canHaveFeeds && { feed: (await observed.feeds()).length > 0 }),
    plan: plans.some(plan => !Bun.deepEquals(plan, builtIn.get(plan.name))),
    key: (await registry.keys.count(nowMs)).total > 0,
    ...(hasPage && { page: opened }),
  }
}
