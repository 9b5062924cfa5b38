/** `restore --database` and `backup --database` copy keys, plans and what limits count, and nothing is lost. */
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { SECOND_MS } from '../../../src/lib/time.ts'
import { readAccessDump, writeAccessDump } from '../../../src/sqlite/access/dump.ts'
import { openAccessFile } from '../../../src/sqlite/access/file.ts'
import { ACCESS_FILE } from '../../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../../src/sqlite/stores.ts'
import { T0 } from '../../support/fixtures.ts'
import { addKeysTo, readKnown, runStep, stepsFrom } from '../../support/installation.ts'
import { createRandom } from '../../support/random.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

/** A directory of random use until `nowMs`. */
async function usedDirectory(random: () => number, steps: number) {
  const dir = temporaryDirectory()
  using registry = openRegistry(dir)
  const callers = await addKeysTo(registry, T0)
  let nowMs = T0
  for (const step of stepsFrom(random, callers, T0, steps)) {
    await runStep(registry.usage, step)
    nowMs = Math.max(nowMs, step.nowMs)
    if (random() < 0.1) while (registry.usage.prune(nowMs));
  }
  return { dir, callers, nowMs }
}

/** A directory with what is read from another one. */
function copyOf(dir: string): string {
  const copy = temporaryDirectory()
  using from = openAccessFile(join(dir, ACCESS_FILE))
  using to = openAccessFile(join(copy, ACCESS_FILE))
  writeAccessDump(to, readAccessDump(from))
  return copy
}

test('a copy has the same keys, plans, windows, days and networks, and decides the same afterwards', async () => {
  const property = fc.asyncProperty(fc.integer(), async seed => {
    const random = createRandom(seed)
    const { dir, callers, nowMs } = await usedDirectory(random, 250)
    using own = openRegistry(dir)
    using copy = openRegistry(copyOf(dir))
    expect(await readKnown(copy, callers, nowMs)).toEqual(await readKnown(own, callers, nowMs))
    for (const step of stepsFrom(random, callers, nowMs + SECOND_MS, 60)) {
      expect(await runStep(copy.usage, step)).toEqual(await runStep(own.usage, step))
    }
  })
  await fc.assert(property, { numRuns: 3, endOnFailure: true })
})
