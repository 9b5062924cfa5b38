/**
 * In which order rows are locked (src/postgres/schema/1-usage.sql): all who lock several lock them in the
 * order of their primary key, or two could wait for each other. Rows are stored, and read, in another order
 * here.
 */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { createAccess } from '../../../src/access/access.ts'
import { consumptionOf, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import type { Decision } from '../../../src/access/rate-limit.ts'
import { type Connection, openConnection } from '../../../src/postgres/connection.ts'
import { createRegistry } from '../../../src/postgres/registry.ts'
import { migrate } from '../../../src/postgres/schema.ts'
import { createUsageStore, type Usages } from '../../../src/postgres/usage/usage.ts'
import { DEMO, IP, outcomeOf, regular, temp } from '../../support/limits.ts'
import { emptyDatabase, HAS_POSTGRES, optionsFor } from '../../support/postgres.ts'
import { cleanUp, onCleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

type Admit = (caller: Caller, ip?: string) => Promise<Decision>

const ID = 'locked'
let url = ''
let database: Connection
let registry: ReturnType<typeof createRegistry>
let usage: Usages

beforeEach(async () => {
  if (!HAS_POSTGRES) return
  url = await emptyDatabase()
  const options = optionsFor(url)
  database = openConnection(options)
  await migrate(database)
  for (const scan of ['indexscan', 'bitmapscan']) {
    await database.query(`do $$ begin
      execute format('alter database %I set enable_${scan} = off', current_database());
    end $$`)
  }
  const worker = openConnection({ ...options, name: 'worker' })
  usage = createUsageStore({ ...options, name: 'worker' })
  registry = createRegistry(worker, usage)
  for (const { close } of [database, worker, usage]) onCleanUp(close)
  await database.query(
    `insert into proxylist.keys values ($1, '\\x00', 'pl_', '', 'standard', 0, null, 0, null, 0)`,
    [ID],
  )
  for (const id of ['z', ID]) {
    for (const kind of ['temp', 'key', 'demo']) {
      await database.query(`insert into proxylist.usage values ($1, $2, '{}', 0, 0, 0)`, [kind, id])
    }
  }
  for (const set of ['served', 'callers']) {
    await database.query(`insert into proxylist.networks values ('key', $1, $2, 0)`, [...[ID, set]])
  }
})

/** Locks the first row, has `work` wait for it, and then takes the second: nobody may have that. */
async function inOrder(first: string, second: string, work: () => unknown): Promise<void> {
  const sql = new SQL({ url, max: 1 })
  let working: Promise<unknown> = Promise.resolve()
  await sql.begin(async tx => {
    await tx.unsafe(`select from proxylist.${first} for update`)
    working = Promise.resolve(work())
    const isWaiting = async () =>
      (
        await database.query(`select from pg_stat_activity
          where application_name = 'worker' and wait_event_type = 'Lock'`)
      ).length > 0
    while (!(await isWaiting())) await Bun.sleep(2)
    await tx.unsafe(`select from proxylist.${second} for update nowait`)
  })
  await working
  await sql.close()
}

const SETS = [
  `networks where id = '${ID}' and network_set = 'callers'`,
  `networks where id = '${ID}' and network_set = 'served'`,
] as const

/** Locks an address, has `work` admit requests meanwhile, and returns what was counted at the end. */
async function whileLocked(
  timeoutMs: number,
  what: string,
  work: (admit: Admit, unlock: () => Promise<void>) => Promise<void>,
): Promise<{ [id: string]: number }> {
  const usage = createUsageStore({ url, timeoutMs, name: 'node' })
  const { admit } = createAccess({ find: () => null }, usage)
  await admit(temp('t1'), IP, 0)
  const sql = new SQL({ url, max: 1 })
  const [locked, unlocked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const locking = sql.begin(async tx => {
    await tx.unsafe(what)
    locked.resolve()
    await unlocked.promise
  })
  await locked.promise
  const unlock = async (): Promise<void> => {
    unlocked.resolve()
    await locking
  }
  await work((caller, ip = IP) => admit(caller, ip, 0), unlock)
  await unlock()
  const rows = await database.query<{ kind: string; id: string; requests: number }>(
    'select kind, id, requests from proxylist.usage where latest <> 0',
  )
  for (const { close } of [usage, sql]) await close()
  return Object.fromEntries(rows.map(({ kind, id, requests }) => [`${kind} ${id}`, requests]))
}

describe.skipIf(!HAS_POSTGRES)('a row of usage that somebody keeps locked', () => {
  const ROW = `select from proxylist.usage where id = '${IP}' for update`

  test('keeps only the requests of its subject waiting, in order and by all of their limits', async () => {
    const used = await whileLocked(20_000, ROW, async (admit, unlock) => {
      const waiting = [temp('t1'), temp('t2')].map(each => admit(each))
      for (let n = 0; n < 2; n += 1) {
        const others = [regular({}), temp('t1'), DEMO].map(each => admit(each, `192.0.2.${n}`))
        const outcomes = (await Promise.all(others)).map(outcomeOf)
        expect(outcomes).toEqual(['ok', n === 0 ? 'ok' : 'window', 'ok'])
      }
      await unlock()
      expect((await Promise.all(waiting)).map(outcomeOf)).toEqual(['window', 'ok'])
    })
    const demo = { 'demo 192.0.2.0': 1, 'demo 192.0.2.1': 1 }
    expect(used).toEqual({
      ...demo,
      'key t1': 2,
      'key t2': 1,
      'key k1': 2,
      [`temp ${IP}`]: 2,
      'temp 192.0.2.0': 1,
    })
  })

  test('fails them with that reason, within the timeout', async () => {
    const used = await whileLocked(1_000, ROW, async admit => {
      const waiting = [temp('t1'), temp('t2')].map(each => admit(each).catch(String))
      for (const failure of await Promise.all(waiting)) {
        expect(failure).toContain('a row of table usage stays locked')
      }
      await admit(regular({}))
    })
    expect(used).toEqual({ 'key t1': 1, [`temp ${IP}`]: 1, 'key k1': 1 })
  })

  test('fails no request of a key that two nodes ask for all the time', async () => {
    const nodes = [1, 2].map(() => createUsageStore({ url, timeoutMs: 2_000, name: 'node' }))
    const hot = regular({}, 'hot')
    await whileLocked(2_000, ROW, async admit => {
      const late = admit(temp('t1')).catch(String)
      let isLate = false
      const asking = nodes.map(async node => {
        const access = createAccess({ find: () => null }, node)
        access.admit(temp('t2'), IP, 0).catch(() => {}) // so that both find the row locked
        while (!isLate) expect(outcomeOf(await access.admit(hot, IP, 0))).toBe('ok')
      })
      expect(await late).toContain('a row of table usage stays locked')
      isLate = true
      await Promise.all(asking)
    })
    for (const { close } of nodes) await close()
  })

  test('is waited for where it is the whole table', async () => {
    const used = await whileLocked(20_000, 'lock table proxylist.usage', async (admit, unlock) => {
      const waiting = admit(regular({}))
      await expect(Promise.race([waiting, Bun.sleep(2 * 250)])).resolves.toBeUndefined()
      await unlock()
      expect(outcomeOf(await waiting)).toBe('ok')
    })
    expect(used).toEqual({ 'key t1': 1, [`temp ${IP}`]: 1, 'key k1': 1 })
  })
})

describe.skipIf(!HAS_POSTGRES)('rows are locked in the order of their primary key', () => {
  test('by a reset of a key, in the sets of its networks', () =>
    inOrder(...SETS, () => registry.usage.reset({ kind: 'key', id: ID }, 'all', 0)))

  test('by the removal of a key, in the sets of its networks', async () => {
    await inOrder(...SETS, () => registry.keys.remove(ID))
    expect(await registry.keys.list(0)).toBeEmpty()
    const left = await database.query(
      `select kind from proxylist.usage where id = '${ID}' order by kind`,
    )
    expect(left).toEqual([{ kind: 'demo' }, { kind: 'temp' }])
  })

  test('by the removal of a key: its usage before the key itself, as pruning does', () =>
    inOrder(`usage where kind = 'key' and id = '${ID}'`, `keys where id = '${ID}'`, () =>
      registry.keys.remove(ID),
    ))

  test('by answers, in the sets of the networks of a key', () => {
    const plan = regular({ subnets: 9, clients: 9 }, ID)
    const served = { ip: IP, subnets: [1], atMs: 0, nowMs: 0 }
    return inOrder(...SETS, () => usage.consume([consumptionOf(plan, served)]))
  })
})

describe.skipIf(!HAS_POSTGRES)('rows of usage are locked in the order of their primary key', () => {
  const twoRules = () => limitRulesOf(temp(ID), ID).toReversed()
  const keys = () => ['z', ID].map(id => ({ rules: limitRulesOf(regular({}, id), IP), nowMs: 0 }))
  const KEY = ['key', ID] as const
  test.each([
    ['requests of several keys', KEY, ['key', 'z'], () => usage.admit(keys())],
    [
      'requests that have two rules',
      KEY,
      ['temp', ID],
      () => usage.admit([{ rules: twoRules(), nowMs: 0 }]),
    ],
    [
      'what is given back',
      KEY,
      ['temp', ID],
      () => usage.giveBack([{ rules: twoRules(), instants: [0, 0] }]),
    ],
    [
      'a reset of all addresses',
      ['demo', ID],
      ['demo', 'z'],
      () => registry.usage.reset({ kind: 'demo', id: null }, 'all', 0),
    ],
  ] as const)('by %s', (_, ...[first, second, work]) => {
    const rowOf = ([kind, id]: readonly [string, string]): string =>
      `usage where kind = '${kind}' and id = '${id}'`
    return inOrder(rowOf(first), rowOf(second), work)
  })

  test('and pruning waits for none of them', async () => {
    await database.query(`insert into proxylist.usage values ('key', 'a', '{}', $1, 0, 0)`, [
      Date.now(),
    ])
    const sql = new SQL({ url, max: 1 })
    await sql.begin(async tx => {
      await tx.unsafe(`select from proxylist.usage where id = '${ID}' for update`)
      while (await usage.prune());
      const left = await database.query('select distinct id from proxylist.usage order by id')
      expect(left).toEqual([{ id: 'a' }, { id: ID }])
    })
    await sql.close()
  })
})
