/** Tests of the stores of a checker: a data directory has one checker, and so has a database. */
import { afterAll, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, StoreError } from '../../src/lib/errors.ts'
import { openNode } from '../../src/node/node.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { type Checking, storesOf, withChecker } from '../../src/stores.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { T0 } from '../support/fixtures.ts'
import { FULL, LATER } from '../support/incoming.ts'
import { HAS_POSTGRES, migratedDatabase } from '../support/postgres.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const clock = (): number => T0
const settingsOf = (database?: string) => ({
  ...{ data: temporaryDirectory(), database, databaseTimeout: 20_000 },
})
type Settings = ReturnType<typeof settingsOf>

const write = async ({ list }: Checking, works: number): Promise<void> => {
  const importTx = list.begin('set')
  await importTx.lock()
  importTx.add({ ...FULL, ...LATER, works })
  await importTx.commit()
}

/** Expects that other processes see the writes of a checker, and that a second checker is refused. */
async function expectAlone(settings: Settings, other: Settings): Promise<void> {
  const stores = storesOf(settings, clock)
  await withChecker(settings, clock, async checking => {
    await expect(withChecker(other, clock, async () => {})).rejects.toThrow(
      /^another checker is at work on .*: there is one for (?:a data directory|all machines)$/,
    )
    await checking.status.write(CHECKER_STATUS)
    await write(checking, 50)
    await checking.list.version() // the copy of a database has it then
    expect(await checking.list.page(-1)).toMatchObject([{ ip: FULL.ip, works: 50 }])
    expect(await (await checking.openFeedStore()).list()).toEqual([])
    expect(checking.store.counts()).toEqual({ living: 0, down: 0, raw: 0 })
  })
  expect(await stores.checkerStatus()).toEqual(CHECKER_STATUS)
  await withChecker(other, clock, async ({ list }) => {
    expect(await list.page(-1)).toMatchObject([{ works: 50 }])
  })
}

test('a data directory has one checker', async () => {
  const settings = settingsOf()
  await expectAlone(settings, settings)
})

test('a checker ends when the list was replaced: its results would be lost', async () => {
  const settings = settingsOf()
  const file = join(settings.data, 'proxies.db')
  const replaced = new CommandError(`${file} was removed or replaced; start the checker again`)
  await withChecker(settings, clock, async checking => {
    await write(checking, 50)
    rmSync(file)
    expect(() => checking.list.version()).toThrow(replaced)
    openList(settings.data, {}).close()
    await expect(write(checking, 60)).rejects.toThrow(replaced)
  })
  await withChecker(settings, clock, async checking => await write(checking, 60))
})

test.skipIf(!HAS_POSTGRES)(
  'a database has one checker on all machines, which writes nothing without its lock',
  async () => {
    const { url, connection } = await migratedDatabase()
    const settings = settingsOf(url)
    await using node = openNode({
      ...{ dir: temporaryDirectory(), url, timeoutMs: 20_000, provider: '', clock },
      log: { say() {}, sayRepeated() {} },
    })
    node.listening({ node: 'n1', address: '' })
    const ticks = setInterval(() => void node.tick(), 100)
    onCleanUp(() => clearInterval(ticks))
    await expectAlone(settings, settingsOf(url))
    await withChecker(settings, clock, async checking => {
      const ended = `select pg_terminate_backend(pid) from pg_locks
        where locktype = 'advisory' and objid = 4 and pid <> pg_backend_pid()`
      await connection.query(ended)
      const isRefused = () => {
        try {
          void checking.list.begin('set').rollback()
          return false
        } catch (error) {
          expect(error).toBeInstanceOf(StoreError)
          return true
        }
      }
      await until(isRefused)
      await checking.status.write({ ...CHECKER_STATUS, alive: 1 })
      expect(await checking.status.read()).toEqual(CHECKER_STATUS)
      await until(() => !isRefused())
      await write(checking, 60)
    })
  },
)
