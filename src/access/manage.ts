/**
 * Owns what an operator may do with keys and plans, for commands and for the console alike: each
 * rule has one sentence. Which strings are accepted for a value is in `config/parsers.ts`.
 */
import { CommandError } from '../lib/errors.ts'
import { DAY_MS, utcDay } from '../lib/time.ts'
import { keySubject } from './entitlements.ts'
import { HISTORY_DAYS } from './history.ts'
import { type KeyChanges, keyState, type ListedKey, newKey, TEMP_PREFIX } from './key.ts'
import { BUILT_IN_PLANS, DEMO_PLAN, type Plan, TEMP_PLAN } from './plan.ts'
import type { Registry } from './ports.ts'
import { UNUSED } from './rate-limit.ts'

/** There is no key or plan of a name. */
export class UnknownName extends CommandError {}

export const unknownKey = (): CommandError =>
  new UnknownName('there is no key with this id; see proxylist keys list')

const FOREVER_MS = 100 * 365 * DAY_MS

/** The plan of a new key that names none. */
export const STANDARD_PLAN = 'standard'

/** The end of a key, which must be in the future; `option` names what was given. */
export function futureExpiry(atMs: number, nowMs: number, option: string): number {
  if (atMs > nowMs && atMs < nowMs + FOREVER_MS) return atMs
  throw new CommandError(`${option} must lie in the future, at most 100 years ahead`, 2)
}

/** When a key ends, see `Expiry` of the parsers; `null`: never. */
export function endOf(
  expiry: { kind: 'in' | 'at'; ms: number } | { kind: 'never' } | undefined,
  nowMs: number,
  option: string,
): number | null {
  if (expiry === undefined || expiry.kind === 'never') return null
  return futureExpiry(expiry.kind === 'in' ? nowMs + expiry.ms : expiry.ms, nowMs, option)
}

/** @throws CommandError unless regular keys can be on this plan. */
export async function requirePlan(plans: Registry['plans'], plan: string): Promise<void> {
  const names = (await plans.list())
    .map(({ name }) => name)
    .filter(name => name !== DEMO_PLAN && name !== TEMP_PLAN)
  if (names.includes(plan)) return
  throw new CommandError(`there is no plan '${plan}' for keys; plans are ${names.join(', ')}`)
}

/** @throws CommandError when no key has this id. */
export async function findKey(keys: Registry['keys'], id: string, nowMs: number) {
  const key = await keys.read(id, nowMs)
  if (key === null) throw unknownKey()
  return key
}

/** Changes a key and returns it. @throws CommandError when that is not possible, and why. */
export async function changeKey(
  { keys, plans }: Registry,
  id: string,
  changes: KeyChanges,
  nowMs: number,
): Promise<ListedKey> {
  const { plan } = changes
  const known = await findKey(keys, id, nowMs)
  if (known.plan === null && plan !== undefined) {
    throw new CommandError('this is a temporary key: its plan is temp and stays')
  }
  if (plan !== undefined) await requirePlan(plans, plan)
  await keys.set(id, changes)
  return findKey(keys, id, nowMs)
}

/**
 * Gives a key a new secret, and returns it and when the old one ends.
 * @throws CommandError when that is not possible, and why; `option` names the overlap.
 */
export async function rotateKey(
  { keys }: Registry,
  id: string,
  { overlapMs, option }: { overlapMs: number; option: string },
  nowMs: number,
): Promise<{ key: string; untilMs: number }> {
  const untilMs = nowMs + overlapMs
  if (overlapMs >= FOREVER_MS) throw new CommandError(`${option} must be less than 100 years`, 2)
  const known = await findKey(keys, id, nowMs)
  const state = keyState(known, nowMs)
  if (state === 'revoked') throw new CommandError('this key is revoked: make a new one')
  if (state === 'expired') {
    throw new CommandError('this key is expired: first extend it with keys set --expires')
  }
  const key = newKey(known.plan === null ? 'temp' : 'regular')
  if (!(await keys.rotate(id, key, untilMs, nowMs))) throw unknownKey()
  return { key, untilMs }
}

/** Removes a revoked key. @throws CommandError for any other. */
export async function removeKey({ keys }: Registry, id: string): Promise<void> {
  const removal = await keys.remove(id)
  if (removal === 'unknown') throw unknownKey()
  if (removal === 'not-revoked') {
    throw new CommandError(`key ${id} is not revoked; first: proxylist keys revoke ${id}`)
  }
}

/** A key with its plan, what it has used, and its use by day. @throws CommandError without one. */
export async function factsOf({ keys, plans, usage }: Registry, id: string, nowMs: number) {
  const key = await findKey(keys, id, nowMs)
  const plan = await plans.find(key.plan ?? TEMP_PLAN)
  if (!plan) throw unknownKey()
  const today = utcDay(nowMs)
  const { usages, nowMs: judgedMs } = await usage.peek([keySubject(id)], nowMs)
  const [use] = await usage.history([id], today - HISTORY_DAYS + 1, today)
  const used = usages[0] ?? UNUSED
  return { key, plan, used, judgedMs, use: use ?? { lastSeenMs: null, days: [] } }
}

/** @throws CommandError for the name of a plan that looks like a temporary key; `what` names it. */
export function refuseTemporaryName(name: string, what: string): void {
  if (!name.startsWith(TEMP_PREFIX)) return
  throw new CommandError(
    `${what} must not start with ${TEMP_PREFIX}: the plan of all temporary keys is temp`,
    2,
  )
}

/** Creates or changes a plan; what is left out stays, or is that of the built-in standard. */
export async function changePlan(
  plans: Registry['plans'],
  name: string,
  changes: Partial<Omit<Plan, 'name'>>,
): Promise<Plan> {
  const base = (await plans.find(name)) ?? BUILT_IN_PLANS[0]
  const changed: Plan = { ...base, ...changes, name }
  await plans.set(changed)
  return changed
}

/** @throws CommandError for limits that would do nothing on the plan of demo or temporary keys. */
export function requireUseful(name: string, changed: readonly string[], option: string): void {
  if (name !== DEMO_PLAN && name !== TEMP_PLAN) return
  if (!changed.includes('subnets') && !changed.includes('clients')) return
  throw new CommandError(
    `plan ${name} counts no networks: it has no ${option}subnets and ${option}clients`,
    2,
  )
}

/** @throws CommandError for a built-in plan. */
export function refuseBuiltIn(name: string): void {
  if (!BUILT_IN_PLANS.some(plan => plan.name === name)) return
  throw new CommandError(`plan ${name} is built in and stays; plans set can change it`)
}

/** Removes a plan that no key uses. @throws CommandError when that is not possible, and why. */
export async function removePlan(plans: Registry['plans'], name: string): Promise<void> {
  refuseBuiltIn(name)
  const removal = await plans.remove(name)
  if (removal.kind === 'in-use') {
    const keys = `${removal.keys}, revoked ones included`
    throw new CommandError(`plan ${name} is used by keys (${keys}); it stays`)
  }
  if (removal.kind === 'unknown') {
    throw new UnknownName('there is no plan of this name; see proxylist plans list')
  }
}
