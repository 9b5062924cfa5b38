/**
 * Holds what every store of a list promises of imports (contract D2, D5): what an update makes of a
 * stored row, what is counted, that an import is one step for every reader, and that imports are
 * one after the other.
 */
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type IncomingProxy, type Proxy, SERVICES } from '../../src/proxies/proxy.ts'
import type { ImportMode } from '../../src/proxies/store.ts'
import { mergeTypes } from '../../src/proxies/types.ts'
import {
  at,
  BARE,
  FULL,
  LATER,
  load,
  NOW,
  OTHER,
  older,
  someIncoming,
  stripped,
} from '../support/incoming.ts'
import { openTestList, type TestList } from '../support/lists.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

const MODES: readonly ImportMode[] = ['merge', 'set', 'replace']

/** More rows than are written at once. */
const MANY = 140_000

const opened: TestList[] = []
function open(dir: string | null = null): TestList {
  const list = openTestList(dir)
  opened.push(list)
  return list
}
async function close(): Promise<void> {
  for (const list of opened.splice(0).reverse()) await list.close()
}
afterEach(close)
/** A list as two processes have it. */
function openTwo(): [TestList, TestList] {
  const dir = temporaryDirectory()
  return [open(dir), open(dir)]
}
/** Holds a property; what it opens is closed after each run. */
const check = <T extends [unknown, ...unknown[]]>(property: fc.IAsyncPropertyWithHooks<T>) =>
  fc.assert(property.afterEach(close), { numRuns: 60 })

const isUnknown = (value: unknown): boolean => value === '' || value === null

/** The names after an update (a new default name replaces the pair of names). */
function citiesAfter(old: Proxy, row: IncomingProxy): Pick<Proxy, 'city' | 'cityEn'> {
  const isShown = ['', old.city, old.cityEn].includes(row.city)
  if (row.cityEn === '' && isShown) return { city: old.city, cityEn: old.cityEn }
  return { city: row.city || old.city, cityEn: row.cityEn }
}

/** What a stored proxy becomes by a row about it: contract D2 as plain code. */
function merge(old: Proxy, incoming: IncomingProxy, mode: ImportMode): Proxy {
  const isOlder = incoming.checkedAt < old.checkedAt
  if (isOlder && mode === 'set') return old
  const types =
    mode === 'set'
      ? incoming.types
      : mergeTypes(old.types, old.checkedAt, incoming.types, incoming.checkedAt)
  if (isOlder) return { ...old, types }
  const row = stripped(incoming)
  const isTaken = (name: string, value: unknown): boolean =>
    !isUnknown(value) || (mode === 'set' && ['anon', 'ipOut'].includes(name))
  const known = Object.fromEntries(Object.entries(row).filter(entry => isTaken(...entry)))
  const unstated = old.services.difference(incoming.servicesStated)
  return {
    ...old,
    ...known,
    ...citiesAfter(old, incoming),
    types,
    services: new Set([...SERVICES].filter(s => unstated.has(s) || row.services.has(s))),
  }
}

/** A list and its counts as plain code. */
function createModel(mode: ImportMode = 'merge') {
  const proxies = new Map<string, Proxy>()
  const counts = { added: 0, updated: 0, unchanged: 0, removed: 0 }
  return {
    proxies,
    counts,
    add(row: IncomingProxy): void {
      const address = `${row.ip}:${row.port}`
      const old = proxies.get(address)
      const next = old ? merge(old, row, mode) : stripped(row)
      if (old === undefined) counts.added += 1
      else if (Bun.deepEquals(old, next)) counts.unchanged += 1
      else counts.updated += 1
      proxies.set(address, next)
    },
  }
}

const byAddress = (proxies: Iterable<Proxy>): Map<string, Proxy> =>
  new Map([...proxies].map(proxy => [`${proxy.ip}:${proxy.port}`, proxy]))
const someFile = fc.array(someIncoming(), { maxLength: 25 })
/** Two files; the second one has some rows of the first again, as they were. */
const someFiles = fc
  .tuple(someFile, someFile, fc.array(fc.nat({ max: 9 }), { maxLength: 9 }))
  .map(([first, more, again]) => [first, [...more, ...again.flatMap(n => first[n] ?? [])]] as const)

afterAll(cleanUp)

