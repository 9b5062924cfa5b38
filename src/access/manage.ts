/** The operations on keys and plans that commands and the console share, and the sentences of refusals. */
import { DAY_MS, utcDay } from '../lib/time.ts'
import { keySubject } from './entitlements.ts'
import { HISTORY_DAYS } from './history.ts'
import { type KeyChanges, keyState, type ListedKey, type NewKey, newKey, secretEnd } from './key.ts'
import { BUILT_IN_PLANS, DEMO_PLAN, TEMP_PLAN } from './plan.ts'
import type { Registry } from './ports.ts'
import { UNUSED, type UsagePart } from './rate-limit.ts'

/** Why an operation is refused: a wrong value, an unknown thing, or a state that does not allow it. */
export type RuleCode =
  | 'invalid'
  | 'unknown-key'
  | 'unknown-plan'
  | 'expired-key'
  | 'key-not-revoked'
  | 'built-in-plan'
  | 'conflict'

/** A refused operation. Commands turn the code into an exit status and a hint, the console into an HTTP status. */
export class RuleError extends Error {
  readonly code: RuleCode

  constructor(code: RuleCode, message: string) {
    super(message)
    this.code = code
  }
}

const unknownKey = (): RuleError => new RuleError('unknown-key', 'there is no key with this id')

const FOREVER_MS = 100 * 365 * DAY_MS

export const STANDARD_PLAN = 'standard'

/** Checks the end of a key, which must be in the future. `option` names the value in the message. */
export function futureExpiry(atMs: number, nowMs: number, option: string): number {
  if (atMs > nowMs && atMs < nowMs + FOREVER_MS) return atMs
  throw new RuleError('invalid', `${option} must lie in the future, at most 100 years ahead`)
}

/** The end of a key, see `Expiry` of the parsers; `null`: never. */
export function endOf(
  expiry: { kind: 'in' | 'at'; ms: number } | { kind: 'never' } | undefined,
  nowMs: number,
  option: string,
): number | null {
  if (expiry === undefined || expiry.kind === 'never') return null
  return futureExpiry(expiry.kind === 'in' ? nowMs + expiry.ms : expiry.ms, nowMs, option)
}

/** @throws RuleError unless regular keys can be on this plan. */
async function requirePlan(plans: Registry['plans'], plan: string): Promise<void> {
  const all = (await plans.list()).map(({ name }) => name)
  const names = all.filter(name => name !== DEMO_PLAN && name !== TEMP_PLAN)
  if (names.includes(plan)) return
  const known = `plans are ${names.join(', ')}`
  throw new RuleError('conflict', `there is no plan '${plan}' for keys; ${known}`)
}

/** Stores a new key and returns its id. @throws RuleError when it exists, or has no such plan. */
export async function addKey({ keys, plans }: Registry, key: NewKey, nowMs: number) {
  if (key.plan !== null) await requirePlan(plans, key.plan)
  const { id, isNew } = await keys.add(key, nowMs)
  if (!isNew) throw new RuleError('conflict', `this key exists already, with id ${id}`)
  return id
}

/** @throws RuleError when no key has this id. */
export async function findKey(keys: Registry['keys'], id: string, nowMs: number) {
  const [key] = await keys.list(nowMs, [id])
  if (key === undefined) throw unknownKey()
  return key
}

/** Changes a key and returns it. @throws RuleError that says why it cannot. */
export async function changeKey(
  { keys, plans }: Registry,
  id: string,
  changes: KeyChanges,
  nowMs: number,
): Promise<ListedKey> {
  const { plan } = changes
  const known = await findKey(keys, id, nowMs)
  if (known.plan === null && plan !== undefined) {
    throw new RuleError('conflict', 'this is a temporary key: its plan is temp and stays')
  }
  if (known.plan === null && changes.expiresAt === null) {
    throw new RuleError('conflict', 'this is a temporary key, which must end')
  }
  if (plan !== undefined) await requirePlan(plans, plan)
  if (!(await keys.set(id, changes))) throw unknownKey()
  return { ...known, ...changes }
}

