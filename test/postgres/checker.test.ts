/** What a shared database has for the checker: its lock, and its status. */
import { afterAll, expect, test } from 'bun:test'
import { createStatusStore } from '../../src/postgres/checker.ts'
import { createLeaderLock } from '../../src/postgres/nodes.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { HAS_POSTGRES, migratedDatabase, optionsFor } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

test.skipIf(!HAS_POSTGRES)(
  'one checker at a time has its lock, beside the jobs of nodes',
  async () => {
    const options = optionsFor((await migratedDatabase()).url)
    const jobs = createLeaderLock('jobs', options)
    const [first, second] = [
      createLeaderLock('checker', options),
      createLeaderLock('checker', options),
    ]
    const held = async () => {
      for (const { tick } of [jobs, first, second]) await tick()
      return [jobs, first, second].map(({ isHeld }) => isHeld())
    }
    expect(await held()).toEqual([true, true, false])
    await first.close()
    while (!second.isHeld()) await second.tick() // the server may still be ending that session
    expect(await held()).toEqual([true, false, true])
    for (const { close } of [jobs, second]) await close()
  },
)

test.skipIf(!HAS_POSTGRES)('the status is what was written last', async () => {
  const { connection } = await migratedDatabase()
  const { read, write } = createStatusStore(connection)
  expect(await read()).toBeNull()
  await write(CHECKER_STATUS)
  await write({ ...CHECKER_STATUS, alive: 7 })
  expect(await read()).toEqual({ ...CHECKER_STATUS, alive: 7 })
})
