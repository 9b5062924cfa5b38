/**
 * Holds what every store of feeds promises: a state is read as it was saved, by others too, and one
 * process at a time fetches a feed, until it has released it or has ended.
 */
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import type { FeedLines, FeedStore } from '../../src/feeds/store.ts'
import { openConnection } from '../../src/postgres/connection.ts'
import { createFeedStore } from '../../src/postgres/feeds.ts'
import { createLeaderLock } from '../../src/postgres/nodes.ts'
import { feedLinesIn, openFeeds } from '../../src/sqlite/feeds.ts'
import { FEED as A, FEED_STATE } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { connectTo, HAS_POSTGRES, migratedDatabase } from '../support/postgres.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const B = { id: 'b', shown: '/b' }

/** Opens the same empty states, each time as another connection. */
type Place = { open(): Promise<FeedStore & FeedLines> }

/** The server ends the locks of a connection a moment after that was closed. */
async function untilUnlocked(url: string): Promise<void> {
  const { query, close } = connectTo(url)
  const locks = `select from pg_catalog.pg_locks l join pg_catalog.pg_database d on d.oid = l.database
    where l.locktype = 'advisory' and d.datname = pg_catalog.current_database()`
  await until(async () => (await query(locks)).length === 0)
  await close()
}

/** A database for all tests of this file. */
let database: ReturnType<typeof migratedDatabase> | null = null
type Engine = { name: string; isThere: boolean; place(): Promise<Place> }

const SQLITE: Engine = {
  name: 'SQLite',
  isThere: true,
  async place() {
    const dir = temporaryDirectory()
    return {
      async open() {
        const store = openFeeds(dir)
        onCleanUp(store.close)
        return { ...store, ...feedLinesIn(dir) }
      },
    }
  },
}

const POSTGRES: Engine = {
  name: 'PostgreSQL',
  isThere: HAS_POSTGRES,
  async place() {
    database ??= migratedDatabase()
    const { url } = await database
    await untilUnlocked(url)
    async function open(): Promise<FeedStore & FeedLines> {
      const store = createFeedStore(openConnection({ url, timeoutMs: 30_000, name: 'test' }))
      undo.push(store.close)
      return store
    }
    await (await open()).keepOnly([], T0)
    return { open }
  },
}

const undo: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of undo.splice(0)) await end()
})

/** What is listed, with the time of the next attempt. */
const dueOf = async (store: FeedStore): Promise<(string | number)[][]> =>
  (await store.list()).map(({ source, nextTryAt }) => [source, nextTryAt])

for (const { name, isThere, place } of [SQLITE, POSTGRES]) {
  describe.skipIf(!isThere)(`${name}: a state`, () => {
    test('is read as it was saved, by other connections too', async () => {
      const { open } = await place()
      const store = await open()
      await store.save(A.id, FEED_STATE)
      expect(await store.find(A.id)).toEqual(FEED_STATE)
      expect(await (await open()).list()).toEqual([{ id: A.id, ...FEED_STATE }])
      expect(await store.find(B.id)).toBeNull()
      const never = { ...FEED_STATE, lastSuccessAt: null, rows: null }
      await store.save(A.id, never)
      expect(await store.find(A.id)).toEqual(never)
    })
    test('is made for what is new, due now, and removed with what is not named', async () => {
      const store = await (await place()).open()
      await store.save(A.id, FEED_STATE)
      await store.keepOnly([A, B], T0)
      expect(await dueOf(store)).toEqual([
        [B.shown, T0],
        [A.shown, T0 + 1],
      ])
      await store.keepOnly([B], T0 + 5)
      expect(await dueOf(store)).toEqual([[B.shown, T0]])
    })
  })

  describe.skipIf(!isThere)(`${name}: the feeds of the console`, () => {
    test('are a text, which is replaced only where it is still the one that was read', async () => {
      const { open } = await place()
      const [one, two] = [await open(), await open()]
      expect(await one.readLines()).toBe('')
      expect(await one.replaceLines('', '/a\n')).toBeTrue()
      expect(await two.replaceLines('', '/b\n')).toBeFalse()
      expect(await two.readLines()).toBe('/a\n')
      expect(await two.replaceLines('/a\n', '')).toBeTrue()
      expect(await one.readLines()).toBe('')
    })
    test('stay when states are removed', async () => {
      const store = await (await place()).open()
      await store.replaceLines('', '/a\n')
      await store.keepOnly([], T0)
      expect(await store.readLines()).toBe('/a\n')
      await store.replaceLines('/a\n', '')
    })
  })

  describe.skipIf(!isThere)(`${name}: a lease`, () => {
    test('makes a feed that is new, due now, and is repeated by who has it', async () => {
      const store = await (await place()).open()
      expect(await store.lease(A, T0)).toBeTrue()
      expect(await store.lease(A, T0 + 7)).toBeTrue()
      expect(await dueOf(store)).toEqual([[A.shown, T0]])
    })
  })
}

const program = (url: string): string => `
  const { openConnection } = await import(${JSON.stringify(`${import.meta.dir}/../../src/postgres/connection.ts`)})
  const { createFeedStore } = await import(${JSON.stringify(`${import.meta.dir}/../../src/postgres/feeds.ts`)})
  const connection = openConnection({ url: ${JSON.stringify(url)}, timeoutMs: 30_000, name: 'killed' })
  console.log(await createFeedStore(connection).lease(${JSON.stringify(A)}, ${T0}))
  await Bun.sleep(60_000)`

describe.skipIf(!HAS_POSTGRES)('PostgreSQL: a lease', () => {
  test('of another connection is respected until it is released, however often it was made', async () => {
    const { open } = await POSTGRES.place()
    const [one, two] = [await open(), await open()]
    for (let n = 0; n < 3; n += 1) expect(await one.lease(A, T0)).toBeTrue()
    expect(await two.lease(A, T0)).toBeFalse()
    expect(await two.lease(B, T0)).toBeTrue()
    await one.release(A.id)
    expect(await two.lease(A, T0)).toBeTrue()
    expect(await one.lease(A, T0)).toBeFalse()
  })

  test('ends with the lock of a process that is frozen, with its connections open', async () => {
    const store = await (await POSTGRES.place()).open()
    const { url } = await (database ?? migratedDatabase())
    const options = { url, timeoutMs: 30_000, name: 'test' }
    const [lock, connection] = [createLeaderLock('jobs', options, 1_000), openConnection(options)]
    undo.push(lock.close, connection.close)
    await lock.tick()
    expect(await createFeedStore(connection, lock.query).lease(A, T0)).toBeTrue()
    await until(() => store.lease(A, T0))
  })

  test('ends with a process that was killed', async () => {
    const { open } = await POSTGRES.place()
    const store = await open()
    const { url } = await (database ?? migratedDatabase())
    const child = Bun.spawn([process.execPath, '-e', program(url)], { stdout: 'pipe' })
    onCleanUp(() => child.kill('SIGKILL'))
    const { value } = await child.stdout.getReader().read()
    expect(new TextDecoder().decode(value)).toBe('true\n')
    expect(await store.lease(A, T0)).toBeFalse()
    child.kill('SIGKILL')
    await child.exited
    while (!(await store.lease(A, T0))) await Bun.sleep(5)
  })
})
