/**
 * Defaults that others have set for a database or a role: those that change what values mean are in every
 * database of tests (`support/postgres.ts`), time limits and functions of the same names here.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { createListener } from '../../src/postgres/nodes.ts'
import { migrate } from '../../src/postgres/schema.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { burst, IP, outcomeOf, regular } from '../support/limits.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const DEFAULTS = [
  ['search_path', 'before, pg_catalog'],
  ['statement_timeout', '1'],
  ['lock_timeout', '1'],
  ['idle_session_timeout', '1'],
  ['idle_in_transaction_session_timeout', '1'],
] as const
/** Longer than these times. */
const PAUSE = 'select pg_sleep(0.02)'

let url = ''
let first: Connection
const open = (timeoutMs: number | null = null): Connection => {
  const connection = openConnection({ url, timeoutMs, name: 'test' })
  onCleanUp(connection.close)
  return connection
}

beforeAll(async () => {
  if (!HAS_POSTGRES) return
  url = await emptyDatabase()
  first = open()
  await migrate(first)
  await first.query(`create schema before;
    create function before.cardinality(anyarray) returns integer language sql as 'select 0'`)
  const name = new URL(url).pathname.slice(1)
  for (const [setting, value] of DEFAULTS) {
    await first.query(`alter database ${name} set ${setting} = ${value}`)
  }
})

describe.skipIf(!HAS_POSTGRES)('where a database has other defaults', () => {
  test('functions of the same names are not called: limits hold', async () => {
    const usage = createUsageStore({ url, timeoutMs: 20_000, name: 'node' })
    onCleanUp(usage.close)
    const { admit } = createAccess({ find: () => null }, usage)
    const outcomes: string[] = []
    for (let n = 0; n < 3; n += 1) {
      outcomes.push(outcomeOf(await admit(regular(burst(2, 60)), IP, 0)))
    }
    expect(outcomes).toEqual(['ok', 'ok', 'window'])
  })

  test.each([null, 20_000])(
    'statements, locks, transactions and idle connections have their time (%p)',
    async timeoutMs => {
      const [one, two] = [open(timeoutMs), open(timeoutMs)]
      const pidOf = async (): Promise<unknown> => (await two.query('select pg_backend_pid()'))[0]
      const pid = await pidOf()
      let waiting: Promise<unknown> | null = null
      await one.transaction(async tx => {
        await tx('select proxylist.probe()')
        waiting = two.query('select proxylist.probe()')
        await first.query(PAUSE)
        await tx(PAUSE)
      })
      await waiting
      await first.query(PAUSE)
      expect(await pidOf()).toEqual(pid)
    },
  )

  test('transactions wait for others, also where they are to be serializable', async () => {
    const found = await first.query("select current_setting('default_transaction_isolation') as is")
    expect(found).toEqual([{ is: 'read committed' }])
  })

  test('what is announced is heard', async () => {
    const [listening, heard] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()]
    const listener = createListener(url, heard.resolve, listening.resolve)
    onCleanUp(listener.end)
    listener.ensure()
    await listening.promise
    await first.query(PAUSE)
    await first.query(`select pg_notify('proxylist', 'keys')`)
    expect(await heard.promise).toBe('keys')
  })
})
