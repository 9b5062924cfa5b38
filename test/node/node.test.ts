/** A node on its database (src/node): what it says, hears, and does when it cannot go on. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { limitRulesOf } from '../../src/access/entitlements.ts'
import { startFollower } from '../../src/node/follower.ts'
import { type Node, openNode } from '../../src/node/node.ts'
import type { Connection } from '../../src/postgres/connection.ts'
import { createSharedList } from '../../src/postgres/imports.ts'
import { SCHEMA_VERSION } from '../../src/postgres/migrate.ts'
import { createLeaderLock } from '../../src/postgres/nodes.ts'
import { T0 } from '../support/fixtures.ts'
import { at, load } from '../support/incoming.ts'
import { burst, IP, regular } from '../support/limits.ts'
import {
  connectTo,
  emptyDatabase,
  HAS_POSTGRES,
  migratedDatabase,
  optionsFor,
} from '../support/postgres.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const copyOf = (dir: string) => readFileSync(join(dir, 'proxies.db')).toString('base64')

let url = ''
let database: Connection
let said: string[] = []
let opened: Node[] = []

async function start(database: string, dir: string): Promise<Node> {
  const node = openNode({
    ...{ dir, url: database, timeoutMs: 20_000, provider: 'the service' },
    ...{ clock: () => T0, log: { say: sentence => void said.push(sentence), sayRepeated() {} } },
  })
  opened.push(node)
  return node
}

async function open(dir = temporaryDirectory()): Promise<Node> {
  const node = await start(url, dir)
  await until(() => node.problem() === null)
  return node
}

beforeEach(async () => {
  said = []
  if (!HAS_POSTGRES) return
  url = await emptyDatabase()
  database = connectTo(url)
})
afterEach(async () => {
  await Promise.all(opened.map(({ close }) => close()))
  opened = []
  await database?.close()
})

describe.skipIf(!HAS_POSTGRES)('a node', () => {
  test('of an earlier program reports a migration of the schema, knows no key after it, and leaves the jobs to others', async () => {
    const node = await open()
    await node.tick()
    expect(node.isLeader()).toBeTrue()
    await database.query('update proxylist.installation set schema = 99')
    await until(() => said.some(sentence => sentence.includes('newer proxylist (schema 99')))
    expect(node.health().works).toBeFalse()
    await node.tick()
    expect(node.isLeader()).toBeFalse()
    const locks = () => database.query(`select from pg_locks where locktype = 'advisory'`)
    await until(async () => (await locks()).length === 0)
    await database.query('update proxylist.installation set schema = $1', [SCHEMA_VERSION])
    await until(() => node.health().works)
    await node.tick()
    expect(node.isLeader()).toBeTrue()
  })

  test('uses none of its copies after a restart until it reaches the database', async () => {
    const dir = temporaryDirectory()
    const { close, registry } = await open(dir)
    expect(registry.keys.find('unknown')).toBeNull()
    await close()
    const node = await start('postgres://nobody@127.0.0.1:1/nothing', dir)
    expect(() => node.registry.keys.find('unknown')).toThrow('the database was not reached yet')
    expect(() => node.list.version()).toThrow('the database was not reached yet')
  })
})

describe.skipIf(!HAS_POSTGRES)('a node whose schema was removed', () => {
  test('reports that, makes no new schema, and keeps its copy of the list', async () => {
    const dir = temporaryDirectory()
    await (await open(dir)).close()
    const before = copyOf(dir)
    await database.query('alter schema proxylist rename to px')
    const node = await start(url, dir)
    await until(() =>
      said.some(sentence => sentence.startsWith('the list cannot be copied: it is another')),
    )
    expect(node.problem()).toBe('the list was not copied yet')
    expect(copyOf(dir)).toEqual(before)
    await database.query('drop schema proxylist cascade')
    await database.query('alter schema px rename to proxylist')
    await until(() => node.problem() === null)
  })
})

describe.skipIf(!HAS_POSTGRES)('two nodes', () => {
  const caller = regular(burst(1, 3600))
  const request = { rules: limitRulesOf(caller, IP), nowMs: 0 }
  /** Fills the window of the caller; returns whether the node refuses it by itself. */
  async function fill({ registry: { usage } }: Node): Promise<() => boolean> {
    const isRefused = (): boolean => usage.refuse(request)?.kind === 'refused'
    await until(async () => {
      await usage.admit([request])
      return isRefused()
    })
    return isRefused
  }

  test('forget a full limit when the other node resets it', async () => {
    const [one, two] = [await open(), await open()]
    const isRefused = await fill(one)
    await two.registry.usage.reset({ kind: 'key', id: caller.id }, 'all')
    await until(() => !isRefused())
    expect(await one.registry.usage.admit([request])).toMatchObject([{ kind: 'admitted' }])
  })

  test('forget all full limits when they start to listen, because they may have missed a reset', async () => {
    const node = await open()
    const isRefused = await fill(node)
    await database.query(`update proxylist.usage set at = '{}'`) // without an announcement
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query ilike 'listen %'`,
    )
    await until(() => !isRefused())
  })

  test('keep a list that cannot be copied as it is, and say so once', async () => {
    const node = await open()
    await database.query('alter table proxylist.list_log rename to hidden')
    const failures = () => node.health().failures
    await until(() => failures() >= 2)
    expect(said.filter(text => text.startsWith('the list cannot be copied'))).toHaveLength(1)
    expect([node.problem(), node.health().works]).toEqual([null, true])
    await database.query('alter table proxylist.hidden rename to list_log')
    await until(() => said.some(sentence => sentence.endsWith('is followed again')))
  })
})

describe.skipIf(!HAS_POSTGRES)('after an upgrade from schema 1', () => {
  test('a leader without the list hands the lock to a node that has it, and gets the list', async () => {
    const dir = temporaryDirectory()
    const before = await open(dir)
    before.listening({ node: 'before', address: '' })
    const imported = load(createSharedList(database), [at(1)])
    await until(async () => {
      await before.tick()
      return before.replication().listVersion === 1
    })
    await imported
    await before.close()
    await database.query('delete from proxylist.list_log')
    await database.query('update proxylist.installation set has_old_list = true')

    const without = await start(url, temporaryDirectory())
    await until(async () => {
      await without.tick()
      return without.isLeader()
    })
    const having = await start(url, dir)
    await until(async () => {
      await Promise.all([without.tick(), having.tick()])
      return without.problem() === null
    })
    expect([without.isLeader(), having.isLeader()]).toEqual([false, true])
    expect(without.replication().listVersion).toBe(2)
  })
})

test('a follower is started again when its worker ends with an error', async () => {
  let failures = 0
  const follower = startFollower(
    { dir: temporaryDirectory(), url: 'no URL', timeoutMs: 1 },
    {
      onNewest() {},
      onFailed() {
        failures += 1
      },
    },
  )
  await until(() => failures >= 2)
  await follower.stop()
})

test.skipIf(!HAS_POSTGRES)(
  'another node runs the jobs of a frozen node whose connections are open',
  async () => {
    const options = optionsFor((await migratedDatabase()).url)
    const frozen = createLeaderLock('jobs', options, 1_000) // time enough for the other one to connect
    const other = createLeaderLock('jobs', options)
    await frozen.tick()
    await other.tick()
    expect([frozen.isHeld(), other.isHeld()]).toEqual([true, false])
    while (!other.isHeld()) await other.tick()
    await frozen.tick()
    if (frozen.isHeld()) await frozen.tick() // the first one found its connection closed
    expect([frozen.isHeld(), other.isHeld()]).toEqual([false, true])
    for (const { close } of [frozen, other]) await close()
  },
)
