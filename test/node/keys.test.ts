/** Copies of keys and plans in PostgreSQL are exactly these, from whichever version they follow (contract I1, I3). */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { newKey } from '../../src/access/key.ts'
import type { Plan } from '../../src/access/plan.ts'
import { VALUES } from '../../src/move/contents.ts'
import { createChangeSource } from '../../src/postgres/changes.ts'
import { readStoredKeys } from '../../src/sqlite/access/keys.ts'
import { createPlanStore } from '../../src/sqlite/access/plans.ts'
import { openKeyCopy } from '../../src/sqlite/copy.ts'
import { T0 } from '../support/fixtures.ts'
import { HAS_POSTGRES, migratedDatabase } from '../support/postgres.ts'
import { openSharedRegistry } from '../support/shared.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PLAN: Plan = {
  ...{ name: 'p', burst: null, daily: 9, subnets: null, clients: null, count: null },
  ...{ downloads: null, enabled: true },
}

/** A database, and a copy of its keys that follows on demand. */
async function openBoth() {
  const { url, connection } = await migratedDatabase()
  const shared = openSharedRegistry(url)
  const { registry } = shared
  const source = createChangeSource(connection, connection)
  const dir = temporaryDirectory()
  const copy = openKeyCopy(dir)
  for (const { close } of [shared, copy]) onCleanUp(close)
  return {
    registry,
    /** Follows; returns whether it was read as a whole. */
    async follow(): Promise<boolean> {
      const changes = await source.readKeys(copy.version())
      await copy.apply(changes)
      return changes.isWhole
    },
    async expectSame(): Promise<void> {
      const { keys, plans } = registry
      const db = new Database(join(dir, 'access.db'), { readonly: true })
      const copied = readStoredKeys(db)
      const copiedPlans = createPlanStore(db).list()
      db.close()
      expect(copied.map(VALUES.keys)).toEqual((await keys.dump()).map(VALUES.keys))
      expect(copiedPlans.map(VALUES.plans)).toEqual((await plans.list()).map(VALUES.plans))
    },
  }
}

describe.skipIf(!HAS_POSTGRES)('the copy of keys and plans', () => {
  test('is brought up to date by what has changed, whatever that was', async () => {
    const { registry, follow, expectSame } = await openBoth()
    const { keys, plans } = registry
    const add = async (label: string, plan: string | null = 'standard'): Promise<string> => {
      const key = newKey(plan === null ? 'temp' : 'regular')
      return (await keys.add({ key, label, plan, expiresAt: T0 }, T0)).id
    }
    const one = await add('one')
    const two = await add('two', null)
    expect(await follow()).toBeTrue()
    await expectSame()
    const stored = (await keys.dump()).filter(({ id }) => id === one)
    const changes: (() => unknown)[] = [
      () => add('three'),
      () => plans.set(PLAN),
      () => keys.set(one, { plan: 'p', label: 'moved', expiresAt: null }),
      () => plans.set({ ...PLAN, daily: 3, enabled: false, burst: { requests: 1, seconds: 2 } }),
      () => keys.rotate(one, newKey('regular'), T0 + 1_000, T0),
      () => keys.rotate(one, newKey('regular'), T0 + 2_000, T0 + 500),
      () => keys.rotate(one, newKey('regular'), T0, T0), // ends the old ones
      () => keys.revoke(two, T0 + 1),
      () => keys.remove(two),
      () => keys.set(one, { plan: 'standard' }),
      () => plans.remove('p'),
      () => keys.revoke(one, T0 + 2),
      () => keys.remove(one),
      () => keys.load(stored, false), // it comes back
    ]
    for (const [n, change] of changes.entries()) {
      await change()
      expect([n, await follow()]).toEqual([n, false])
      await expectSame()
    }
    expect((await keys.dump()).map(({ label }) => label)).toContain('one')
  })

  test('may follow several changes at once, among them a secret that another key has now', async () => {
    const { registry, follow, expectSame } = await openBoth()
    const { keys, plans } = registry
    const [first, second] = [newKey('regular'), newKey('regular')]
    const add = (key: string) => keys.add({ key, label: '', plan: 'standard', expiresAt: null }, T0)
    const { id } = await add(first)
    await follow()
    await keys.rotate(id, second, T0, T0)
    await add(first)
    await plans.set(PLAN)
    await keys.set(id, { plan: 'p' })
    expect(await follow()).toBeFalse()
    await expectSame()
  })
})
