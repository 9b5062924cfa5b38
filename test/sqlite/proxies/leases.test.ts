/**
 * Long answers counted over all servers on a data directory (contract B8, B9), also over those that are
 * killed. Real locks on real files.
 */
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import type { Share } from '../../../src/access/entitlements.ts'
import { ApiError } from '../../../src/api/errors.ts'
import { createLeases } from '../../../src/sqlite/proxies/downloads.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const share = (id: string, downloads: number | null, isTrial = false): Share => ({
  ...{ id, isTrial, downloads },
})

test('servers on one data directory have at most `downloads` together, of each key', () => {
  const dir = temporaryDirectory()
  const [one, two] = [createLeases(dir), createLeases(dir)]
  const four = [one, two, one, two].map(({ take }) => take(share('k', 4)))
  expect(four).not.toContain(null)
  for (const { take } of [one, two]) expect(take(share('k', 4))).toBeNull()
  expect(one.take(share('other', 1))).not.toBeNull()
  four[1]?.()
  four[1]?.() // once
  const again = one.take(share('k', 4))
  expect([again === null, two.take(share('k', 4))]).toEqual([false, null])
  one.close()
  two.close()
})

test('a key without a limit is not counted', () => {
  const dir = temporaryDirectory()
  const { take } = createLeases(dir)
  for (let n = 0; n < 99; n += 1) expect(take(share('k', null))).not.toBeNull()
  expect(readdirSync(dir)).toEqual([])
})

test('an address and a key of the same name are counted apart', () => {
  const { take, close } = createLeases(temporaryDirectory())
  const ids = [share('::1', 1), share('::1', 1, true), share('2001:db8::/64', 1, true)]
  for (const one of ids) expect(take(one)).not.toBeNull()
  for (const one of ids) expect(take(one)).toBeNull()
  close()
})

test('no file is left when answers end, and none says whose they are', () => {
  const dir = temporaryDirectory()
  const { take, close } = createLeases(dir)
  const ends = ['203.0.113.9', '2001:db8:1:2::/64'].map(id => take(share(id, 2, true)))
  const files = readdirSync(dir).filter(name => !name.endsWith('-journal')) // of SQLite
  expect(files).toHaveLength(2)
  for (const file of files) expect(file).toMatch(/^answer-[0-9a-z]{5,}-0\.lock$/)
  for (const end of ends) end?.()
  expect(readdirSync(dir)).toEqual([])
  take(share('k', 1))
  close()
  expect(readdirSync(dir)).toEqual([])
})

/** A server in a process of its own that has one long answer of a share. */
async function startOther(dir: string, held: Share) {
  const path = `${import.meta.dir}/../../../src/sqlite/proxies/downloads.ts`
  const script = `
    import { createLeases } from ${JSON.stringify(path)}
    const leases = createLeases(${JSON.stringify(dir)})
    leases.take(${JSON.stringify(held)})
    console.log('has it')
    setInterval(() => leases, 1000)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  onCleanUp(() => child.kill('SIGKILL'))
  await child.stdout.getReader().read()
  return child
}

test('what a killed server had is free at once, and its files are removed at the next start', async () => {
  const dir = temporaryDirectory()
  const { take, close } = createLeases(dir)
  const [a, b] = [share('a', 1), share('b', 1)]
  const others = [await startOther(dir, a), await startOther(dir, b)]
  expect([take(a), take(b)]).toEqual([null, null])
  for (const child of others) child.kill('SIGKILL')
  await Promise.all(others.map(({ exited }) => exited))
  const locks = () => readdirSync(dir).filter(name => name.endsWith('.lock'))
  expect([take(a) === null, locks().length]).toEqual([false, 2])
  const next = createLeases(dir) // takes nothing from a server that runs
  expect([next.take(a), locks().length]).toEqual([null, 1])
  close()
  expect(readdirSync(dir)).toEqual([])
})

test('what cannot be counted, because no file can be made, is refused', () => {
  const dir = temporaryDirectory()
  const { take } = createLeases(dir)
  rmSync(dir, { recursive: true })
  expect(() => take(share('k', 1))).toThrow(ApiError)
  mkdirSync(dir)
  expect(take(share('k', 1))).not.toBeNull()
})
