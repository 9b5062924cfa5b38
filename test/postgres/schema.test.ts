/** The schema in PostgreSQL is made once, by whichever process is first. */
import { afterAll, describe, expect, test } from 'bun:test'
import { examineDatabase } from '../../src/postgres/examine.ts'
import { migrate } from '../../src/postgres/schema.ts'
import { lockList } from '../../src/postgres/versions.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

describe.skipIf(!HAS_POSTGRES)('the schema', () => {
  test('is made by many processes at once, and only once', async () => {
    const url = await emptyDatabase()
    const connections = Array.from({ length: 8 }, () => connectTo(url))
    await Promise.all(connections.map(migrate))
    const [row] = await (connections[0]?.query<{ version: number }>(
      'select version from proxylist.installation',
    ) ?? [])
    expect(row?.version).toBe(1)
    for (const { close } of connections) await close()
  })

  test('of a newer program is refused', async () => {
    const url = await emptyDatabase()
    const connection = connectTo(url)
    await migrate(connection)
    await connection.query('update proxylist.installation set version = 99')
    expect(migrate(connection)).rejects.toThrow('newer proxylist (schema 99')
    await connection.close()
  })

  test.each(['installation', 'list'])(
    'whose table %s somebody has emptied is said to be so, also by doctor',
    async table => {
      const url = await emptyDatabase()
      const connection = connectTo(url)
      await migrate(connection)
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
      await connection.close()
    },
  )
})
