/**
 * Holds what a move promises (contract I5): all that an installation knows is the same in a database
 * and in a data directory, all or nothing.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { SECOND_MS } from '../../src/lib/time.ts'
import { moveFromDatabase, moveToDatabase } from '../../src/move/move.ts'
import { readState } from '../../src/postgres/change-numbers.ts'
import {
  decodeNetworks,
  encodeNetworks,
  LENGTHENED,
  NETWORKS_HEX,
  shortened,
} from '../../src/postgres/usage/networks.ts'
import { feedLinesIn, openFeeds } from '../../src/sqlite/feeds.ts'
import { openList, openRegistry } from '../../src/sqlite/stores.ts'
import { fillList, T0 } from '../support/fixtures.ts'
import {
  addFeeds,
  addKeysTo,
  readKnown,
  rowsFrom,
  stepsFrom,
  take,
} from '../support/installation.ts'
import { listed, openShared, orderFor } from '../support/moves.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { createRandom } from '../support/random.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** A directory of random use until `nowMs`. */
async function usedDirectory(random: () => number, steps: number) {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, rowsFrom(random, 300))
  list.close()
  const feeds = openFeeds(dir)
  await addFeeds(feeds, T0)
  feeds.close()
  feedLinesIn(dir).replaceLines('', '/a every=5m\n# b\n')
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

/** The age of the newest check of a list, in milliseconds before T0. */
function youngest(dir: string): number {
  const list = openList(dir)
  const { newest } = list.proxies.checks()
  list.close()
  return T0 - (newest ?? 0) * SECOND_MS
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

      const shared = await openShared(url)
      await shared.setClock(nowMs)
      expect(await readKnown(shared.registry, callers, nowMs)).toEqual(
        await readKnown(own, callers, nowMs),
      )
      const newest = (T0 - youngest(before)) / 1000
      expect(await readState(shared.connection.query)).toMatchObject({ rows: 300, newest })
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
    await fc.assert(property, { numRuns: 2, endOnFailure: true })
  })

  test('a small set of networks takes less than 1 KB both ways, and each set is what it was', async () => {
    await using connection = connectTo(await emptyDatabase())
    const sparse = fc.uniqueArray(fc.nat(65_535), { maxLength: 10 })
    const dense = fc.nat(65_535).map(most => Array.from({ length: most }, (_, bit) => bit))
    await fc.assert(
      fc.asyncProperty(fc.oneof(sparse, dense), async bits => {
        const networks = bits.toSorted((a, b) => a - b).map(String)
        const there = shortened(encodeNetworks('served', networks).networks)
        const [row] = await connection.query<{ hex: string }>(
          `select ${NETWORKS_HEX} as hex
           from (select ${LENGTHENED} as networks from (select $1::text as networks) sent) stored`,
          [there],
        )
        const back = row?.hex ?? ''
        expect(decodeNetworks('served', back, [])).toEqual(networks)
        if (bits.length <= 10) expect(Math.max(there.length, back.length)).toBeLessThan(1_000)
      }),
      { numRuns: 30 },
    )
  })
})