describe('rows imported with a clock ahead', () => {
  /** A list with a row checked `aheadSeconds` after the clock, to which others are then added. */
  async function frozen(aheadSeconds: number) {
    const list = open()
    await load(list, [{ ...FULL, checkedAt: NOW + aheadSeconds }])
    return async (row: Partial<IncomingProxy>) => {
      const counts = await load(list, [{ ...BARE, ...row }])
      const [only, ...more] = await list.contents()
      expect(more).toEqual([])
      return { ...counts, checkedAt: only?.checkedAt }
    }
  }

  test('accept any update after the clock is right, and then are ordinary rows', async () => {
    const add = await frozen(8 * 86_400)
    const now = { added: 0, removed: 0, unchanged: 0, updated: 1, checkedAt: NOW - 100 }
    expect(await add({})).toEqual(now)
    expect(await add({ checkedAt: NOW - 200 })).toEqual({ ...now, updated: 0, unchanged: 1 })
  })

  test.each([
    [301, NOW - 100],
    [300, NOW + 300],
  ])('are rows more than 5 minutes ahead: a check %d s ahead', async (ahead, checkedAt) => {
    const add = await frozen(ahead)
    expect((await add({})).checkedAt).toBe(checkedAt)
  })

  test('are replaced by any later row of the same file', async () => {
    const list = open()
    const ahead = { ...FULL, checkedAt: NOW + 301 }
    const rows = [ahead, { ...BARE, ...older }, { ...BARE, checkedAt: NOW - 300 }, ahead, BARE]
    expect(await load(list, rows)).toEqual({ added: 1, updated: 3, unchanged: 1, removed: 0 })
    expect(await list.contents()).toEqual([stripped({ ...FULL, checkedAt: BARE.checkedAt })])
  })
})

describe('an import of more rows than are written at once', () => {
  for (const mode of MODES) {
    test(`merges rows of one address wherever they are, ${mode}`, async () => {
      const list = open()
      await load(list, [at(7)])
      function* rows(): Generator<IncomingProxy> {
        yield FULL
        for (let n = 0; n < MANY; n += 1) yield { ...BARE, ip: '10.1.0.0', port: 1 + (n % 65535) }
        yield { ...BARE, ...LATER, works: 5 }
        yield { ...BARE, ...LATER, works: 5, city: 'Berlin' }
      }
      const removed = mode === 'replace' ? 1 : 0
      const [added, updated] = [1 + Math.min(MANY, 65_535), mode === 'replace' ? 0 : 1]
      const unchanged = MANY + 3 - added - updated
      expect(await load(list, rows(), mode)).toEqual({ added, updated, unchanged, removed })
      const found = (await list.contents()).filter(({ ip }) => ip === FULL.ip)
      const { types, anon, ipOut } = mode === 'set' ? BARE : FULL
      expect(found).toEqual([{ ...stripped(FULL), types, anon, ipOut, ...LATER, works: 5 }])
    })
  }
})

describe('another connection', () => {
  for (const mode of MODES) {
    test(`sees nothing of an import before its commit and all of it after, ${mode}`, async () => {
      const [writer, reader] = openTwo()
      await load(writer, [FULL, at(2)])
      const before = await reader.contents()
      expect(before).toHaveLength(2)
      const importTx = writer.begin(mode)
      expect(await reader.contents()).toEqual(before)
      await importTx.lock()
      for (let host = 10; host < 200; host += 1) {
        importTx.add(at(host))
        if (host % 50 === 0) expect(await reader.contents()).toEqual(before)
      }
      importTx.add(OTHER)
      await importTx.drained?.()
      expect(await reader.contents()).toEqual(before)
      await importTx.commit()
      expect(await reader.contents()).toHaveLength(mode === 'replace' ? 191 : 192)
      expect(await reader.contents()).toEqual(await writer.contents())
      const types = mergeTypes(FULL.types, FULL.checkedAt, OTHER.types, OTHER.checkedAt)
      const after = mode === 'merge' ? { ...OTHER, types } : OTHER
      expect((await reader.contents())[0]).toEqual(stripped(after))
    })
  }
})

describe('before a list is replaced', () => {
  test('the caller sees both sizes, and its error leaves the list unchanged', async () => {
    const list = open()
    await load(list, [at(1), at(2), at(3)])
    const before = await list.contents()
    const importTx = list.begin('replace')
    for (const row of [at(3), at(4), at(4)]) importTx.add(row)
    const refuse = (sizes: unknown): void => {
      expect(sizes).toEqual({ before: 3, after: 2 })
      throw new Error('no')
    }
    await expect(async () => importTx.commit(refuse)).toThrow('no')
    await importTx.rollback()
    expect(await list.contents()).toEqual(before)
    expect(await load(list, [at(9)], 'replace')).toMatchObject({ added: 1, removed: 3 })
  })
})

