/**
 * The list in PostgreSQL as machines follow it (contract I3): versions in the order of commits, what has
 * changed since one, and that an import which is killed leaves nothing: no row, no version, no lock.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import type { Version } from '../../src/node/ports.ts'
import { createChangeSource, readListChanges } from '../../src/postgres/changes.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { createListStore } from '../../src/postgres/list.ts'
import type { Row } from '../../src/proxies/row.ts'
import { T0 } from '../support/fixtures.ts'
import { at, BARE, FULL, LATER, load, NOW } from '../support/incoming.ts'
import {
  HAS_POSTGRES,
  holdOpen,
  listenTo,
  migratedDatabase,
  untilWaiting,
} from '../support/postgres.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const DAY_MS = 86_400_000

const storeOf = (url: string) => {
  const store = createListStore(openConnection({ url, timeoutMs: null, name: 'test' }), () => T0)
  onCleanUp(store.close)
  return store
}

/** A database with an empty list, a store of it, and a connection that reads it. */
async function openStore() {
  const { url, connection } = await migratedDatabase()
  return { url, reader: connection, store: storeOf(url) }
}

/** Where the list stands. */
const versionOf = async (reader: Connection): Promise<Version> =>
  (await createChangeSource(reader, reader).versions()).list

/** What is read since a version. */
const changesSince = (reader: Connection, since: Version | null) =>
  readListChanges(reader, since, async ({ isWhole, to, size, cities, rows, removed }) => {
    const changes = {
      ...{ isWhole, version: to.version, size, cities: [...cities] },
      removed: [] as number[],
      rows: [] as Row[],
    }
    for await (const ids of removed) changes.removed.push(...ids)
    for await (const page of rows) changes.rows.push(...page)
    changes.rows.sort(([a], [b]) => a - b)
    return changes
  })

/** The hosts of the addresses of `at`. */
const hostsOf = (ids: readonly number[]): number[] =>
  ids.map(id => Math.floor(id / 65_536) % 256).toSorted((a, b) => a - b)

