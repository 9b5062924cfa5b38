/**
 * What several ask of the same rows at the same moment is decided one after the other (contract I2: "§B
 * holds across nodes to the letter"), a row that somebody keeps locked fails requests soon, and all who
 * lock several rows lock them in the order of their primary key, or two could wait for each other.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { consumptionOf, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import {
  type ConnectionOptions,
  openConnection,
  type Query,
} from '../../../src/postgres/connection.ts'
import { createRegistry } from '../../../src/postgres/registry.ts'
import { createUsageStore, type Usages } from '../../../src/postgres/usage/usage.ts'
import { T0 } from '../../support/fixtures.ts'
import { burst, decideAll, IP, outcomeOf, regular, temp } from '../../support/limits.ts'
import { HAS_POSTGRES, holdOpen, untilWaiting } from '../../support/postgres.ts'
import { databaseWithClock } from '../../support/shared.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

let database: Awaited<ReturnType<typeof databaseWithClock>>
const nodes: Usages[] = []

/** Waits for a lock long enough for a busy machine. */
const PATIENT: ConnectionOptions['session'] = { lock_timeout: 20_000 }

const openNode = (session = PATIENT): Usages => {
  const node = createUsageStore({ url: database.url, timeoutMs: 20_000, name: 'node', session })
  nodes.push(node)
  return node
}
const query: Query = (...statement) => database.connection.query(...statement)

beforeAll(async () => {
  if (HAS_POSTGRES) database = await databaseWithClock()
})
beforeEach(async () => {
  if (!HAS_POSTGRES) return
  await database.setClock(T0)
  await query(
    `truncate proxylist.keys, proxylist.usage, proxylist.networks,
       proxylist.days cascade`,
  )
  for (const _ of [1, 2]) openNode()
})
afterEach(async () => {
  for (const { close } of nodes.splice(0)) await close()
})

