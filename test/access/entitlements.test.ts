/** What each kind of key is entitled and held to (src/access/entitlements.ts, contract B2–B7). */
import { describe, expect, test } from 'bun:test'
import {
  clientBucket,
  clientNetwork,
  consumptionOf,
  entitlementsOf,
  hasNetworkQuota,
  keySubject,
  limitRulesOf,
  tenantOf,
} from '../../src/access/entitlements.ts'
import type { Caller } from '../../src/access/key.ts'
import { BUILT_IN_PLANS, type Plan } from '../../src/access/plan.ts'
import { T0, UNLIMITED } from '../support/fixtures.ts'
import { builtIn, burst, DEMO, IP, regular, temp } from '../support/limits.ts'

const PLAIN = { worksDefault: null, addressBits: 32 } as const
const OF_CHANGED = { countMax: 7, streamsMax: 2 }
const CHANGED = { ...builtIn('demo'), count: 7, downloads: 2 }

describe('plans and entitlements', () => {
  test('standard and classic are built in as the contract says', () => {
    const rest = { daily: 34_560, subnets: null, clients: null, count: null, enabled: true }
    expect(BUILT_IN_PLANS.slice(0, 2)).toEqual([
      { ...rest, name: 'standard', ...burst(5, 5), downloads: 4 },
      { ...rest, name: 'classic', ...burst(2, 5), subnets: 10, downloads: 4 },
    ] as Plan[])
  })

  test('demo and temp are plans with the limits of the contract (B4, B5, B9)', () => {
    const rest = { daily: null, subnets: null, clients: null, downloads: 1, enabled: true }
    expect(BUILT_IN_PLANS.slice(2)).toEqual([
      { ...rest, name: 'demo', ...burst(2, 60), count: 50 },
      { ...rest, name: 'temp', ...burst(2, 3600), count: 30 },
    ] as Plan[])
  })

  test.each([
    ['demo', DEMO, { countMax: 50, worksDefault: 90, addressBits: 16, streamsMax: 1 }],
    ['a temporary key', temp(), { ...PLAIN, countMax: 30, streamsMax: 1 }],
    ['a plan', regular({ count: 7, downloads: 4 }), { ...PLAIN, countMax: 7, streamsMax: 4 }],
    ['no bound', regular({}), { ...PLAIN, countMax: null, streamsMax: null }],
    [
      'demo on a changed plan',
      ...([
        { ...DEMO, plan: CHANGED },
        { ...OF_CHANGED, worksDefault: 90, addressBits: 16 },
      ] as const),
    ],
    [
      'a temporary key on a changed plan',
      { ...temp(), plan: CHANGED },
      { ...PLAIN, ...OF_CHANGED },
    ],
  ] as const)('%s has its entitlements', (_, caller, expected) => {
    expect(entitlementsOf(caller)).toEqual(expected)
  })
})

describe('limit rules', () => {
  test('keep two plans of one key apart', () => {
    const limitOf = (requests: number) =>
      limitRulesOf(regular(burst(requests, 5)), IP)[0]?.window?.limit
    expect([limitOf(5), limitOf(2), limitOf(5)]).toEqual([5, 2, 5])
  })

  test('follow the plans of demo and temporary keys; a day counts by address or by key', () => {
    const plan = { ...builtIn('temp'), ...burst(3, 7), daily: 9 }
    const window = { limit: 3, ms: 7000 }
    const rulesOf = (caller: Caller): unknown =>
      limitRulesOf(caller, IP).map(rule => [rule.window, rule.daily])
    expect(rulesOf({ kind: 'demo', id: 'demo', plan })).toEqual([[{ name: 'demo', ...window }, 9]])
    expect(rulesOf({ kind: 'temp', id: 't1', plan })).toEqual([
      [{ name: 'key', ...window }, 9],
      [{ name: 'address', ...window }, null],
    ])
    const none = { ...plan, burst: null }
    expect(rulesOf({ kind: 'demo', id: 'demo', plan: none })).toEqual([[null, 9]])
  })
})

/** An address, what limits per address count it as, and what quotas of callers count it as. */
const ADDRESSES = [
  ['198.51.100.7', '198.51.100.7', '198.51.0.0/16'],
  ['198.51.0.0', '198.51.0.0', '198.51.0.0/16'],
  ['1.2.3.4', '1.2.3.4', '1.2.0.0/16'],
  ['2001:db8:0:1:ffff::2', '2001:db8:0:1::/64', '2001:db8:0:1::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8:1:2::/64'],
  ['fe80::1', 'fe80:0:0:0::/64', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64', '0:0:0:0::/64'],
] as const

describe('the address of a client', () => {
  // These texts are stored: another form would give every client its quota again.
  test.each(ADDRESSES)('%s counts as %s, and in client networks as %s', (ip, bucket, network) => {
    expect([clientBucket(ip), clientNetwork(ip)]).toEqual([bucket, network])
  })
})

describe('a tenant (B9)', () => {
  const bucket = '2001:db8:0:1::/64'

  test('is the key, from any address, when the key has a plan', () => {
    const paying = regular({ downloads: 4 })
    for (const ip of [IP, '2001:db8:0:1::1']) {
      expect(tenantOf(paying, ip)).toEqual({ id: 'k1', isTrial: false, streamsMax: 4 })
    }
    expect(tenantOf(regular({}, 'k2'), IP)).toEqual({ id: 'k2', isTrial: false, streamsMax: null })
  })

  test.each([DEMO, temp(), temp('t2')])('is the client address for $kind, as a trial', caller => {
    expect(tenantOf(caller, IP)).toEqual({ id: IP, isTrial: true, streamsMax: 1 })
    expect(tenantOf({ ...caller, plan: CHANGED }, IP).streamsMax).toBe(2)
    expect(tenantOf(caller, '2001:db8:0:1:ffff::2')).toEqual({
      ...{ id: bucket, isTrial: true, streamsMax: 1 },
    })
  })
})

describe('quotas of networks', () => {
  test.each([
    ['regular keys without a quota', regular({ ...burst(5, 5), daily: 9, count: 9 }), false],
    ['a quota of networks served', regular({ subnets: 1 }), true],
    ['a quota of callers', regular({ clients: 1 }), true],
    ['demo', DEMO, false],
    ['temporary keys', temp(), false],
  ] as const)('apply to regular keys whose plan has one: %s', (_, caller, expected) => {
    expect(hasNetworkQuota(caller)).toBe(expected)
  })

  test('count the networks of an answer and of its client separately', () => {
    const caller = regular({ ...burst(5, 5), subnets: 3, clients: 2 })
    const served = { ip: IP, subnets: [49_152, 51_968], atMs: T0, nowMs: T0 - 1 }
    const consumption: unknown = consumptionOf(caller, served)
    expect(consumption).toEqual({
      subject: keySubject('k1'),
      quotas: { served: 3, callers: 2 },
      networks: { served: ['49152', '51968'], callers: ['198.51.0.0/16'] },
      rule: limitRulesOf(caller, IP)[0],
      atMs: T0,
      nowMs: T0 - 1,
    })
    const { quotas } = consumptionOf(regular(UNLIMITED), served)
    expect(quotas).toEqual({ served: null, callers: null })
  })
})
