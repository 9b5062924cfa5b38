/** Holds what every store of a list promises the checker: reading by address, and writing what was measured. */
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { idOf } from '../../src/proxies/row.ts'
import { at, BARE, FULL, LATER, load, NOW, stripped } from '../support/incoming.ts'
import { openTestList, type TestList } from '../support/lists.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const opened: TestList[] = []
afterEach(async () => {
  for (const { close } of opened.splice(0)) await close()
})
function open(): TestList {
  const list = openTestList(temporaryDirectory())
  opened.push(list)
  return list
}

describe('the list as the checker uses it', () => {
  test('is read in pages by address, with the known values of each row', async () => {
    const list = open()
    const rows = Array.from({ length: 2_500 }, (_, n) => ({ ...BARE, port: 1 + n }))
    const last = { ...FULL, ip: '255.255.255.255', port: 65_535 }
    await load(list, [last, ...rows])
    const checked = list.checked()
    const pages = [await checked.page(-1)]
    while (pages[0]?.length !== 0) pages.unshift(await checked.page(idOf(pages[0]?.at(-1) ?? BARE)))
    const all = pages.toReversed().flat()
    expect(pages.map(({ length }) => length)).toEqual([0, 501, 2_000])
    expect(all.map(({ port }) => port)).toEqual([...rows, last].map(({ port }) => port))
    const first = { ip: BARE.ip, port: 1, types: BARE.types, checkedAt: NOW - 100, works: null }
    expect(all[0]).toEqual(first as never)
    const { ip, port, types, checkedAt, works } = last
    expect(all.at(-1)).toEqual({ ip, port, types, checkedAt, works })
  })

  test('has a new version after changes by others, but not by the checker', async () => {
    const list = open()
    await load(list, [FULL])
    const checked = list.checked()
    const write = async (works: number): Promise<void> => {
      const importTx = checked.begin('set')
      await importTx.lock()
      importTx.add({ ...at(2), ...LATER, works })
      importTx.lower(FULL, works)
      await importTx.commit()
    }
    const versions = [await checked.version()]
    for (const works of [50, 50, 60]) {
      await write(works)
      expect(await checked.version()).toBe(versions[0] as string)
    }
    expect(await list.contents()).toEqual(
      [{ ...FULL, works: 60 }, at(2, { ...LATER, works: 60 })].map(stripped),
    )
    await load(list, [at(3)])
    expect(await checked.version()).not.toBe(versions[0] as string)
  })

  test('waits for another import, until its signal aborts the wait', async () => {
    const list = open()
    const release = await list.hold()
    const ending = new AbortController()
    const importTx = list.checked().begin('set', () => ending.abort(new Error('stop')))
    const done = importTx.lock(ending.signal).then(() => importTx.commit())
    await expect(done).rejects.toThrow('stop')
    await importTx.rollback()
    await release()
  })
})
