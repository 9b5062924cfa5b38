/** The limits of a plan as text fields, in the forms of the command line. Pure. */
import type { Plan } from '../../admin/api-types.ts'

export const UNLIMITED = 'unlimited'

export const LIMIT_WORDS = {
  burst: { name: 'Burst', hint: 'requests per time, such as 5/5s' },
  daily: { name: 'Per day', hint: 'requests per UTC day' },
  subnets: { name: 'Networks served', hint: '/16 networks of the proxies served, per day' },
  clients: { name: 'Networks of callers', hint: '/16 networks that ask, per day' },
  count: { name: 'Records', hint: 'most records in one answer' },
  downloads: { name: 'Long answers', hint: 'at once, per key' },
} as const
export type LimitName = keyof typeof LIMIT_WORDS
type PlanFields = { [limit in LimitName]: string }

export const LIMITS = Object.keys(LIMIT_WORDS) as LimitName[] // of all limits

/** Plans of `demo` and of temporary keys count no networks. */
export const limitsOf = (name: string): readonly LimitName[] =>
  name === 'demo' || name === 'temp'
    ? LIMITS.filter(limit => limit !== 'subnets' && limit !== 'clients')
    : LIMITS

/** The limits of a plan as `5/5s`, numbers, or `unlimited`. */
export function fieldsOf({ burst, ...limits }: Plan): PlanFields {
  const texts = { ...limits, burst: burst && `${burst.requests}/${burst.seconds}s` }
  const fields = LIMITS.map(limit => [limit, String(texts[limit] ?? UNLIMITED)])
  return Object.fromEntries(fields) as PlanFields // of all limits
}

/** What a new plan starts with: the built-in `standard`. */
export const STANDARD: PlanFields = {
  ...{ burst: '5/5s', daily: '34560', downloads: '4' },
  ...{ subnets: UNLIMITED, clients: UNLIMITED, count: UNLIMITED },
}

/** The members that differ; only they are sent, and the server says what is wrong with them. */
export const changesOf = (
  before: PlanFields | null,
  after: PlanFields,
  limits: readonly LimitName[],
): { [limit: string]: string } =>
  Object.fromEntries(
    limits
      .map(limit => [limit, after[limit].trim()] as const)
      .filter(([limit, value]) => before === null || value !== before[limit]),
  )
