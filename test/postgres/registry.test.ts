/**
 * The schema, and that changes of keys and plans are numbered and announced, so that other machines can follow.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { migrate, SCHEMA_VERSION, schemaState } from '../../src/postgres/migrate.ts'
import { T0 } from '../support/fixtures.ts'
import { builtIn } from '../support/limits.ts'
import {
  connectTo,
  emptyDatabase,
  HAS_POSTGRES,
  listenTo,
  migratedDatabase,
} from '../support/postgres.ts'
import { ROOT } from '../support/program.ts'
import { openSharedRegistry } from '../support/shared.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const NEW = { label: '', note: '', from: '', plan: 'standard', expiresAt: null }

async function open() {
  const { url, connection } = await migratedDatabase()
  const [one, two] = [openSharedRegistry(url), openSharedRegistry(url)]
  for (const { close } of [one, two]) onCleanUp(close)
  const { registry } = one
  const { query } = connection
  return {
    ...{ query, registry, other: two.registry, keys: registry.keys, plans: registry.plans },
    announced: await listenTo(url, connection),
    async version(): Promise<number> {
      const [row] = await query<{ version: number }>(
        'select keys_version::float8 as version from proxylist.installation',
      )
      return row?.version ?? -1
    },
    async versionOf(id: string): Promise<number | undefined> {
      const [row] = await query<{ version: number }>(
        'select version::float8 as version from proxylist.keys where id = $1',
        [id],
      )
      return row?.version
    },
  }
}

let on: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  if (HAS_POSTGRES) on = await open()
})

describe.skipIf(!HAS_POSTGRES)('a change of keys or plans', () => {
  test('has the next number, which the key carries, and is announced once', async () => {
    const { keys, version, versionOf, announced } = on
    const { id } = await keys.add({ key: 'one', ...NEW }, T0)
    const changes = [
      () => keys.set(id, { label: 'x' }),
      () => keys.rotate(id, 'two', T0 + 1000, T0),
      () => keys.revoke(id, T0),
    ]
    expect(await announced.heard()).toEqual(['keys'])
    for (const change of changes) {
      const before = await version()
      await change()
      expect(await version()).toBe(before + 1)
      expect(await versionOf(id)).toBe(before + 1)
      expect(await announced.heard()).toEqual(['keys'])
    }
  })

  test('of a plan has a number too; the keys of the plan keep theirs', async () => {
    const { id } = await on.keys.add({ key: 'of a plan', ...NEW }, T0)
    const before = await on.version()
    await on.plans.set({ ...builtIn('standard'), name: 'other' })
    await on.plans.remove('other')
    expect(await on.version()).toBe(before + 2)
    expect(await on.versionOf(id)).toBe(before)
    expect(await on.announced.heard()).toEqual(['keys', 'keys', 'keys'])
  })

  test('fails with the reason when another machine removed its plan meanwhile', async () => {
    const key = { key: 'without', ...NEW, plan: 'removed meanwhile' }
    const sentence = 'a plan that the key needs was just removed'
    await expect(on.keys.add(key, T0)).rejects.toThrow(sentence)
  })

  test('is numbered in the order of commits, also from many machines at once', async () => {
    const before = await on.version()
    const ids = Array.from({ length: 40 }, (_, n) => n)
    const added = await Promise.all(
      ids.map(async n => {
        const machine = n % 2 === 0 ? on.registry : on.other
        const { id } = await machine.keys.add({ key: `many ${n}`, ...NEW }, T0)
        return id
      }),
    )
    const versions = await Promise.all(added.map(on.versionOf))
    expect(versions.toSorted((a, b) => Number(a) - Number(b))).toEqual(ids.map(n => before + 1 + n))
  })
})

describe.skipIf(!HAS_POSTGRES)('the schema', () => {
  test('is missing, newest, older, or refused because a newer program made it', async () => {
    const url = await emptyDatabase()
    const connection = connectTo(url)
    expect(await schemaState(connection)).toBe('none')
    await migrate(connection)
    expect(await schemaState(connection)).toBe('newest')
    await connection.query('update proxylist.installation set schema = 0')
    expect(await schemaState(connection)).toBe('older')
    await connection.query('update proxylist.installation set schema = 99')
    expect(schemaState(connection)).rejects.toThrow('newer proxylist (schema 99')
  })

  test('is made once by many processes that start at once', async () => {
    const url = await emptyDatabase()
    const connections = Array.from({ length: 8 }, () => connectTo(url))
    await Promise.all(connections.map(migrate))
    const rows = await connections[0]?.query('select schema from proxylist.installation')
    expect(rows).toEqual([{ schema: SCHEMA_VERSION }])
  })

  test('of version 1 is upgraded: keys, plans and usage stay', async () => {
    const connection = connectTo(await emptyDatabase())
    const script = await Bun.file(join(ROOT, 'test/fixtures/postgres-1.sql')).text()
    await connection.query(script)
    await connection.query(`
      update proxylist.installation set schema = 1;
      insert into proxylist.plans values ('standard', 5, 5, 34560, null, null, null, null, true);
      insert into proxylist.keys values ('k1', '\\x01', 'pl_', 'a', '', 'standard', 1, null, null, null, 1);
      insert into proxylist.usage values ('key', 'k1', '{7,8}', 8, 0, 2, 1, 2, '{3}');
      insert into proxylist.networks values
        ('key', 'k1', 'served', 0, set_bit(B'0'::bit(65536), 300, 1), '{}'),
        ('key', 'k1', 'callers', 0, set_bit(B'0'::bit(65536), 2817, 1), '{2001:db8::/48}')`)
    await migrate(connection)
    expect(await schemaState(connection)).toBe('newest')
    const rows = (text: string) =>
      connection.query<object>(`select ${text}`).then(found => [...found])
    expect(await rows('id, callers from proxylist.keys')).toEqual([{ id: 'k1', callers: '' }])
    expect(await rows('at::text, requests from proxylist.usage')).toEqual([
      { at: '{7,8}', requests: 2 },
    ])
    expect(await rows('network from proxylist.networks order by network')).toEqual([
      { network: '11.1.0.0/16' },
      { network: '2001:db8::/48' },
      { network: '300' },
    ])
    expect(await rows('day, requests, hours::text from proxylist.days')).toEqual([
      { day: 0, requests: 5, hours: '{3,2}' },
    ])
    expect(await rows('has_old_list from proxylist.installation')).toEqual([
      { has_old_list: false },
    ])
    await migrate(connection)
  })
})
