/** Keys, plans and usage go into a shared database and back, all or nothing (contract I5). */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { AccessDump } from '../../src/access/dump.ts'
import { readDump, writeDump } from '../../src/postgres/dump.ts'
import { readAccessDump } from '../../src/sqlite/access/dump.ts'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from '../support/fixtures.ts'
import { at } from '../support/incoming.ts'
import { addKeysTo, runStep, stepsFrom } from '../support/installation.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { createRandom } from '../support/random.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const orderFor = (url: string, signal = new AbortController().signal) => ({
  ...{ url, timeoutMs: 20_000, signal },
})

/** What is read of a directory of random use. */
async function randomDump(): Promise<AccessDump> {
  const dir = temporaryDirectory()
  const random = createRandom(1)
  {
    using registry = openRegistry(dir)
    const callers = await addKeysTo(registry, T0)
    for (const step of stepsFrom(random, callers, T0, 250)) await runStep(registry.usage, step)
  }
  using db = openAccessFile(join(dir, ACCESS_FILE))
  return readAccessDump(db)
}

const by =
  <R>(nameOf: (row: R) => string) =>
  (a: R, b: R): number =>
    nameOf(a) < nameOf(b) ? -1 : 1

/** A dump whose rows are in one order. */
const sorted = ({ plans, keys, usage, networks }: AccessDump): AccessDump => ({
  plans: plans.toSorted(by(({ name }) => name)),
  keys: keys.toSorted(by(({ id }) => id)),
  usage: usage.toSorted(by(({ kind, id }) => `${kind} ${id}`)),
  networks: networks
    .map(row => ({ ...row, networks: row.networks.toSorted() }))
    .toSorted(by(({ subject: { kind, id }, set, day }) => `${kind} ${id} ${set} ${day}`)),
})

describe.skipIf(!HAS_POSTGRES)('a dump', () => {
  test('is written into an empty database, and the same is read from it', async () => {
    const [dump, url] = [await randomDump(), await emptyDatabase()]
    await writeDump(orderFor(url), dump, [at(1)])
    expect(sorted((await readDump(orderFor(url))).dump)).toEqual(sorted(dump))
  })

  test('is not written into a database that holds anything', async () => {
    const [dump, url] = [await randomDump(), await emptyDatabase()]
    await writeDump(orderFor(url), dump, [at(1)])
    expect(writeDump(orderFor(url), dump, [at(1)])).rejects.toThrow('is not empty: give an')
  })

  test('is written whole or not at all', async () => {
    const [dump, url] = [await randomDump(), await emptyDatabase()]
    const twice = { ...dump, keys: [...dump.keys, ...dump.keys.slice(0, 1)] }
    await writeDump(orderFor(url), twice, []).catch(() => {})
    expect((await readDump(orderFor(url))).dump).toMatchObject({
      keys: [],
      usage: [],
      networks: [],
    })
    const controller = new AbortController()
    const writing = writeDump(orderFor(url, controller.signal), dump, [])
    controller.abort(new Error('enough'))
    expect(writing).rejects.toThrow('enough')
  })
})
