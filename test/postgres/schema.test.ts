/** The schema in PostgreSQL (src/postgres/schema.ts), with a made-up second version. */
import { afterAll, describe, expect, test } from 'bun:test'
import { examineDatabase } from '../../src/postgres/examine.ts'
import { migrate, SCHEMA } from '../../src/postgres/schema.ts'
import { lockList } from '../../src/postgres/versions.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES, migratedDatabase } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** A made-up second version. */
const SECOND = [
  ...SCHEMA,
  ['create table proxylist.made_up (n integer)', 'insert into proxylist.made_up values (1)'],
]

describe.skipIf(!HAS_POSTGRES)('the schema', () => {
  test('is made and migrated by many processes at once, each time once', async () => {
    const url = await emptyDatabase()
    const connections = Array.from({ length: 8 }, () => connectTo(url))
    const [one] = connections
    for (const scripts of [SCHEMA, SECOND]) {
      await Promise.all(connections.map(each => migrate(each, scripts)))
      const rows = await one?.query('select schema from proxylist.installation')
      expect(rows).toEqual([{ schema: scripts.length }])
    }
    expect(await one?.query('select n from proxylist.made_up')).toEqual([{ n: 1 }])
    if (one) expect(migrate(one)).rejects.toThrow('newer proxylist (schema 2, this one knows 1)')
    for (const { close } of connections) await close()
  })

  test('stays whole as it was when a script fails', async () => {
    const { connection } = await migratedDatabase()
    expect(migrate(connection, [...SECOND, ['no sql']])).rejects.toThrow('cannot be used')
    expect(await connection.query('select schema from proxylist.installation')).toEqual([
      { schema: 1 },
    ])
    expect(connection.query('select from proxylist.made_up')).rejects.toThrow('is missing')
  })

  test('of a build before the first release is refused', async () => {
    const { connection } = await migratedDatabase()
    await connection.query('alter table proxylist.installation rename schema to version')
    expect(migrate(connection)).rejects.toThrow(
      'before its first release: export the keys with that build (keys export), remove the schema (drop schema proxylist cascade), and import the keys (keys import) and the list with this one',
    )
  })

  test.each(['installation', 'list'])(
    'whose table %s somebody has emptied is said to be so, also by doctor',
    async table => {
      const { url, connection } = await migratedDatabase()
      await connection.query(`truncate proxylist.${table}`)
      const found = await examineDatabase(
        { url, timeoutMs: 20_000, origin: '' },
        Date.now,
        new AbortController().signal,
      )
      expect(found[0]).toMatchObject({ check: 'database', ok: false })
      expect(found[0]?.found).toStartWith('a table of the schema proxylist was emptied')
      const read = table === 'list' ? lockList(connection.query) : migrate(connection)
      expect(read).rejects.toThrow('a table of the schema proxylist was emptied')
    },
  )
})
