/** Owns plans: what a regular key may do, and the two that are built in (contract B2). */

/** What a plan grants; `null` is unlimited. */
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
}

/** The plans every installation starts with (contract B2). */
export const BUILT_IN_PLANS: readonly Plan[] = [
  {
    name: 'standard',
    burst: { requests: 5, seconds: 5 },
    daily: 34_560,
    subnets: null,
    clients: null,
    count: null,
  },
  {
    name: 'classic',
    burst: { requests: 2, seconds: 5 },
    daily: 34_560,
    subnets: 10,
    clients: null,
    count: null,
  },
]
