/** Random installations: keys, plans, and use of all kinds over some days; and what limits count, to compare two. */
import { limitRulesOf } from '../../src/access/entitlements.ts'
import type { Caller } from '../../src/access/key.ts'
import type { Registry, UsageStore } from '../../src/access/ports.ts'
import type { Decision, Subject, Usage } from '../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS, SECOND_MS, utcDay } from '../../src/lib/time.ts'
import { UNLIMITED } from './fixtures.ts'
import { builtIn, decideAll } from './limits.ts'
import { between, pick } from './random.ts'

type Random = () => number

const PLANS: { readonly [name: string]: Partial<typeof UNLIMITED> } = {
  small: { burst: { requests: 3, seconds: 5 }, daily: 20, subnets: 6, clients: 3 },
  wide: { burst: { requests: 40, seconds: 600 } },
  off: { enabled: false },
  huge: { daily: 900_000_000_000 },
}

const KEYS = [
  { key: 'k-small-1', plan: 'small', label: 'ночь "x" \\ {a,b}' },
  { key: 'k-small-2', plan: 'small', label: '' },
  { key: 'k-wide-1', plan: 'wide', label: 'a\tb' },
  { key: 'k-off-1', plan: 'off', label: 'off' },
  { key: 'temp_1', plan: null, label: 'trial' },
] as const

/** Adds plans and keys, some of them rotated, expired or revoked; returns the callers in use. */
export async function addKeysTo(registry: Registry, nowMs: number): Promise<Caller[]> {
  for (const [name, limits] of Object.entries(PLANS)) {
    await registry.plans.set({ ...UNLIMITED, ...limits, name })
  }
  await registry.plans.set({ ...builtIn('demo'), count: 7 })
  const callers: Caller[] = [{ kind: 'demo', id: 'demo', plan: builtIn('demo') }]
  for (const [i, { key, plan, label }] of KEYS.entries()) {
    const expiresAt = i === 1 ? nowMs + 90 * DAY_MS : null
    const { id } = await registry.keys.add(
      { key, plan, label, note: `of ${key}`, from: i === 0 ? '192.0.2.0/24' : '', expiresAt },
      nowMs + i,
    )
    if (plan === null) callers.push({ kind: 'temp', id, plan: builtIn('temp') })
    else callers.push({ kind: 'regular', id, plan: { ...UNLIMITED, ...PLANS[plan], name: plan } })
    if (i < 2) await registry.keys.rotate(id, `${key}-new`, nowMs + 5 * DAY_MS, nowMs)
    if (i === 0) await registry.keys.rotate(id, `${key}-newer`, nowMs + 6 * DAY_MS, nowMs + 1)
    if (plan === 'off') await registry.keys.revoke(id, nowMs + 9)
  }
  return callers
}

export type Step = {
  caller: Caller
  ip: string
  nowMs: number
  isGivenBack: boolean
  networks: string[]
  records: number
  reset: 'window' | 'day' | 'all' | null
}

const IPS = ['198.51.100.7', '198.51.101.8', '203.0.113.9', '2001:db8:1:2::3']

/** Steps of use. The clock goes forward, now and then by hours, and rarely back. */
export function stepsFrom(random: Random, callers: readonly Caller[], nowMs: number, n: number) {
  let ms = nowMs
  let latestMs = nowMs
  return Array.from({ length: n }, (): Step => {
    const leap = random()
    if (leap < 0.03) ms += between(random, HOUR_MS, 20 * HOUR_MS)
    else if (leap < 0.06) ms -= between(random, 1, 20 * SECOND_MS)
    else ms += between(random, 0, 2 * SECOND_MS)
    latestMs = Math.max(latestMs, ms)
    return {
      ...{ caller: pick(random, callers), ip: pick(random, IPS), nowMs: ms },
      isGivenBack: random() < 0.15,
      networks: Array.from({ length: between(random, 0, 3) }, () => `${between(random, 1, 9)}`),
      records: between(random, 0, 30),
      reset:
        random() < 0.03 && ms === latestMs ? pick(random, ['window', 'day', 'all'] as const) : null,
    }
  })
}

/** Runs a step on a store; returns its decisions. */
export async function runStep(usage: UsageStore, step: Step): Promise<Decision[]> {
  const { caller, ip, nowMs, isGivenBack, networks, records, reset } = step
  const rules = limitRulesOf(caller, ip)
  const [rule] = rules
  const decisions = await decideAll(usage, [{ rules, nowMs }])
  const [decision] = decisions
  if (rule === undefined || decision === undefined) throw new Error('a caller without a rule')
  if (decision.kind === 'refused') {
    usage.note({ keyId: caller.id, records: 0, refused: 1, nowMs })
  } else if (isGivenBack) {
    await usage.refund([{ rules, instants: decision.instants }])
  } else {
    usage.note({ keyId: caller.id, records, refused: 0, nowMs })
    if (caller.kind === 'regular') {
      const { subnets: served, clients: callers } = caller.plan
      const quotas = { served, callers }
      const { atMs } = decision
      await usage.consume([
        {
          subject: rule.subject,
          quotas,
          networks: { served: networks, callers: [ip] },
          rule,
          atMs,
          nowMs,
        },
      ])
    }
  }
  if (reset !== null) await usage.reset(rule.subject, reset, nowMs)
  await usage.flush()
  return [...decisions]
}

const subjectsOf = (callers: readonly Caller[]): Subject[] => {
  const all = callers.flatMap(caller => IPS.flatMap(ip => limitRulesOf(caller, ip)))
  const unique = new Map(all.map(({ subject }) => [`${subject.kind} ${subject.id}`, subject]))
  return [...unique.values()]
}

/** A store may have more in the same object. */
const usageOf = ({ admissions, requests, latestMs }: Usage): Usage => ({
  ...{ admissions: [...admissions], requests, latestMs },
})

/** What limits count, with keys and plans. */
export type Known = {
  usages: readonly Usage[]
  networks: readonly unknown[]
  keys: readonly unknown[]
  plans: readonly unknown[]
}

/** Reads what a registry counts of callers, with networks of the last two months. */
export async function readKnown(
  registry: Registry,
  callers: readonly Caller[],
  nowMs: number,
): Promise<Known> {
  const { usage, keys, plans } = registry
  const subjects = subjectsOf(callers)
  const today = utcDay(nowMs)
  const days = Array.from({ length: 60 }, (_, i) => today - i)
  const stored = await keys.dump()
  return {
    usages: (await usage.peek(subjects, nowMs)).usages.map(usageOf),
    networks: await usage.countNetworks(
      subjects.flatMap(subject => days.map(day => ({ subject, day }))),
    ),
    keys: [...stored.map(key => ({ ...key, hash: key.hash.toHex() })), ...(await keys.list(nowMs))],
    plans: await plans.list(),
  }
}
