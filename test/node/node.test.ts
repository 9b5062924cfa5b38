/** A node on its database (src/node): what it says, hears, and does when it cannot go on. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { limitRulesOf } from '../../src/access/entitlements.ts'
import { readSettings } from '../../src/config/settings.ts'
import { EXAMINED, examine } from '../../src/doctor.ts'
import { StoreError } from '../../src/lib/errors.ts'
import { createReporter, type Node, openNode, startFollower } from '../../src/node/node.ts'
import type { Connection } from '../../src/postgres/connection.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { createLeaderLock } from '../../src/postgres/nodes.ts'
import { storesOf } from '../../src/stores.ts'
import { T0 } from '../support/fixtures.ts'
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

let url = ''
let database: Connection
let said: string[] = []
let opened: Node[] = []

async function start(at: string, dir: string): Promise<Node> {
  const node = await openNode({
    ...{ dir, url: at, timeoutMs: 20_000, provider: 'the service' },
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
  test('of an earlier program says that the schema was migrated while it runs, knows nothing from then on, and leaves the jobs to others', async () => {
    const node = await open()
    await node.tick()
    expect(node.isLeader()).toBeTrue()
    await database.query('update proxylist.installation set schema = 99')
    await until(() => said.some(sentence => sentence.includes('newer proxylist (schema 99')))
    expect(node.health().works).toBeFalse()
    await node.tick()
    expect(node.isLeader()).toBeFalse()
    const locks = await database.query(`select from pg_locks where locktype = 'advisory'`)
    expect(locks).toBeEmpty()
    await database.query('update proxylist.installation set schema = 1')
    await until(() => node.health().works)
    await node.tick()
    expect(node.isLeader()).toBeTrue()
  })

  test('that is started again answers nothing from its copies before it has reached the database', async () => {
    const dir = temporaryDirectory()
    const { close, registry } = await open(dir)
    expect(registry.keys.find('unknown')).toBeNull()
    await close()
    const node = await start('postgres://nobody@127.0.0.1:1/nothing', dir)
    expect(() => node.registry.keys.find('unknown')).toThrow('the database was not reached yet')
    expect(() => node.list.version()).toThrow('the database was not reached yet')
  })
})

describe.skipIf(!HAS_POSTGRES)('a node whose schema is gone', () => {
  const GONE = /the schema that the copies in .* are of is gone: .* proxylist restore FILE/
  const copied = (dir: string) =>
    ['access.db', 'proxies.db'].map(name => readFileSync(join(dir, name)).toString('base64'))

  test('says so, and neither it nor a command that is run beside it makes an empty one', async () => {
    const dir = temporaryDirectory()
    await (await open(dir)).close()
    await database.query('alter schema proxylist rename to px')
    const node = await start(url, dir)
    await until(() => said.some(sentence => GONE.test(sentence)))
    const given = { data: dir, database: url, databaseTimeout: '20s' }
    const settings = readSettings(EXAMINED, given, {})
    const findings = await examine(settings, {}, () => T0, new AbortController().signal)
    expect(findings.find(({ check }) => check === 'database')?.found).toMatch(GONE)
    const stores = storesOf(settings, () => T0)
    for (const need of ['read', 'change', 'make'] as const) {
      await expect(stores.registry(need, () => {})).rejects.toThrow(GONE)
    }
    await until(() => node.health().failures > 1)
    expect(await database.query(`select from pg_namespace where nspname = 'proxylist'`)).toBeEmpty()
    await database.query('alter schema px rename to proxylist')
    await until(() => node.problem() === null)
  })

  test('keeps its copies when an empty one takes its place, and answers again from the right one', async () => {
    const dir = temporaryDirectory()
    await (await open(dir)).close()
    const before = copied(dir)
    await database.query('alter schema proxylist rename to px')
    await migrate(database)
    const node = await start(url, dir)
    await until(() => said.some(sentence => sentence.startsWith('it is another database than')))
    expect(() => node.registry.keys.find('unknown')).toThrow('the database was not reached yet')
    expect(copied(dir)).toEqual(before)
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

  test('forget what is full when the other one resets it', async () => {
    const [one, two] = [await open(), await open()]
    const isRefused = await fill(one)
    await two.registry.usage.reset({ kind: 'key', id: caller.id }, 'all')
    await until(() => !isRefused())
    expect(await one.registry.usage.admit([request])).toMatchObject([{ kind: 'admitted' }])
  })

  test('forget all that is full when they begin to listen: a reset may have been missed', async () => {
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
    await database.query('alter table proxylist.proxies rename to hidden')
    await database.query('update proxylist.list set version = 1')
    await database.query(`insert into proxylist.list_versions values (1, gen_random_uuid(), 0)`)
    await database.query(`select pg_notify('proxylist', 'list')`)
    const failures = () => node.health().failures
    await until(() => failures() >= 1)
    expect(said.filter(text => text.startsWith('the list cannot be copied'))).toHaveLength(1)
    expect([node.problem(), node.health().works]).toEqual([null, true])
    const before = failures()
    await database.query(`select pg_notify('proxylist', 'list')`)
    await until(() => failures() > before)
    await database.query('alter table proxylist.hidden rename to proxies')
    await until(() => node.replication().listVersion === 1)
    expect(said).toEqual([
      expect.stringMatching(/^the list cannot be copied, and stays as it was: /),
      expect.stringMatching(/^the list of .* is copied again$/),
    ])
  })
})

test('a follower whose worker ends by an error of its own is started again', async () => {
  let failures = 0
  const follower = startFollower(
    { dir: temporaryDirectory(), url: 'no URL', timeoutMs: 1 },
    {
      onFollowed({ kind }) {
        if (kind === 'failed') failures += 1
      },
      ...{ onUsage() {}, onCopy() {} },
    },
  )
  await until(() => failures >= 2)
  await follower.close()
})

describe('what a node says of its database', () => {
  test('is said once, of keys and of the list each, and when it is over', () => {
    const { take: report, health } = createReporter('db/proxylist', {
      say: sentence => void said.push(sentence),
      sayRepeated() {},
    })
    const known = { kind: 'known', keysAgeMs: 0, listAgeMs: null, listVersion: 1 } as const
    expect(health()).toEqual({ works: false, failures: 0 })
    report(known)
    for (let n = 0; n < 3; n += 1) {
      report({ kind: 'failed', what: 'list', message: 'the disk is full' })
      report(known)
    }
    report({ kind: 'failed', what: 'keys', message: 'it is away' })
    report({ kind: 'failed', what: 'keys', message: 'it is away' })
    expect(health().works).toBe(false)
    report({ ...known, listAgeMs: 0 })
    report({ ...known, listAgeMs: 0 })
    expect(said).toEqual([
      'the list cannot be copied, and stays as it was: the disk is full',
      'it is away; answering 503 until that is over',
      'the database db/proxylist works again',
      'the list of db/proxylist is copied again',
    ])
    expect(health()).toEqual({ works: true, failures: 5 })
  })

  test('is said of requests that cannot be counted, and when they are counted again', async () => {
    const { take, uncounted, tick, health } = createReporter('db/proxylist', {
      say: sentence => void said.push(sentence),
      sayRepeated: sentence => void (said.includes(sentence) || said.push(sentence)),
    })
    uncounted(new StoreError('a row is locked'), 'of a subject')
    let works = false
    const probe = async (): Promise<void> => {
      if (works) return
      const failure = new StoreError('its disk is full')
      uncounted(failure, 'of all')
      throw failure
    }
    const LOCKED = 'requests of some keys or addresses get 503: a row is locked'
    const sentence = 'requests cannot be counted and get 503: its disk is full'
    take({ kind: 'known', keysAgeMs: 0, listAgeMs: 0, listVersion: 1 })
    await tick(probe)
    expect(said).toEqual([LOCKED])
    expect(health()).toEqual({ works: true, failures: 0 })
    uncounted(new StoreError('its disk is full'), 'of all')
    expect(health()).toEqual({ works: false, failures: 1 })
    for (let second = 0; second < 3; second += 1) await tick(probe)
    expect(said).toEqual([LOCKED, sentence])
    works = true
    uncounted(new StoreError('its disk is full'), 'of all') // a request fails where the probe would not
    await tick(probe)
    expect(said).toEqual([LOCKED, sentence])
    await tick(probe)
    expect(said).toEqual([LOCKED, sentence, 'requests are counted again'])
    expect(health().works).toBe(true)
  })
})

test('that requests are counted again is not said as long as the database is away', async () => {
  const { take, uncounted, tick } = createReporter('db/proxylist', {
    say: sentence => void said.push(sentence),
    sayRepeated: sentence => void said.push(sentence),
  })
  const failure = new StoreError('a right is missing')
  const failing = async (): Promise<void> => {
    uncounted(failure, 'of all')
    throw failure
  }
  uncounted(failure, 'of all')
  take({ kind: 'failed', what: 'keys', message: 'a right is missing' })
  const before = [...said]
  for (let second = 0; second < 3; second += 1) await tick(failing)
  expect(said).toEqual(before)
  take({ kind: 'known', keysAgeMs: 0, listAgeMs: 0, listVersion: 1 })
  await tick(async () => {})
  expect(said.slice(before.length)).toEqual([
    'the database db/proxylist works again',
    'requests are counted again',
  ])
})

test.skipIf(!HAS_POSTGRES)(
  'the jobs of a node that is frozen, with its connections open, are run by another one',
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
