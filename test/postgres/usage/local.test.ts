/**
 * What a node decides without the database (src/postgres/usage/refusals.ts, contract I2), and
 * what it hears so that it does not: announcements of give-backs and resets.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createAccess } from '../../../src/access/access.ts'
import { consumptionOf, keySubject, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import type { Connection } from '../../../src/postgres/connection.ts'
import { createRefusalCache } from '../../../src/postgres/usage/refusals.ts'
import { createUsageStore, type Usages } from '../../../src/postgres/usage/usage.ts'
import { T0 } from '../../support/fixtures.ts'
import { burst, decideAll, IP, outcomeOf, regular, temp, unwaited } from '../../support/limits.ts'
import {
  HAS_POSTGRES,
  holdOpen,
  listenTo,
  migratedDatabase,
  optionsFor,
} from '../../support/postgres.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

const once = regular({ ...burst(1, 60), daily: 2 })

let database: Connection
let usage: Usages
let url = ''
let elapsedMs = 0

beforeAll(async () => {
  if (!HAS_POSTGRES) return
  const made = await migratedDatabase()
  url = made.url
  database = made.connection
})
beforeEach(async () => {
  if (!HAS_POSTGRES) return
  await database.query('truncate proxylist.usage, proxylist.networks, proxylist.days')
  elapsedMs = 0
  usage = createUsageStore(optionsFor(url), () => elapsedMs)
})
afterEach(() => usage?.close())

const ask = (caller: Caller) => ({ rules: limitRulesOf(caller, IP), nowMs: 0 })
const refusalOf = (caller: Caller) => usage.refuse(ask(caller))
async function admit(caller: Caller) {
  const [decision] = await decideAll(usage, [ask(caller)])
  if (decision?.kind !== 'admitted') throw new Error('it was refused')
  return { rules: limitRulesOf(caller, IP), instants: decision.instants, atMs: decision.atMs }
}

describe.skipIf(!HAS_POSTGRES)('a full limit', () => {
  test('is refused by the node itself after the request that filled it', async () => {
    expect(refusalOf(once)).toBeNull()
    await admit(once)
    expect(refusalOf(once)).toMatchObject({ kind: 'refused', by: 'window', retryAfterSeconds: 60 })
    expect(refusalOf(regular(burst(1, 60), 'other'))).toBeNull()
  })

  test('is checked again before its window may end on a faster clock', async () => {
    await admit(once)
    elapsedMs = 59_900
    expect(refusalOf(once)).toMatchObject({ retryAfterSeconds: 1 })
    elapsedMs = 59_975 // 0.05 % faster, it would be over
    expect(refusalOf(once)).toBeNull()
  })

  test('is checked again when the plan changed', async () => {
    await admit(once)
    expect(refusalOf(regular({ ...burst(2, 60), daily: 2 }))).toBeNull()
    expect(refusalOf(regular({ ...burst(1, 60), daily: 3 }))).toBeNull()
    expect(refusalOf(regular({ ...burst(1, 60), daily: 2 }))).not.toBeNull()
  })

  test('is refused while a batch is in flight, and while the database is away', async () => {
    const access = createAccess({ find: () => null }, usage)
    await admit(once)
    const slow = regular({}, 'slow')
    await admit(slow)
    const lock = "select from proxylist.usage where id = 'slow' for update"
    const session = await holdOpen(url, lock)
    const hanging = access.admit(unwaited(), slow, IP, 0)
    expect(outcomeOf(await access.admit(unwaited(), once, IP, 0))).toBe('window')
    await session.end()
    expect(outcomeOf(await hanging)).toBe('ok')
    await usage.close()
    expect(outcomeOf(await access.admit(unwaited(), once, IP, 0))).toBe('window')
    expect(access.admit(unwaited(), slow, IP, 0)).rejects.toThrow('is closed')
  })

  test('is refused by the node itself for a day too, as long as its window is unchanged', async () => {
    const daily = regular({ ...burst(9, 60), daily: 1 })
    await admit(daily)
    expect(refusalOf(daily)).toMatchObject({ by: 'daily', limits: [{ remaining: 8 }, {}] })
    elapsedMs = 60_000 // nothing is in the window any more
    expect(refusalOf(daily)).toBeNull()
    expect(refusalOf(regular({ daily: 1 }))).toBeNull()
  })
})

describe.skipIf(!HAS_POSTGRES)('concurrent reads', () => {
  const IDS = Array.from({ length: 300 }, (_, n) => `k${n % 3}`)
  const subjects = IDS.map(id => keySubject(id))

  test('return the same as single ones: usage, networks and history', async () => {
    for (const id of ['k0', 'k1', 'k1']) await admit(regular({}, id))
    const plan = { subnets: 9, clients: 9 }
    const { atMs } = await admit(regular(plan, 'k2'))
    await usage.consume([
      consumptionOf(regular(plan, 'k2'), { ip: IP, subnets: [1, 2], atMs, nowMs: 0 }),
    ])
    const day = Math.floor(atMs / 86_400_000)
    const [peeked, counts, uses] = await Promise.all([
      Promise.all(subjects.map(subject => usage.peek([subject]))),
      Promise.all(subjects.map(subject => usage.countNetworks([{ subject, day }]))),
      Promise.all(IDS.map((id, n) => usage.history([id], day, n < 150 ? day : day - 1))),
    ])
    const requests = [1, 2, 1]
    expect(peeked.map(({ usages }) => usages.map(each => each.requests))).toEqual(
      IDS.map((_, n) => [requests[n % 3] ?? 0]),
    )
    expect(counts).toEqual(
      IDS.map((_, n) => [{ served: n % 3 === 2 ? 2 : 0, callers: n % 3 === 2 ? 1 : 0 }]),
    )
    expect(uses.map(([use]) => use?.days.map(each => each.requests))).toEqual(
      IDS.map((_, n) => (n < 150 ? [requests[n % 3] ?? 0] : [])),
    )
  })
})

describe.skipIf(!HAS_POSTGRES)('nodes', () => {
  test('hear of refunds and resets, and of nothing else', async () => {
    const { heard } = await listenTo(url, database)
    await usage.refund([await admit(once)])
    await usage.reset(keySubject('k1'), 'window')
    await usage.reset({ kind: 'demo', id: null }, 'all')
    usage.note({ keyId: 'k1', records: 1, refused: 0, nowMs: 0 })
    await usage.flush()
    expect(await heard()).toEqual(['usage', 'usage', 'usage'])
  })

  test('forget full limits after a message', async () => {
    await admit(once)
    expect(refusalOf(once)).not.toBeNull()
    usage.forgetRefusals()
    expect(refusalOf(once)).toBeNull()
  })

  test('forget full limits after their own refund or reset', async () => {
    const given = await admit(once)
    expect(refusalOf(once)).not.toBeNull()
    await usage.refund([given])
    expect(refusalOf(once)).toBeNull()
    await admit(once)
    expect(refusalOf(once)).not.toBeNull()
    await usage.reset(keySubject('k1'), 'all')
    expect(refusalOf(once)).toBeNull()
  })

  test('do not remember a decision from before a message', async () => {
    await admit(regular({})) // it has a row: one call decides
    const admitting = usage.admit([ask(once)])
    usage.forgetRefusals() // while the answer is under way
    await admitting
    expect(refusalOf(once)).toBeNull()
  })
})

test('a request with two full windows gets the rest of each', () => {
  const known = createRefusalCache(() => 0)
  const rules = limitRulesOf(temp(), IP)
  const learn = known.asking()
  for (const [n, rule] of rules.entries()) {
    const atMs = T0 - (n + 1) * 60_000
    learn(rule, { admissions: [atMs, atMs], latestMs: atMs, requests: 2 }, T0)
  }
  expect(known.refuse(rules)).toMatchObject({
    ...{ kind: 'refused', retryAfterSeconds: 3_540 },
    limits: [{ resetSeconds: 3_540 }, { resetSeconds: 3_480 }],
  })
})

test('two full windows that were learned before and after a step of the clock refuse nothing', () => {
  const known = createRefusalCache(() => 0)
  const rules = limitRulesOf(temp(), IP)
  for (const [n, rule] of rules.entries()) {
    const atMs = T0 + n * 10 * 3_600_000
    known.asking()(rule, { admissions: [atMs, atMs], latestMs: atMs, requests: 2 }, atMs)
  }
  expect(known.refuse(rules)).toBeNull()
})
