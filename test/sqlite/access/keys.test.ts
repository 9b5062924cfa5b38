/** Keys in memory (src/sqlite/access/keys.ts): what was found stays right while keys change, here and elsewhere. */
import { afterAll, expect, test } from 'bun:test'
import { nextTurn } from '../../../src/lib/errors.ts'
import { openServerRegistry } from '../../../src/sqlite/server-registry.ts'
import { addKeys, dataDirectory, T0 } from '../../support/fixtures.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

test('a commit of another server clears cached keys only when it changed keys or plans', async () => {
  const dir = dataDirectory()
  const [id = ''] = addKeys(dir, {}, [{ key: 'mine', plan: 'free' }], T0)
  const server = openServerRegistry(dir, () => {})
  const other = openServerRegistry(dir, () => {})
  try {
    const found = server.keys.find('mine')
    other.usage.probe() // commits, as an admission does
    await nextTurn()
    expect(server.keys.find('mine')).toBe(found)
    other.keys.revoke(id, T0)
    await nextTurn()
    expect(server.keys.find('mine')?.revokedAt).toBe(T0)
    other.plans.set({ name: 'free', enabled: false })
    await nextTurn()
    expect(server.keys.find('mine')?.caller.plan.enabled).toBeFalse()
  } finally {
    for (const { close } of [server, other]) close()
  }
})

test('an unknown key is known as soon as this server or another process adds it', async () => {
  const dir = dataDirectory()
  const { keys, close } = openServerRegistry(dir, () => {})
  try {
    expect(keys.find('mine')).toBeNull()
    expect(keys.find('theirs')).toBeNull()
    const { id } = await keys.add(
      { key: 'mine', label: '', note: '', from: '', plan: 'free', expiresAt: null },
      T0,
    )
    expect(keys.find('mine')?.caller.id).toBe(id)
    expect(keys.find('theirs')).toBeNull()
    const [theirs] = addKeys(dir, {}, [{ key: 'theirs', plan: 'free' }], T0)
    await nextTurn() // whether another process has written is looked up once in a turn
    expect(keys.find('theirs')?.caller.id).toBe(theirs)
  } finally {
    close()
  }
})