/** Gives a key a new secret. Returns it and the end of the old one; `option` names the overlap. @throws RuleError */
export async function rotateKey(
  { keys }: Registry,
  id: string,
  { overlapMs, option }: { overlapMs: number; option: string },
  nowMs: number,
): Promise<{ key: string; untilMs: number }> {
  const untilMs = nowMs + overlapMs
  if (overlapMs >= FOREVER_MS)
    throw new RuleError('invalid', `${option} must be less than 100 years`)
  const known = await findKey(keys, id, nowMs)
  const state = keyState(known, nowMs)
  if (state === 'revoked') throw new RuleError('conflict', 'this key is revoked: make a new one')
  if (state === 'expired') {
    throw new RuleError('expired-key', 'this key is expired: first extend it')
  }
  const key = newKey(known.plan === null ? 'temp' : 'regular')
  if (!(await keys.rotate(id, key, untilMs, nowMs))) throw unknownKey()
  return { key, untilMs: secretEnd(untilMs, known) }
}

/** Revokes a key permanently. @throws RuleError when no key has this id. */
export async function revokeKey({ keys }: Registry, id: string, nowMs: number): Promise<void> {
  if (!(await keys.revoke(id, nowMs))) throw unknownKey()
}

/** Resets the usage of a key. @throws RuleError when no key has this id. */
export async function resetKey(on: Registry, id: string, part: UsagePart, nowMs: number) {
  await findKey(on.keys, id, nowMs)
  await on.usage.reset(keySubject(id), part, nowMs)
}

/** Removes a revoked key. @throws RuleError for any other. */
export async function removeKey({ keys }: Registry, id: string): Promise<void> {
  const removal = await keys.remove(id)
  if (removal === 'unknown') throw unknownKey()
  if (removal === 'removed') return
  throw new RuleError('key-not-revoked', `key ${id} is not revoked`)
}

/** A key with its plan, its usage, and its use by day. @throws RuleError when no key has this id. */
export async function factsOf({ keys, plans, usage }: Registry, id: string, nowMs: number) {
  const key = await findKey(keys, id, nowMs)
  const plan = (await plans.list()).find(({ name }) => name === (key.plan ?? TEMP_PLAN))
  if (!plan) throw unknownKey()
  const today = utcDay(nowMs)
  const { usages, nowMs: judgedMs } = await usage.peek([keySubject(id)], nowMs)
  const [use] = await usage.history([id], today - HISTORY_DAYS + 1, today)
  const used = usages[0] ?? UNUSED
  return { key, plan, used, judgedMs, use: use ?? { lastSeenMs: null, days: [] } }
}

/** @throws RuleError for limits that have no effect on the plan of demo or temporary keys. */
export function requireUseful(name: string, changed: readonly string[], option: string): void {
  if (name !== DEMO_PLAN && name !== TEMP_PLAN) return
  if (!changed.includes('subnets') && !changed.includes('clients')) return
  const missing = `${option}subnets and ${option}clients`
  throw new RuleError('invalid', `plan ${name} counts no networks: it has no ${missing}`)
}

/** @throws RuleError for a built-in plan. */
export function refuseBuiltIn(name: string): void {
  if (!BUILT_IN_PLANS.some(plan => plan.name === name)) return
  throw new RuleError('built-in-plan', `plan ${name} is built in and stays`)
}

/** Removes a plan that no key uses. @throws RuleError that says why it cannot. */
export async function removePlan(plans: Registry['plans'], name: string): Promise<void> {
  refuseBuiltIn(name)
  const removal = await plans.remove(name)
  if (removal.kind === 'in-use') {
    const keys = `${removal.keys}, revoked ones included`
    throw new RuleError('conflict', `plan ${name} is used by keys (${keys}); it stays`)
  }
  if (removal.kind === 'unknown') {
    throw new RuleError('unknown-plan', 'there is no plan of this name')
  }
}
