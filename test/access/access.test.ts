/**
 * Which keys are valid, and batches of admissions, consumptions and refunds (src/access/access.ts,
 * contract B1, B3, B8), on a real SQLite store. `any-sequence.test.ts` tests the limits.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import { newKey } from '../../src/access/key.ts'
import { BUILT_IN_PLANS } from '../../src/access/plan.ts'
import { type Decision, UNUSED } from '../../src/access/rate-limit.ts'
import type { Awaitable } from '../../src/lib/awaitable.ts'
import { DAY_MS, HOUR_MS } from '../../src/lib/time.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from '../support/fixtures.ts'
import { burst, IP, openUsage, outcomeOf, regular, TODAY, unwaited } from '../support/limits.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const FIVE = regular(burst(5, 5))
const K1 = { kind: 'key', id: 'k1' } as const

describe('authenticate', () => {
  const registry = openRegistry(temporaryDirectory())
  afterAll(() => registry.close())
  const { keys, usage } = registry
  const access = createAccess(keys, usage)
  const make = (key: string, plan: string | null, expiresAt: number | null) => ({
    key,
    id: keys.add({ key, label: '', note: '', from: '', plan, expiresAt }, T0).id,
  })
  const made = {
    paid: make(newKey('regular'), 'standard', null),
    own: make('my-own-key', 'classic', null),
    ending: make(newKey('regular'), 'standard', T0 + HOUR_MS),
    revoked: make(newKey('regular'), 'standard', null),
    temp: make(newKey('temp'), null, T0 + HOUR_MS),
    revokedTemp: make(newKey('temp'), null, T0 + HOUR_MS),
  }
  for (const { id } of [made.revoked, made.revokedTemp]) keys.revoke(id, T0)
  const [standard, classic, demo, temporary] = BUILT_IN_PLANS

  test.each([
    [made.paid, T0, { kind: 'regular', plan: standard }],
    [made.paid, T0 + 1000 * DAY_MS, { kind: 'regular', plan: standard }],
    [made.own, T0, { kind: 'regular', plan: classic }],
    [made.ending, T0 + HOUR_MS - 1, { kind: 'regular', plan: standard }],
    [made.temp, T0, { kind: 'temp', plan: temporary }],
    [made.temp, T0 + HOUR_MS - 1, { kind: 'temp', plan: temporary }],
    [{ key: 'demo', id: 'demo' }, T0, { kind: 'demo', plan: demo }],
  ] as const)('knows %j at %d', ({ key, id }, nowMs, caller) => {
    expect<unknown>(access.find(key, nowMs)?.caller).toEqual({ id, ...caller })
  })

  const { key } = made.paid
  test.each([
    ['an unknown key', newKey('regular'), T0],
    ['a key at the instant it expires', made.ending.key, T0 + HOUR_MS],
    ['an expired key', made.ending.key, T0 + DAY_MS],
    ['a revoked key', made.revoked.key, T0],
    ['a key in another case', key.toUpperCase(), T0],
    ['a truncated key', key.slice(0, -1), T0],
    ['a key with more', `${key}x`, T0],
    ['the id of a key', made.paid.id, T0],
    ['a key of SQL', "' or 1=1 --", T0],
    ['a zero byte', '\u0000', T0],
    ['demo in capitals', 'DEMO', T0],
    ['an unknown temporary key', newKey('temp'), T0],
    ['a temporary key at the instant it expires', made.temp.key, T0 + HOUR_MS],
    ['a revoked temporary key', made.revokedTemp.key, T0],
    ['the prefix alone', 'temp_', T0],
  ] as const)('refuses %s', (_, wrong, nowMs) => {
    expect(access.find(wrong, nowMs)).toBeNull()
  })
})

/** Access on a store in memory that counts its batches and can be made to fail. */
function countedAccess() {
  const { db, usage, read, networks, countRows, close } = openUsage()
  onCleanUp(close)
  const counts = { admit: 0, consume: 0, refund: 0 }
  const access = createAccess(
    { find: () => null },
    {
      admit(batch) {
        counts.admit++
        return usage.admit(batch)
      },
      consume(batch) {
        counts.consume++
        return usage.consume(batch)
      },
      countNetworks: usage.countNetworks,
      refund(batch) {
        counts.refund++
        return usage.refund(batch)
      },
      peek: usage.peek,
    },
  )
  return {
    access,
    counts,
    read,
    networks,
    countRows,
    setReadOnly: (on: boolean) => db.run(`pragma query_only = ${on ? 'on' : 'off'}`),
  }
}

/** The name of the error that work is rejected with. */
async function nameOfFailure(work: Awaitable<unknown>): Promise<string> {
  try {
    await work
    return 'none'
  } catch (error) {
    return Object(error).name
  }
}

