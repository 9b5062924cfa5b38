/** Every store of feeds returns a state as it was saved, to other connections too, and keeps only the named ones. */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FeedStore } from '../../src/feeds/store.ts'
import { openConnection } from '../../src/postgres/connection.ts'
import { createFeedStore } from '../../src/postgres/feeds.ts'
import { FEEDS_FILE } from '../../src/sqlite/data-directory.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { FEED as A, FEED_STATE } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { HAS_POSTGRES, migratedDatabase } from '../support/postgres.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const B = { id: 'b', shown: '/b' }
let database: ReturnType<typeof migratedDatabase> | null = null

/** Each engine returns a function that opens the same empty store again. */
const ENGINES = {
  async SQLite() {
    const dir = temporaryDirectory()
    return (): FeedStore => {
      const store = openFeeds(dir)
      onCleanUp(store.close)
      return store
    }
  },
  async PostgreSQL() {
    database ??= migratedDatabase()
    const { url } = await database
    const open = (): FeedStore => {
      const store = createFeedStore(openConnection({ url, timeoutMs: 30_000, name: 'test' }))
      onCleanUp(() => void store.close())
      return store
    }
    await open().keepOnly([], T0)
    return open
  },
}

for (const [name, place] of Object.entries(ENGINES)) {
  describe.skipIf(name === 'PostgreSQL' && !HAS_POSTGRES)(`${name}: a state`, () => {
    test('is read as it was saved, by other connections too', async () => {
      const open = await place()
      const store = open()
      await store.save(A.id, FEED_STATE)
      expect(await store.find(A.id)).toEqual(FEED_STATE)
      expect(await open().list()).toEqual([{ id: A.id, ...FEED_STATE }])
      expect(await store.find(B.id)).toBeNull()
      const never = { ...FEED_STATE, lastSuccessAt: null, rows: null }
      await store.save(A.id, never)
      expect(await store.find(A.id)).toEqual(never)
    })

    test('is made for a new feed, due now, and removed with a feed that is not named', async () => {
      const store = (await place())()
      const due = async () =>
        (await store.list()).map(({ source, nextTryAt }) => [source, nextTryAt])
      await store.save(A.id, FEED_STATE)
      await store.keepOnly([A, B], T0)
      expect(await due()).toEqual([
        [B.shown, T0],
        [A.shown, T0 + 1],
      ])
      await store.keepOnly([B], T0 + 5)
      expect(await due()).toEqual([[B.shown, T0]])
    })
  })
}

test('a damaged feeds.db is named by a reader, and replaced by a writer', () => {
  const dir = temporaryDirectory()
  const file = join(dir, FEEDS_FILE)
  writeFileSync(file, 'not a database at all, not a database at all')
  expect(() => openFeeds(dir, { mustExist: true })).toThrow(
    `${file} is not a database; remove it: each feed is then fetched in full once`,
  )
  const store = openFeeds(dir)
  onCleanUp(store.close)
  expect(store.list()).toEqual([])
})