describe('the mark of imports', () => {
  test('changes after each import that changed the list, unless a feed added rows', async () => {
    const list = open()
    const seen = [await list.importMark()]
    /** Whether what is done now changes the mark. */
    const changes = async (work: () => unknown): Promise<boolean> => {
      await work()
      seen.unshift(await list.importMark())
      return seen[0] !== seen[1]
    }
    const byFeed = async (mode: ImportMode): Promise<void> => {
      const importTx = list.begin(mode)
      importTx.add(at(9))
      await importTx.commit()
    }
    expect(await changes(() => load(list, [FULL, at(8)]))).toBeTrue()
    expect(await changes(() => load(list, [FULL]))).toBeFalse()
    expect(await changes(() => load(list, [{ ...FULL, ...LATER }], 'set'))).toBeFalse()
    expect(await changes(() => byFeed('feed'))).toBeFalse()
    expect(await changes(() => byFeed('replace'))).toBeTrue()
    expect(await changes(() => byFeed('replace'))).toBeFalse()
    expect(await changes(() => load(list, [FULL], 'replace'))).toBeTrue()
    expect(await changes(() => list.removeStale(0, Number.MAX_SAFE_INTEGER))).toBeFalse()
    expect(new Set(seen).size).toBe(4)
  })
})

describe('during another import', () => {
  for (const mode of MODES) {
    test(`an import says once that it waits, then does its work, ${mode}`, async () => {
      const [one, two] = openTwo()
      await load(one, [FULL])
      const release = await one.hold()
      const said: string[] = []
      const waiting = Promise.withResolvers<void>()
      const importTx = two.begin(mode, () => {
        said.push('waiting')
        waiting.resolve()
      })
      const done = (async () => {
        await importTx.lock()
        importTx.add(at(9))
        await importTx.commit()
      })()
      await waiting.promise
      expect(await one.contents()).toEqual([stripped(FULL)])
      await release()
      await done
      expect(said).toEqual(['waiting'])
      expect(await one.contents()).toHaveLength(mode === 'replace' ? 1 : 2)
    })
  }
  test('the wait ends with the reason of its signal, and the list can be imported again', async () => {
    const [one, two] = openTwo()
    const release = await one.hold()
    const controller = new AbortController()
    const importTx = two.begin('merge', () => controller.abort(new Error('stop')))
    const done = importTx.lock(controller.signal).then(() => importTx.commit())
    await expect(done).rejects.toThrow('stop')
    await importTx.rollback()
    await release()
    expect(await load(two, [at(9)])).toMatchObject({ added: 1 })
  })
  test('stale rows stay until it has ended', async () => {
    const [one, two] = openTwo()
    await load(one, [at(1), at(2, { checkedAt: NOW - 1000 })])
    const release = await one.hold()
    // Rejected or without an effect: in either case nothing waits and nothing is lost.
    const early = await (async () => two.removeStale(500_000, NOW * 1000))().catch(() => null)
    expect(early?.removed ?? 0).toBe(0)
    await release()
    expect(await two.removeStale(500_000, NOW * 1000)).toMatchObject({ removed: 1 })
    expect(await one.contents()).toEqual([stripped(at(1))])
  })
})

