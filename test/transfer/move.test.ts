/**
 * Holds what a move promises (contract I5): all that an installation knows is the same in a database
 * and in a data directory, all or nothing.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Registry } from '../../src/access/store.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { createUsageStore } from '../../src/postgres/access/usage.ts'
import { openConnection } from '../../src/postgres/connection.ts'
import { createFeedStore } from '../../src/postgres/feeds.ts'
import { createRegistry } from '../../src/postgres/registry.ts'
import { openFeeds, openList, openRegistry } from '../../src/sqlite/stores.ts'
import { type MoveOptions, moveFromDatabase, moveToDatabase } from '../../src/wiring/move.ts'
import { fillList, T0 } from '../support/fixtures.ts'
import {
  addFeeds,
  addKeysTo,
  readKnown,
  rowsFrom,
  stepsFrom,
  take,
} from '../support/installation.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { createRandom } from '../support/random.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const orderFor = (dir: string, url: string): MoveOptions => ({
  ...{ dir, url, timeoutMs: 20_000, clock: () => T0, progress() {} },
  signal: new AbortController().signal,
})

/** The registry of a database whose clock is moved by hand. */
function openShared(url: string) {
  const options = { url, timeoutMs: 20_000, name: 'proxylist' }
  const connection = openConnection(options)
  let elapsedMs = 0
  // Long after everything: so each request asks the database, whose clock this is not.
  const usage = createUsageStore(options, () => (elapsedMs += 1e9))
  const registry: Registry = createRegistry(connection, usage)
  const close = async () => {
    await usage.close()
    await connection.close()
  }
  onCleanUp(close)
  return {
    registry,
    connection,
    feeds: createFeedStore(connection),
    async setClock(nowMs: number): Promise<void> {
      await connection.query('create table if not exists public.clock (ms bigint)')
      await connection.query('delete from public.clock')
      await connection.query('insert into public.clock values ($1::float8)', [nowMs])
      await connection.query(
        `create or replace function proxylist.now_ms() returns bigint language sql volatile
         as 'select ms from public.clock'`,
      )
    },
    close,
  }
}

/** The rows of a list with its cities, and the states of its feeds. */
async function listed(dir: string) {
  const list = openList(dir)
  const feeds = openFeeds(dir)
  try {
    return {
      rows: list.db.query('select * from proxies order by id').all(),
      cities: list.db.query('select * from cities order by id').all(),
      feeds: [await feeds.list(), await feeds.find('one'), await feeds.find('two')],
    }
  } finally {
    feeds.close()
    list.close()
  }
}

/** A directory of random use until `nowMs`. */
async function usedDirectory(random: () => number, steps: number) {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, rowsFrom(random, 300))
  list.close()
  const feeds = openFeeds(dir)
  await addFeeds(feeds, T0)
  feeds.close()
  const registry = openRegistry(dir)
  const callers = await addKeysTo(registry, T0)
  let nowMs = T0
  for (const step of stepsFrom(random, callers, T0, steps)) {
    await take(registry.usage, step)
    nowMs = Math.max(nowMs, step.nowMs)
    if (random() < 0.1) while (registry.usage.prune(nowMs));
  }
  registry.close()
  return { dir, callers, nowMs }
}

describe.skipIf(!HAS_POSTGRES)('a move into a database and back', () => {
  test('keeps every window, count, key, day and row; what is decided afterwards is the same', async () => {
    const property = fc.asyncProperty(fc.integer(), async seed => {
      const random = createRandom(seed)
      const { dir, callers, nowMs } = await usedDirectory(random, 250)
      const [before, back] = [temporaryDirectory(), join(temporaryDirectory(), 'back')]
      cpSync(dir, before, { recursive: true })
      const own = openRegistry(before)
      const url = await emptyDatabase()
      await moveToDatabase(orderFor(dir, url))

      const shared = openShared(url)
      await shared.setClock(nowMs)
      expect(await readKnown(shared.registry, callers, nowMs)).toEqual(
        await readKnown(own, callers, nowMs),
      )
      let laterMs = nowMs
      for (const step of stepsFrom(random, callers, nowMs, 60)) {
        await shared.setClock(step.nowMs)
        expect(await take(shared.registry.usage, step)).toEqual(await take(own.usage, step))
        laterMs = Math.max(laterMs, step.nowMs)
      }
      await shared.close()

      await moveFromDatabase(orderFor(back, url))
      const again = openRegistry(back)
      expect(await readKnown(again, callers, laterMs)).toEqual(
        await readKnown(own, callers, laterMs),
      )
      for (const step of stepsFrom(random, callers, laterMs + SECOND_MS, 60)) {
        expect(await take(again.usage, step)).toEqual(await take(own.usage, step))
      }
      again.close()
      own.close()
      expect(await listed(back)).toEqual(await listed(before))
    })
    await fc.assert(property, { numRuns: 4, endOnFailure: true })
  })
})
