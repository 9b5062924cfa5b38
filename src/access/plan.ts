/** Plans: the limits of their keys, and the built-in plans (contract B2, B4, B5). */

/** The limits of a plan; `null` is unlimited. */
export type Plan = {
  name: string
  /** At most `requests` in every interval of `seconds`. */
  burst: { requests: number; seconds: number } | null
  /** Requests per UTC day. */
  daily: number | null
  /** Unique /16 networks of the proxies served per UTC day. */
  subnets: number | null
  /** Unique networks of the callers per UTC day. */
  clients: number | null
  /** Most records in one answer. */
  count: number | null
  /** Most streams at once (`api/answer.ts`), per key, or per client address for `demo` and `temp_` keys (B9). */
  downloads: number | null
  /** Whether the keys of the plan are accepted. */
  enabled: boolean
}

/** The plans of the key `demo` and of temporary keys; no regular key is on them. */
export const DEMO_PLAN = 'demo'
export const TEMP_PLAN = 'temp'

const planOf = (
  name: string,
  [requests, seconds]: readonly [number, number],
  limits: Pick<Plan, 'downloads'> & Partial<Plan>,
): Plan => ({
  name,
  burst: { requests, seconds },
  daily: null,
  subnets: null,
  clients: null,
  count: null,
  enabled: true,
  ...limits,
})

/** The plans of every installation. They cannot be removed. */
export const BUILT_IN_PLANS: readonly [Plan, ...Plan[]] = [
  planOf('standard', [5, 5], { daily: 34_560, downloads: 4 }),
  planOf('classic', [2, 5], { daily: 34_560, subnets: 10, downloads: 4 }),
  planOf(DEMO_PLAN, [2, 60], { count: 50, downloads: 1 }),
  planOf(TEMP_PLAN, [2, 3600], { count: 30, downloads: 1 }),
]

export type PlanChanges = Pick<Plan, 'name'> & Partial<Plan>

/** The plan after `changes`. Omitted values come from the existing plan, or from `standard` for a new one. */
export const changedPlan = (plans: readonly Plan[], changes: PlanChanges): Plan => ({
  ...(plans.find(({ name }) => name === changes.name) ?? BUILT_IN_PLANS[0]),
  ...changes,
})