/** What each of two nodes makes of `work` when both begin it while a session holds what `lock` takes. */
async function atOnce<T>(
  lock: string,
  work: (node: Usages, n: number) => PromiseLike<T> | T,
): Promise<T[]> {
  const session = await holdOpen(database.url, lock)
  const working = Promise.all(nodes.map(work))
  try {
    await Promise.race([working, untilWaiting(database.connection, 'node', nodes.length)])
  } finally {
    await session.end()
  }
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

describe.skipIf(!HAS_POSTGRES)('of two requests with room for one', () => {
  const NEW_ROW = `insert into proxylist.usage values ('key', 'k1', '{}', 0, 0, 0)`
  test.each([
    ['of a key that has been used', regular(burst(2, 3600)), true, ['ok', 'window']],
    ['of a key that never was', regular(burst(1, 3600)), false, ['ok', 'window']],
    ['of a key whose day has this one left', regular({ daily: 2 }), true, ['daily', 'ok']],
    ['of a temporary key', temp(), true, ['ok', 'window']],
  ] as const)('one is admitted, %s', async (_, caller, wasUsed, outcomes) => {
    if (wasUsed) await admit(caller)
    expect(await admitAtOnce(wasUsed ? ALL_USAGE : NEW_ROW, caller)).toEqual([...outcomes])
    const rows = await query<{ n: number }>('select requests as n from proxylist.usage')
    const kept = wasUsed ? 2 : 1
    expect(rows.map(({ n }) => n)).toEqual(caller.kind === 'temp' ? [kept, kept] : [kept])
  })
})

describe.skipIf(!HAS_POSTGRES)('of two answers with one network each', () => {
  const consume = (node: Usages | undefined, subnet: number, subnets: number) =>
    node?.consume([
      consumptionOf(regular({ subnets }), { ip: IP, subnets: [subnet], atMs: T0, nowMs: 0 }),
    ]) ?? []

  test.each([
    ['one passes when a set has room for one more', 2, ['consumed', 'refused'], 2],
    ['both pass when it has room for both, and both are counted', 3, ['consumed', 'consumed'], 3],
    ['one passes when they are the first of the day', 1, ['consumed', 'refused'], 1],
  ])('%s', async (_, quota, kinds, counted) => {
    if (quota > 1) await consume(nodes[0], 1, quota)
    await admit(regular({}))
    const decisions = await atOnce(ALL_USAGE, (node, n) => consume(node, 7 + n, quota))
    const found = decisions.flatMap(each => each.map(({ kind }) => `${kind}`))
    expect(found.toSorted()).toEqual(kinds)
    const sets = await query('select count(*)::int as n from proxylist.networks')
    expect(sets).toEqual([{ n: counted }])
  })
})

test.skipIf(!HAS_POSTGRES)('two refunds at once each remove their own request', async () => {
  const caller = regular(burst(9, 3600))
  const sent = [await admit(caller)]
  await database.setClock(T0 + 1)
  sent.push(await admit(caller))
  await atOnce(ALL_USAGE, (node, n) => node.refund(sent.slice(n, n + 1)))
  const rows = await query('select at::text as at, requests from proxylist.usage')
  expect(rows).toEqual([{ at: '{}', requests: 0 }])
})

test.skipIf(!HAS_POSTGRES)(
  'a locked row fails the requests that need it soon, and no later request',
  async () => {
    await admit(temp('t1'))
    const session = await holdOpen(
      database.url,
      `select from proxylist.usage where id = '${IP}' for update`,
    )
    const other = openNode({})
    await expect(admit(temp('t1'), other)).rejects.toThrow('a row stays locked by another session')
    await admit(regular({}))
    await session.end()
    await admit(temp('t1'))
  },
)

describe.skipIf(!HAS_POSTGRES)('rows are locked in the order of their primary key', () => {
  const ID = 'locked'
  let worker: Usages
  let registry: ReturnType<typeof createRegistry>

  // Rows are stored, and read, in another order here.
  beforeEach(async () => {
    if (!HAS_POSTGRES) return
    for (const scan of ['indexscan', 'bitmapscan']) {
      await query(`do $$ begin
        execute format('alter database %I set enable_${scan} = off', current_database());
      end $$`)
    }
    const options = { url: database.url, timeoutMs: 20_000, name: 'worker', session: PATIENT }
    worker = createUsageStore(options)
    const connection = openConnection({ url: database.url, timeoutMs: 20_000, name: 'worker' })
    nodes.push(worker, { ...worker, close: connection.close })
    registry = createRegistry(connection, worker)
    await query(
      `insert into proxylist.keys values ($1, '\\x00', 'pl_', '', '', 'standard', 0, null, 0, null, 0)`,
      [ID],
    )
    for (const id of ['z', ID]) {
      for (const kind of ['temp', 'key', 'demo']) {
        await query(`insert into proxylist.usage values ($1, $2, '{}', 0, 0, 0)`, [kind, id])
      }
    }
  })

  const twoRules = () => limitRulesOf(temp(ID), ID).toReversed()
  const keys = () => ['z', ID].map(id => ({ rules: limitRulesOf(regular({}, id), IP), nowMs: 0 }))
  const served = { ip: IP, subnets: [1], atMs: 0, nowMs: 0 }
  const usageOf = (kind: string, id = ID) => `usage where kind = '${kind}' and id = '${id}'`

  test.each<[by: string, first: string, second: string, work: () => unknown]>([
    [
      'the removal of a key: its usage before the key itself, as pruning does',
      ...([usageOf('key'), `keys where id = '${ID}'`] as const),
      () => registry.keys.remove(ID),
    ],
    [
      'answers of several keys',
      ...([usageOf('key'), usageOf('key', 'z')] as const),
      () =>
        worker.consume(
          ['z', ID].map(id => consumptionOf(regular({ subnets: 9, clients: 9 }, id), served)),
        ),
    ],
    [
      'requests of several keys',
      ...([usageOf('key'), usageOf('key', 'z')] as const),
      () => worker.admit(keys()),
    ],
    [
      'requests that have two rules',
      ...([usageOf('key'), usageOf('temp')] as const),
      () => worker.admit([{ rules: twoRules(), nowMs: 0 }]),
    ],
    [
      'refunds',
      ...([usageOf('key'), usageOf('temp')] as const),
      () => worker.refund([{ rules: twoRules(), instants: [0, 0] }]),
    ],
    [
      'a reset of all addresses',
      ...([usageOf('demo'), usageOf('demo', 'z')] as const),
      () => registry.usage.reset({ kind: 'demo', id: null }, 'all', 0),
    ],
  ])('by %s', async (_, first, second, work) => {
    const session = await holdOpen(database.url, `select from proxylist.${first} for update`)
    const working = Promise.resolve(work())
    await untilWaiting(database.connection, 'worker')
    await session.run(`select from proxylist.${second} for update nowait`) // nobody has that
    await session.end()
    await working
  })

  test('and removing a key keeps the addresses of its name', async () => {
    await registry.keys.remove(ID)
    const left = await query(`select kind from proxylist.usage where id = '${ID}' order by kind`)
    expect(left).toEqual([{ kind: 'demo' }, { kind: 'temp' }])
  })

  test('and pruning waits for no lock', async () => {
    await query(`insert into proxylist.usage values ('key', 'a', '{}', $1, 0, 0)`, [T0])
    const session = await holdOpen(
      database.url,
      `select from proxylist.${usageOf('key')} for update`,
    )
    while (await worker.prune());
    await session.end()
    const left = await query('select distinct id from proxylist.usage order by id')
    expect(left).toEqual([{ id: 'a' }, { id: ID }])
  })
})