describe('stale rows', () => {
  const HOUR = 3600
  const aged = (hours: number): IncomingProxy => at(hours, { checkedAt: NOW - hours * 3600 })
  const list = async (hours: readonly number[]): Promise<TestList> => {
    const opened = open()
    await load(opened, hours.map(aged))
    return opened
  }
  const ROWS = [0, 1, 5, 6, 7, 8]
  test.each([
    ['the clock is right', NOW, 6, 2],
    ['the clock is late, by which they are younger', NOW - 2 * HOUR, 6, 0],
    ['the clock runs ahead: the newest check counts', NOW + 100 * HOUR, 6, 2],
    ['every check is young enough', NOW, 8, 0],
    ['the clock is late in its second, as a check is taken to be', NOW + 0.999, 8, 0],
    ['only the newest is young enough', NOW, 0, 5],
  ])('are rows checked long ago when %s', async (_, now, retainHours, removed) => {
    const opened = await list(ROWS)
    const removal = await opened.removeStale(retainHours * HOUR * 1000, now * 1000)
    expect(removal).toEqual({ removed, mayRemain: false })
    expect(await opened.contents()).toHaveLength(ROWS.length - removed)
    expect(await opened.extent()).toEqual({ rows: ROWS.length - removed, newestMs: NOW * 1000 })
    expect(await opened.removeStale(retainHours * HOUR * 1000, now * 1000)).toEqual({
      ...{ removed: 0, mayRemain: false },
    })
  })
  test('are removed in slices, the oldest first', async () => {
    const opened = open()
    const rows = Array.from({ length: 6001 }, (_, n) => ({
      ...BARE,
      port: 1 + n,
      checkedAt: n === 0 ? NOW : NOW - HOUR - n,
    }))
    await load(opened, rows)
    let [removed, slices] = [0, 0]
    for (let mayRemain = true; mayRemain; slices += 1) {
      const slice = await opened.removeStale(HOUR * 1000, NOW * 1000)
      removed += slice.removed
      expect(await opened.count()).toBe(rows.length - removed)
      mayRemain = slice.mayRemain
      const left = await opened.contents()
      expect(left.map(({ port }) => port)).toEqual(
        Array.from({ length: rows.length - removed }, (_, n) => 1 + n),
      )
    }
    expect(removed).toBe(6000)
    expect(slices).toBeGreaterThan(1)
  })
})

describe('an import of works alone', () => {
  test('sets works in existing rows after new rows are added, and keeps their checks', async () => {
    const list = open()
    await load(list, [FULL, at(2), at(3, { works: 40 }), at(4, { works: 7 }), at(5)])
    const importTx = list.begin('set')
    importTx.lower(FULL, 60)
    importTx.lower(at(2), 70)
    importTx.lower(at(3), 40) // as it was
    importTx.lower(at(4), null)
    importTx.lower(at(9), 5) // not there
    importTx.add(at(2, { ...LATER, works: 80 }))
    const counts = { added: 0, updated: 4, unchanged: 2, removed: 0 }
    expect(await importTx.commit()).toEqual(counts)
    const lowered = [{ ...FULL, works: 60 }, at(2, { ...LATER, works: 70 }), at(3, { works: 40 })]
    expect(await list.contents()).toEqual([...lowered, at(4), at(5)].map(stripped))
    expect(await list.extent()).toEqual({ rows: 5, newestMs: LATER.checkedAt * 1000 })
    expect(await list.removeStale(30_000, NOW * 1000)).toMatchObject({ removed: 4 })
  })
})

describe('property: importing', () => {
  test.each(['merge', 'set'] as const)('row after row follows the rules, %s', mode =>
    check(
      fc.asyncProperty(someFiles, async ([first, second]) => {
        const list = open()
        const model = createModel(mode)
        for (const file of [first, second]) {
          Object.assign(model.counts, { added: 0, updated: 0, unchanged: 0 })
          for (const row of file) model.add(row)
          expect(await load(list, file, mode)).toEqual(model.counts)
          expect(byAddress(await list.contents())).toEqual(byAddress(model.proxies.values()))
          expect((await list.extent()).rows).toBe(model.proxies.size)
        }
      }),
    ),
  )
  test('with replace equals importing into an empty list', () =>
    check(
      fc.asyncProperty(someFiles, async ([before, file]) => {
        const [list, fresh] = [open(), open()]
        await load(list, before)
        const old = byAddress(await list.contents())
        const counts = await load(list, file, 'replace')
        await load(fresh, file)
        expect(await list.contents()).toEqual(await fresh.contents())
        const now = byAddress(await fresh.contents())
        const kept = [...now.keys()].filter(address => old.has(address))
        const same = kept.filter(key => Bun.deepEquals(now.get(key), old.get(key)))
        expect(counts.added).toBe(now.size - kept.length)
        expect(counts.removed).toBe(old.size - kept.length)
        expect(counts.updated).toBe(kept.length - same.length)
        expect(counts.added + counts.updated + counts.unchanged).toBe(file.length)
        expect((await list.extent()).rows).toBe(now.size)
      }),
    ))
  test('and rolling back, with or without replace, changes nothing', () =>
    check(
      fc.asyncProperty(
        someFile,
        someFile,
        fc.constantFrom(...MODES),
        async (before, file, mode) => {
          const list = open()
          await load(list, before)
          const rows = await list.contents()
          const importTx = list.begin(mode)
          for (const row of file) importTx.add(row)
          await importTx.rollback()
          expect(await list.contents()).toEqual(rows)
        },
      ),
    ))
})
