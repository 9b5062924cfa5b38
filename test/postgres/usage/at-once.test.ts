/**
 * What two nodes ask of the same rows at the same moment is decided one after the other (contract I2:
 * "§B holds across nodes to the letter"). A third session has the rows locked until both wait for them.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { consumptionOf, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import type { Query } from '../../../src/postgres/connection.ts'
import { createAdmissions } from '../../../src/postgres/usage/admissions.ts'
import { createDatabaseClock, createRefusalCache } from '../../../src/postgres/usage/refusals.ts'
import { createUsageStore, type Usages } from '../../../src/postgres/usage/usage.ts'
import { T0 } from '../../support/fixtures.ts'
import { burst, decideAll, IP, outcomeOf, regular, TODAY, temp } from '../../support/limits.ts'
import { HAS_POSTGRES } from '../../support/postgres.ts'
import { databaseWithClock } from '../../support/shared.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

let database: Awaited<ReturnType<typeof databaseWithClock>>
let nodes: Usages[] = []

beforeAll(async () => {
  if (HAS_POSTGRES) database = await databaseWithClock()
})
beforeEach(async () => {
  if (!HAS_POSTGRES) return
  await database.setClock(T0)
  await database.connection.query('truncate proxylist.usage, proxylist.networks, proxylist.days')
  const options = { url: database.url, timeoutMs: 20_000, name: 'node' }
  nodes = [1, 2].map(() => createUsageStore(options))
})
afterEach(async () => {
  for (const { close } of nodes) await close()
})

/** What each node makes of `work` when all of them begin it while a session holds what `lock` takes. */
async function atOnce<T>(
  lock: string,
  work: (node: Usages, n: number) => PromiseLike<T> | T,
): Promise<T[]> {
  const sql = new SQL({ url: database.url, max: 1 })
  const session = await sql.reserve()
  await session.unsafe(`begin; ${lock}`)
  const working = Promise.all(nodes.map(work))
  const areWaiting = async (): Promise<boolean> =>
    (
      await database.connection.query(`select from pg_stat_activity where application_name = 'node'
        and datname = current_database() and wait_event_type = 'Lock'`)
    ).length === nodes.length
  while (!(await areWaiting())) await Bun.sleep(2)
  await session.unsafe('rollback')
  session.release()
  await sql.close()
  return working
}

const admission = (caller: Caller) => [{ rules: limitRulesOf(caller, IP), nowMs: 0 }]

async function admit(caller: Caller, node = nodes[0]) {
  const [decision] = node ? await decideAll(node, admission(caller)) : []
  if (decision?.kind !== 'admitted') throw new Error('it was refused')
  return { rules: limitRulesOf(caller, IP), ...decision }
}

const admitAtOnce = async (lock: string, caller: Caller): Promise<string[]> => {
  const decisions = await atOnce(lock, node => decideAll(node, admission(caller)))
  return decisions.flatMap(each => each.map(outcomeOf)).toSorted()
}

const ALL_USAGE = 'select from proxylist.usage order by kind, id for update'

describe.skipIf(!HAS_POSTGRES)('of two requests for which there is room for one', () => {
  const twice = regular(burst(2, 3600))

  test('one is admitted, of a key that has been used', async () => {
    await admit(twice)
    expect(await admitAtOnce(ALL_USAGE, twice)).toEqual(['ok', 'window'])
  })

  test('one is admitted, of a key that never was', async () => {
    const row = `insert into proxylist.usage values ('key', 'k1', '{}', 0, 0, 0)`
    expect(await admitAtOnce(row, regular(burst(1, 3600)))).toEqual(['ok', 'window'])
  })

  test('one is admitted, of a key whose day has this one left', async () => {
    await admit(regular({ daily: 2 }))
    expect(await admitAtOnce(ALL_USAGE, regular({ daily: 2 }))).toEqual(['daily', 'ok'])
  })

  test('one is admitted, of a temporary key, in both of its windows', async () => {
    await admit(temp())
    expect(await admitAtOnce(ALL_USAGE, temp())).toEqual(['ok', 'window'])
    const rows = await database.connection.query(
      'select kind, cardinality(at) as n from proxylist.usage order by kind',
    )
    expect(rows).toEqual([
      { kind: 'key', n: 2 },
      { kind: 'temp', n: 2 },
    ])
  })
})