describe.skipIf(!HAS_POSTGRES)('the list', () => {
  test('its versions count what changes it: an import that changes nothing makes none', async () => {
    const { store, reader } = await openStore()
    const seen: number[] = []
    const done = async (work: Promise<unknown>): Promise<void> => {
      await work
      seen.push((await versionOf(reader)).version)
    }
    await done(load(store, [at(1), at(2)]))
    await done(load(store, [at(1), at(2)]))
    await done(load(store, [at(1, { checkedAt: 5, city: 'Nowhere', cityEn: 'N' })])) // older
    await done(load(store, [at(1, LATER)]))
    await done(load(store, [at(1, LATER), at(2)], 'replace'))
    await done(load(store, [at(1, LATER)], 'replace'))
    await done(load(store, []))
    await done(store.removeStale(1000, T0))
    expect(seen).toEqual([1, 1, 1, 2, 2, 3, 3, 3])
  })

  test('a change wakes who listens, at its commit, with `list`', async () => {
    const { url, store, reader } = await openStore()
    const { heard } = await listenTo(url, reader)
    await load(store, [at(1)])
    await load(store, [at(1)]) // changes nothing
    await store.removeStale(0, T0 + DAY_MS)
    await load(store, [at(2, LATER)])
    await store.removeStale(1000, T0 + DAY_MS)
    expect(await heard()).toEqual(['list', 'list', 'list'])
  })

  test('its versions are in the order of commits, however many import at once', async () => {
    const { url, reader } = await openStore()
    const stores = Array.from({ length: 4 }, () => storeOf(url))
    const committed: number[] = []
    await Promise.all(
      stores.map(async (store, i) => {
        for (let n = 0; n < 5; n += 1) {
          const importTx = store.begin('merge')
          await importTx.lock()
          importTx.add(at(i * 10 + n))
          await importTx.commit()
          committed.push(i * 10 + n)
        }
      }),
    )
    const rows = await reader.query<{ id: number; version: number }>(
      'select id::float8 as id, version::int as version from proxylist.proxies order by version',
    )
    expect(rows.map(({ version }) => version)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
    expect(hostsOf(rows.map(({ id }) => id))).toEqual(committed.toSorted((a, b) => a - b))
  })

  test('what has changed since a version is all at first, then the rows, cities and removals that are newer', async () => {
    const { store, reader } = await openStore()
    const start = await versionOf(reader)
    await load(store, [at(1), at(2), { ...FULL, ip: '10.0.0.3' }])
    const first = await versionOf(reader)
    const all = await changesSince(reader, null)
    expect(all).toMatchObject({ isWhole: true, version: 1, removed: [] })
    expect(all.cities).toEqual([{ id: 1, name: 'Берлин', nameEn: 'Berlin' }])
    expect(hostsOf(all.rows.map(([id]) => id))).toEqual([1, 2, 3])
    expect(await changesSince(reader, start)).toEqual({ ...all, isWhole: false })

    await load(store, [at(1), at(3, { ...LATER, city: 'Рим', cityEn: 'Rome' }), at(4)], 'replace')
    const { rows, ...changes } = await changesSince(reader, first)
    expect(changes).toMatchObject({ isWhole: false, version: 2 })
    expect(changes.cities).toEqual([{ id: 2, name: 'Рим', nameEn: 'Rome' }])
    expect(hostsOf(rows.map(([id]) => id))).toEqual([3, 4])
    expect(hostsOf(changes.removed)).toEqual([2])
    const none = { isWhole: false, version: 2, size: 0, cities: [], rows: [], removed: [] }
    expect(await changesSince(reader, await versionOf(reader))).toEqual(none)
  })

  test('keeps no name that no row of its import has got, and gives no id a second time', async () => {
    const { store, reader } = await openStore()
    const names = async () =>
      (await changesSince(reader, null)).cities.map(c => `${c.id} ${c.name}`)
    const cities = (...some: string[]) => some.map(city => at(1, { ...LATER, city, cityEn: '' }))
    await load(store, cities('A', 'B', 'C').concat(at(2, { city: 'D' })))
    expect((await names()).map(name => name.slice(2))).toEqual(['C', 'D'])
    const [, last = ''] = await names()
    await load(store, cities('E', 'F'), 'replace')
    expect(await names()).toEqual([last, expect.stringMatching(/ F$/)])
    await load(store, cities('G'), 'replace')
    const [f, g = ''] = await names()
    expect(`${f} ${g}`).toMatch(/ F \d+ G$/)
    expect(Number.parseInt(g, 10)).toBeGreaterThan(Number.parseInt(f ?? '', 10))
  })

  test('an import that waits for its source holds no transaction open, which would keep admissions from being cleaned up', async () => {
    const { url, reader } = await openStore()
    const connection = openConnection({ url, timeoutMs: null, name: 'importing' })
    onCleanUp(connection.close)
    const importTx = createListStore(connection, () => T0).begin('merge')
    const backend = async () => {
      const [found] = await reader.query<{ state: string; isOpen: boolean }>(
        `select state, xact_start is not null or backend_xid is not null or
           backend_xmin is not null as "isOpen"
         from pg_stat_activity where application_name = 'importing'`,
      )
      return found
    }
    const idle = { state: 'idle', isOpen: false }
    await importTx.lock()
    expect(await backend()).toEqual(idle)
    for (let n = 1; n <= 60_000; n += 1) importTx.add({ ...BARE, port: n })
    await importTx.drained()
    let found = await backend()
    while (found?.state !== 'idle') {
      await Bun.sleep(5) // the last chunk
      found = await backend()
    }
    expect(found).toEqual(idle)
    expect(await importTx.commit()).toMatchObject({ added: 60_000 })
    const settings = await connection.query('show synchronous_commit')
    expect(settings).toEqual([{ synchronous_commit: 'on' }]) // as before
  })

  test('what a machine reads is the whole list for a copy that the database does not know, or of long ago', async () => {
    const { store, reader } = await openStore()
    await load(store, [at(1)])
    const first = await versionOf(reader)
    const lost = { ...first, mark: crypto.randomUUID() } // by a failover
    expect((await changesSince(reader, lost)).isWhole).toBeTrue()
    expect((await changesSince(reader, { ...first, version: 7 })).isWhole).toBeTrue()
    await load(store, [at(2)], 'replace')
    const second = await versionOf(reader)
    await load(store, [at(3)])

    await reader.query(
      'update proxylist.list_versions set committed_at = committed_at - $1 where version < 3',
      [4 * DAY_MS],
    )
    await store.removeStale(DAY_MS, T0)
    expect((await changesSince(reader, first)).isWhole).toBeTrue()
    expect(await changesSince(reader, second)).toMatchObject({ isWhole: false, removed: [] })
    expect((await changesSince(reader, second)).rows).toHaveLength(1)
    const [left] = await reader.query<{ tombstones: number; versions: number[] }>(
      `select (select count(*)::int from proxylist.removed) as tombstones,
         array(select version::int from proxylist.list_versions order by version) as versions`,
    )
    expect(left?.tombstones).toBe(0)
    expect([...(left?.versions ?? [])]).toEqual([2, 3])
  })

  test('what a machine reads is what has changed, though nothing did for days', async () => {
    const { store, reader } = await openStore()
    await load(store, [at(1)])
    const since = await versionOf(reader)
    await reader.query('update proxylist.list_versions set committed_at = 0')
    await store.removeStale(DAY_MS, T0)
    expect(await versionOf(reader)).toEqual(since)
    expect(await changesSince(reader, since)).toMatchObject({ isWhole: false, rows: [] })
  })

  test('what a machine reads is of one moment, though an import commits meanwhile', async () => {
    const { store, reader } = await openStore()
    await load(store, [at(1), at(2)])
    const seen = await readListChanges(reader, null, async ({ to, rows }) => {
      await load(store, [at(3), at(4)], 'replace')
      expect(to.version).toBe(1)
      const ids: number[] = []
      for await (const page of rows) ids.push(...page.map(([id]) => id))
      return ids
    })
    expect(hostsOf(seen)).toEqual([1, 2])
  })

  test('a row that is read has all that fits in a row, to the last bit', async () => {
    const { store, reader } = await openStore()
    const extreme = {
      ...FULL,
      ...{ ip: '255.255.255.255', port: 65535, ipOut: '2001:db8::1', checkedAt: NOW },
      ...{ speed: 999_999_999_999_999, pingMs: 999_999_999_999_999 },
    }
    await load(store, [extreme, { ...BARE, ip: '0.0.0.0', port: 1, ipOut: '255.255.255.255' }])
    const { rows } = await changesSince(reader, null)
    expect(rows).toEqual([
      [1, BARE.checkedAt, Number.MAX_SAFE_INTEGER, 1, 0, 0, -1, -1, 0, 0, 4_294_967_295],
      [
        ...([2 ** 48 - 1, NOW, 999_999_999_999_999, 1, 4 * 32 + 5, 3, 97] as const),
        ...([999_999_999_999_999, 9, 1, '2001:db8::1'] as const),
      ],
    ])
  })
})

/** What must be as before after an import that was killed. */
async function stateOf(reader: Connection) {
  const [locks] = await reader.query<{ n: number }>(
    `select count(*)::int as n from pg_locks join pg_database d on d.oid = database
       where d.datname = current_database() and locktype = 'advisory'`,
  )
  return { list: await changesSince(reader, null), locks: locks?.n }
}

/** The backends of an import that is to be killed. */
const KILLED = "select pid from pg_stat_activity where application_name = 'killed'"
const untilKilled = (reader: Connection): Promise<number> =>
  until(async () => (await reader.query(KILLED)).length === 0)

const STAGES = ['begun', 'rows', 'merging'] as const

/** A program that begins an import, says so on stdout, and waits at one of these stages, silent for so long at most. */
const program = (url: string, stage: (typeof STAGES)[number], silentMsMax = 60_000): string => `
  const { openConnection } = await import(${JSON.stringify(`${import.meta.dir}/../../src/postgres/connection.ts`)})
  const { beginImport } = await import(${JSON.stringify(`${import.meta.dir}/../../src/postgres/import.ts`)})
  const connection = openConnection({ url: ${JSON.stringify(url)}, timeoutMs: null, name: 'killed' })
  const importTx = beginImport(connection, 'replace', () => {}, ${T0}, ${silentMsMax})
  await importTx.lock()
  const row = { ip: '10.0.0.9', ipOut: '', types: 1, anon: '', speed: null, pingMs: null,
    checkedAt: ${NOW}, country: '', city: '', cityEn: '', works: null,
    services: new Set(), servicesStated: new Set() }
  if (${stage !== 'begun'}) for (let port = 1; port < 40_000; port += 1) importTx.add({ ...row, port })
  await importTx.drained()
  // A merge asks whether it may replace the list while its transaction is open.
  if (${stage === 'merging'}) await importTx.commit(() => { console.log('waiting'); Bun.sleepSync(60_000) })
  console.log('waiting')
  await Bun.sleep(60_000)`

/** Starts a program and waits until it has said something. */
async function startProgram(code: string) {
  const child = Bun.spawn([process.execPath, '-e', code], { stdout: 'pipe', stderr: 'inherit' })
  onCleanUp(() => child.kill('SIGKILL'))
  await child.stdout.getReader().read()
  return child
}

describe.skipIf(!HAS_POSTGRES)('an import that is killed leaves list, version and locks', () => {
  test.each(STAGES)('with its process: %s', async stage => {
    const { url, reader, store } = await openStore()
    await load(store, [at(1), at(2)])
    const before = await stateOf(reader)
    const child = await startProgram(program(url, stage))
    // Who sends its rows slowly keeps nobody waiting: only a merge locks the list.
    expect((await stateOf(reader)).locks).toBe(stage === 'merging' ? 1 : 0)
    child.kill('SIGKILL')
    await child.exited
    await untilKilled(reader)
    expect(await stateOf(reader)).toEqual(before)
    expect(await load(store, [at(3)])).toMatchObject({ added: 1 })
  })

  test.each(STAGES)('with its backend: %s', async stage => {
    const { url, reader, store } = await openStore()
    await load(store, [at(1), at(2)])
    const before = await stateOf(reader)
    const connection = openConnection({ url, timeoutMs: null, name: 'killed' })
    onCleanUp(connection.close)
    const killed = createListStore(connection, () => T0)
    const kill = () => reader.query(`select pg_terminate_backend(pid) from (${KILLED}) as killed`)
    const importTx = killed.begin('replace')
    await importTx.lock()
    if (stage !== 'begun') importTx.add(at(9))
    // A merge writes its version last: it waits for this lock when all its rows are written.
    const session = await holdOpen(url, 'lock table proxylist.list_versions in share mode')
    if (stage !== 'merging') await kill()
    const commit = importTx.commit()
    commit.catch(() => {}) // it may fail before it is awaited
    if (stage === 'merging') {
      await untilWaiting(reader, 'killed')
      await kill()
    }
    await expect(commit).rejects.toThrow('the database 127.0.0.1')
    await session.end()
    await importTx.rollback()
    await untilKilled(reader)
    expect(await stateOf(reader)).toEqual(before)
    expect(await load(killed, [at(3)])).toMatchObject({ added: 1 }) // on a new connection
  })

  test('with its session, when it is frozen while it merges, with its connection open', async () => {
    const { url, reader, store } = await openStore()
    await load(store, [at(1), at(2)])
    const before = await stateOf(reader)
    await startProgram(program(url, 'merging', 1_000))
    await until(async () => (await stateOf(reader)).locks === 0)
    expect(await stateOf(reader)).toEqual(before)
    expect(await load(store, [at(3)])).toMatchObject({ added: 1 })
  })
})
