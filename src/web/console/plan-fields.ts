/** The limits of a plan as texts, in the syntax of the command line. */
import type { Plan } from '../../admin/api-types.ts'

export const UNLIMITED = 'unlimited'

export const LIMIT_WORDS = {
  burst: { name: 'Burst', hint: 'requests per time, such as 5/5s' },
  daily: { name: 'Per day', hint: 'requests per UTC day' },
  subnets: { name: 'Proxy networks', hint: '/16 networks of returned proxies per day' },
  clients: { name: 'Caller networks', hint: '/16 networks of callers per day' },
  count: { name: 'Records', hint: 'per answer' },
  downloads: { name: 'Long answers', hint: 'at once per key' },
} as const
export type LimitName = keyof typeof LIMIT_WORDS
type PlanFields = { [limit in LimitName]: string }

export const LIMITS = Object.keys(LIMIT_WORDS) as LimitName[] // of all limits

/** The plans `demo` and `temp` have no network limits. */
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

/** A new plan starts like the built-in `standard`. */
export const STANDARD: PlanFields = {
  ...{ burst: '5/5s', daily: '34560', downloads: '4' },
  ...{ subnets: UNLIMITED, clients: UNLIMITED, count: UNLIMITED },
}