describe.skipIf(!HAS_POSTGRES)('of two answers with one network each', () => {
  const ALL_SETS = 'select from proxylist.networks for update'
  const consume = (node: Usages | undefined, subnet: number, subnets: number) =>
    node?.consume([
      consumptionOf(regular({ subnets }), { ip: IP, subnets: [subnet], atMs: T0, nowMs: 0 }),
    ]) ?? []
  const consumeAtOnce = async (lock: string, subnets: number) => {
    const decisions = await atOnce(lock, (node, n) => consume(node, 7 + n, subnets))
    const [row] = await database.connection.query<{ n: number }>(
      'select bit_count(networks)::int as n from proxylist.networks',
    )
    return [...decisions.flatMap(each => each.map(({ kind }) => kind)).toSorted(), row?.n]
  }

  test('one passes when a set has room for one more', async () => {
    await consume(nodes[0], 1, 2)
    expect(await consumeAtOnce(ALL_SETS, 2)).toEqual(['consumed', 'refused', 2])
  })

  test('both pass when it has room for both, and both are counted', async () => {
    await consume(nodes[0], 1, 3)
    expect(await consumeAtOnce(ALL_SETS, 3)).toEqual(['consumed', 'consumed', 3])
  })

  test('one passes when they are the first of the day', async () => {
    const row = `insert into proxylist.networks values ('key', 'k1', 'served', ${TODAY})`
    expect(await consumeAtOnce(row, 1)).toEqual(['consumed', 'refused', 1])
  })
})

describe.skipIf(!HAS_POSTGRES)('two requests that are given back', () => {
  test('are given back each at its instant', async () => {
    const caller = regular(burst(9, 3600))
    const sent = [await admit(caller)]
    await database.setClock(T0 + 1)
    sent.push(await admit(caller))
    await atOnce(ALL_USAGE, (node, n) => node.giveBack(sent.slice(n, n + 1)))
    const rows = await database.connection.query(
      'select at::text as at, requests from proxylist.usage',
    )
    expect(rows).toEqual([{ at: '{}', requests: 0 }])
  })
})

describe.skipIf(!HAS_POSTGRES)('the requests of one turn', () => {
  const callers = ['k1', 'k2', 'k3'].map(id => regular({ ...burst(4, 60), daily: 4 }, id))
  const batch = [...callers, ...callers].flatMap(admission)

  /** Admits the batch; returns the outcomes, and how often the database was called. */
  async function admitted() {
    let calls = 0
    const counting: Query = (...statement) => {
      calls += 1
      return database.connection.query(...statement)
    }
    const clock = createDatabaseClock(() => 0)
    const waits = { msMax: 0, tryMs: 0, late: () => new Error('a lock is not free') }
    const admitAll = createAdmissions(counting, createRefusalCache(clock), clock, waits)
    return { outcomes: (await decideAll({ admit: admitAll }, batch)).map(outcomeOf), calls }
  }

  test('are one call, whether there is room for all, some or none', async () => {
    for (const caller of callers)
      await nodes[0]?.admit([...admission(caller), ...admission(caller)])
    expect(await admitted()).toEqual({ outcomes: batch.map(() => 'ok'), calls: 1 })
    expect(await admitted()).toEqual({ outcomes: batch.map(() => 'window'), calls: 1 })
  })

  test('are two calls where rows are missing', async () => {
    expect(await admitted()).toEqual({ outcomes: batch.map(() => 'ok'), calls: 2 })
    for (const caller of callers) await nodes[0]?.admit(admission(caller))
    const outcomes = batch.map((_, n) => (n < callers.length ? 'ok' : 'window'))
    expect(await admitted()).toEqual({ outcomes, calls: 1 })
  })
})
