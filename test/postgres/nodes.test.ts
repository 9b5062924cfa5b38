/** Which node runs the jobs of all (src/postgres/nodes.ts). */
import { afterAll, expect, test } from 'bun:test'
import { createJobLock } from '../../src/postgres/nodes.ts'
import { HAS_POSTGRES, migratedDatabase, optionsFor } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

test.skipIf(!HAS_POSTGRES)(
  'the jobs of a node that is frozen, with its connections open, are run by another one',
  async () => {
    const options = optionsFor((await migratedDatabase()).url)
    const frozen = createJobLock(options, 1_000) // time enough for the other one to connect
    const other = createJobLock(options)
    await frozen.tick()
    await other.tick()
    expect([frozen.isHeld(), other.isHeld()]).toEqual([true, false])
    while (!other.isHeld()) await other.tick()
    await frozen.tick()
    if (frozen.isHeld()) await frozen.tick() // the first one found its connection closed
    expect([frozen.isHeld(), other.isHeld()]).toEqual([false, true])
    for (const { close } of [frozen, other]) await close()
  },
)
