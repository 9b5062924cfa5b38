/** Keys, plans and what limits count go from one machine into a shared database and back, all or nothing (contract I5). */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { AccessDump } from '../../src/access/dump.ts'
import { consumptionOf, keySubject, limitRulesOf } from '../../src/access/entitlements.ts'
import { HOUR_MS } from '../../src/lib/time.ts'
import { readDump, writeDump } from '../../src/postgres/dump.ts'
import { readAccessDump, writeAccessDump } from '../../src/sqlite/access/dump.ts'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from '../support/fixtures.ts'
import { at } from '../support/incoming.ts'
import { builtIn, burst, DEMO, IP, openUsage, regular, temp } from '../support/limits.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PLAN = { ...burst(3, 60), daily: 900_000_000_000, subnets: 6, clients: 3 }

/** A data directory with keys of all kinds, and usage that two servers have written. */
function usedDirectory(): string {
  const dir = temporaryDirectory()
  {
    using registry = openRegistry(dir)
    const { keys, plans } = registry
    plans.set({ ...builtIn('demo'), count: 7 })
    plans.set({ ...builtIn('standard'), ...PLAN, name: 'small', enabled: false })
    const texts = { label: 'ночь "x" \\ {a,b}', note: 'a\tb', from: '192.0.2.0/24' }
    const [one] = ['small', 'standard', null].map((plan, n) => {
      const key = plan === null ? 'temp_1' : `a secret of ${n}`
      return keys.add({ key, ...texts, plan, expiresAt: n === 1 ? T0 + HOUR_MS : null }, T0 + n).id
    })
    for (const n of [1, 2]) keys.rotate(one ?? '', `another ${n}`, T0 + n * HOUR_MS, T0)
    keys.revoke(one ?? '', T0 + 9)
  }
  const servers = [1, 2].map(() => openUsage(dir, { chunks: 2, chunkChars: 100 }))
  for (let n = 0; n < 40; n += 1) {
    const caller = [regular(PLAN, 'k1'), DEMO, temp('t1'), regular({}, `k${n}`)][n % 4] ?? DEMO
    servers[n % 2]?.admit(caller, n % 8 < 4 ? IP : '2001:db8::1', T0 + n * 1000)
  }
  const [{ usage, consume, close }, other] = servers as [(typeof servers)[0], (typeof servers)[0]]
  usage.refund([{ rules: limitRulesOf(regular(PLAN, 'k1'), IP), instants: [T0] }])
  for (const subnets of [[1, 2], [3]]) {
    consume(regular(PLAN, 'k1'), { ip: IP, subnets, atMs: T0, nowMs: T0 })
  }
  for (const each of [close, other.close]) each()
  return dir
}

function dumpOf(dir: string): AccessDump {
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
    .toSorted(by(({ set }) => set)),
})

const dir = usedDirectory()
const dump = dumpOf(dir)

test('a dump holds everything that limits count, and a copy decides the same', () => {
  const copy = temporaryDirectory()
  {
    using to = openAccessFile(join(copy, ACCESS_FILE))
    writeAccessDump(to, dump)
  }
  expect(sorted(dumpOf(copy))).toEqual(sorted(dump))
  expect([dump.keys.length, dump.plans.length, dump.networks.length]).toEqual([3, 5, 2])
  const [own, other] = [openUsage(dir), openUsage(copy)]
  const again = (usage: typeof own) =>
    [regular(PLAN, 'k1'), DEMO, temp('t1')].map(caller => usage.admit(caller, IP, T0 + 41_000))
  expect(again(other)).toEqual(again(own))
  const served = { ip: IP, subnets: [4, 5, 6, 7], atMs: T0, nowMs: T0 }
  const refused = other.usage.consume([consumptionOf(regular(PLAN, 'k1'), served)])
  expect(refused).toMatchObject([{ kind: 'refused', used: 3 }])
  expect(other.read(keySubject('k1')).requests).toBeGreaterThan(0)
})

describe.skipIf(!HAS_POSTGRES)('a shared database', () => {
  const orderFor = (url: string, signal = new AbortController().signal) => ({
    ...{ url, timeoutMs: 20_000, signal },
  })

  test('takes a whole dump when it is empty, and refuses it otherwise', async () => {
    const url = await emptyDatabase()
    await writeDump(orderFor(url), dump, [at(1)])
    expect(sorted((await readDump(orderFor(url))).dump)).toEqual(sorted(dump))
    await expect(writeDump(orderFor(url), dump, [at(1)])).rejects.toThrow('is not empty: give an')
  })

  test('takes all of a dump or nothing', async () => {
    const url = await emptyDatabase()
    const twice = { ...dump, keys: [...dump.keys, ...dump.keys.slice(0, 1)] }
    await expect(writeDump(orderFor(url), twice, [])).rejects.toThrow()
    const empty = { keys: [], usage: [], networks: [] }
    expect((await readDump(orderFor(url))).dump).toMatchObject(empty)
    const controller = new AbortController()
    const writing = writeDump(orderFor(url, controller.signal), dump, [])
    controller.abort(new Error('enough'))
    await expect(writing).rejects.toThrow('enough')
  })
})
