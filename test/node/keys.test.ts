/** Keys and plans in the memory of a node (src/node/keys.ts): how soon they are what the database has. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { followKeys } from '../../src/node/keys.ts'
import { createRegistry } from '../../src/postgres/registry.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { T0 } from '../support/fixtures.ts'
import { connectTo, HAS_POSTGRES, migratedDatabase, optionsFor } from '../support/postgres.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const KEY = { label: '', note: '', from: '', plan: 'standard', expiresAt: null }
let made: Awaited<ReturnType<typeof migratedDatabase>>
let registry: ReturnType<typeof createRegistry>
let keys: ReturnType<typeof followKeys>
let elapsedMs = 0
let failures: unknown[] = []

beforeEach(async () => {
  if (!HAS_POSTGRES) return
  made = await migratedDatabase()
  const usage = createUsageStore(optionsFor(made.url))
  onCleanUp(usage.close)
  registry = createRegistry(made.connection, usage)
  elapsedMs = 0
  failures = []
  keys = followKeys({
    ...{ quick: connectTo(made.url), patient: connectTo(made.url), elapsedMs: () => elapsedMs },
    later: () => () => {},
    prepare: async () => {},
    onReached() {},
    onAsked: failure => void failures.push(failure),
  })
  onCleanUp(keys.stop)
  expect(keys.problem()).toBe('the database was not reached yet')
  await until(() => failures.length === 1)
})

/** Lets the node ask once, and waits for the end of that. */
async function ask(): Promise<void> {
  const before = failures.length
  keys.wake()
  await until(() => failures.length > before)
}

describe.skipIf(!HAS_POSTGRES)('the keys of a node', () => {
  test('are added, changed, rotated and revoked, and so are plans', async () => {
    await ask()
    const { id } = await registry.keys.add({ ...KEY, key: 'first-key-of-customer' }, T0)
    await ask()
    expect(keys.find('first-key-of-customer')).toMatchObject({ caller: { id }, revokedAt: null })
    await registry.keys.rotate(id, 'second-key-of-customer', T0 + 1000, T0)
    await ask()
    expect(keys.find('first-key-of-customer')).toMatchObject({ expiresAt: T0 + 1000 })
    await registry.plans.set({ name: 'standard', daily: 7 })
    await ask()
    expect(keys.find('second-key-of-customer')?.caller.plan.daily).toBe(7)
    await registry.keys.revoke(id, T0)
    await ask()
    expect(keys.find('second-key-of-customer')?.revokedAt).toBe(T0)
    expect(failures.filter(failure => failure !== null)).toEqual([])
  })

  test('are read as a whole when a secret of a removed key came back', async () => {
    const add = async () => (await registry.keys.add({ ...KEY, key: 'a-key-of-customer' }, T0)).id
    const first = await add()
    await ask()
    await registry.keys.revoke(first, T0)
    await registry.keys.remove(first)
    const second = await add()
    await ask()
    expect(keys.find('a-key-of-customer')?.caller.id).toBe(second)
  })

  test('are unknown after 5 s without the database, and known again when it returns', async () => {
    elapsedMs = 5_000
    expect(keys.problem()).toBeNull()
    elapsedMs = 5_001
    expect(keys.problem()).toBe('the database was not reached for 5 s')
    await made.connection.query('alter schema proxylist rename to hidden')
    await ask()
    expect(failures.at(-1)).toBeInstanceOf(Error)
    await made.connection.query('alter schema hidden rename to proxylist')
    await ask()
    expect(keys.problem()).toBeNull()
  })

  test('are no longer used after a newer program has migrated the schema', async () => {
    await made.connection.query('update proxylist.installation set schema = 99')
    await ask()
    expect(failures.at(-1)).toMatchObject({ message: expect.stringContaining('newer proxylist') })
  })
})