/** The instant that an admitted request counts at. */
function atOf(decision: Decision): number {
  if (decision.kind === 'refused') throw new Error('the request was refused')
  return decision.atMs
}

describe('admissions', () => {
  const outcomes = async (pending: readonly Awaitable<Decision>[]) =>
    (await Promise.all(pending)).map(outcomeOf)

  test('in one turn are decided in one batch, in order of arrival', async () => {
    const { access, counts } = countedAccess()
    const pending = Array.from({ length: 7 }, () => access.admit(unwaited(), FIVE, IP, T0))
    const other = access.admit(unwaited(), regular(burst(1, 1), 'k2'), IP, T0)
    expect(counts.admit).toBe(0)
    const expected = ['ok', 'ok', 'ok', 'ok', 'ok', 'window', 'window'] as const
    expect(await outcomes(pending)).toEqual([...expected])
    expect(await outcomes([other])).toEqual(['ok'])
    expect(counts).toMatchObject({ admit: 1, consume: 0 })
    const left = (await Promise.all(pending)).map(({ limits }) => limits[0]?.remaining)
    expect(left).toEqual([4, 3, 2, 1, 0, 0, 0])
  })

  test('are in the store once they resolve', async () => {
    const { access, read } = countedAccess()
    const pending = access.admit(unwaited(), FIVE, IP, T0)
    expect(read(K1)).toEqual(UNUSED)
    await pending
    expect(read(K1).admissions).toEqual([T0])
  })

  test('are all rejected, and none counts, when their batch cannot be written', async () => {
    const { access, read, setReadOnly } = countedAccess()
    expect(outcomeOf(await access.admit(unwaited(), FIVE, IP, T0))).toBe('ok')
    setReadOnly(true)
    const settled = await Promise.allSettled(
      [1, 2, 3].map(i => access.admit(unwaited(), FIVE, IP, T0 + i)),
    )
    const names = settled.map(o => (o.status === 'rejected' ? Object(o.reason).name : 'admitted'))
    expect(names).toEqual(['SQLiteError', 'SQLiteError', 'SQLiteError'])
    setReadOnly(false)
    expect(read(K1).admissions).toEqual([T0])
    expect((await access.admit(unwaited(), FIVE, IP, T0 + 4)).limits[0]?.remaining).toBe(3)
  })
})

describe('consumption', () => {
  const limited = regular({ subnets: 2 })

  test('in one turn is decided in one batch, in order of arrival', async () => {
    const { access, counts } = countedAccess()
    const atMs = atOf(await access.admit(unwaited(), limited, IP, T0))
    const consume = (...subnets: number[]) =>
      access.consume(unwaited(), limited, { ip: IP, subnets, atMs, nowMs: T0 })
    const pending = [consume(1), consume(2, 3), consume(2), consume(3), consume(1, 2)]
    const decisions = await Promise.all(pending)
    expect(decisions.map(({ kind }) => kind)).toEqual([
      ...(['consumed', 'refused', 'consumed', 'refused', 'consumed'] as const),
    ])
    expect(decisions[1]).toMatchObject({ set: 'served', used: 1, added: 2 })
    expect(counts).toMatchObject({ admit: 1, consume: 1 })
  })

  test('that cannot be written is rejected, and adds nothing', async () => {
    const { access, networks, setReadOnly } = countedAccess()
    const atMs = atOf(await access.admit(unwaited(), limited, IP, T0))
    setReadOnly(true)
    const consuming = access.consume(unwaited(), limited, { ip: IP, subnets: [1], atMs, nowMs: T0 })
    expect(await nameOfFailure(consuming)).toBe('SQLiteError')
    setReadOnly(false)
    expect(networks(K1, 'served', TODAY).size).toBe(0)
  })
})

describe('a refund', () => {
  /** Admits a request; returns the instants at which it counts. */
  async function admit({ access }: ReturnType<typeof countedAccess>, nowMs: number) {
    const decision = await access.admit(unwaited(), FIVE, IP, nowMs)
    return decision.kind === 'admitted' ? decision.instants : []
  }

  test('that the store cannot write is rejected, and the request stays counted', async () => {
    const world = countedAccess()
    const instants = await admit(world, T0)
    world.setReadOnly(true)
    const refunding = world.access.refund(unwaited(), FIVE, IP, instants)
    expect(await nameOfFailure(refunding)).toBe('SQLiteError')
    world.setReadOnly(false)
    await admit(world, T0 + 1)
    expect(world.read(K1)).toMatchObject({ admissions: [T0, T0 + 1], requests: 2 })
  })
})
