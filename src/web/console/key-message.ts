/** What a customer gets with a new key: where it is used, how, and how much. Pure. */
import type { Limit } from '../../admin/api-types.ts'
import { countdown, moment, number } from './format.ts'

/** A key as its customer gets it; `count`: the most records of an answer. */
export type GivenKey = {
  key: string
  limits: readonly Limit[]
  count: number | null
  expires: string | null
}

/** What limits count; those of a window are said with it. */
const COUNTED: { readonly [limit: string]: string } = {
  ...{ burst: 'requests in', key: 'requests in', daily: 'requests a day' },
  ...{ subnets: 'networks of proxies a day', clients: 'networks of callers a day' },
}

function inWords({ name, quota, window }: Limit): string {
  const counted = COUNTED[name] ?? name
  return `${number(quota)} ${counted}${counted.endsWith(' in') ? ` ${countdown(window)}` : ''}`
}

/** The message; `address` is that of the service, as its customers reach it. */
export function customerMessage(given: GivenKey, address: string): string {
  const { key, limits, count, expires } = given
  const origin = address.trim().replace(/\/+$/, '') || 'https://ADDRESS'
  const all = [
    ...limits.map(inWords),
    ...(count === null ? [] : [`${number(count)} records an answer`]),
  ]
  return [
    `Address: ${origin}/api`,
    `Your key: ${key}`,
    '',
    `curl -H 'Authorization: Bearer ${key}' '${origin}/api?count=10'`,
    '',
    ...(all.length === 0 ? [] : [`Limits: ${all.join(', ')}`]),
    ...(expires === null ? [] : [`Valid until ${moment(expires)}`]),
    `What can be asked for: ${origin}/docs`,
  ].join('\n')
}
