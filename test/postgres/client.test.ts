/**
 * Connections (src/postgres/connection.ts): the defaults that others have set for a database (those that change
 * what values mean are in every database of tests), and what Bun.SQL must do where bugs are or were known: rows
 * come to the query that asked for them (oven-sh/bun#33665, #33627), closing ends (#33985), and a database
 * that is away keeps no process alive.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createAccess } from '../../src/access/access.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { createListener } from '../../src/postgres/nodes.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { burst, IP, outcomeOf, regular, unwaited } from '../support/limits.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS = 'select $1::int as n, repeat(chr(97 + $1::int % 26), $1::int) as text'

describe.skipIf(!HAS_POSTGRES)('rows', () => {
  test('reach their own query, also between queries that fail', async () => {
    const connection = connectTo(await emptyDatabase())
    const ask = async (n: number): Promise<string> => {
      if (n % 7 === 0) return connection.query(`select ${n} / 0`).then(String, () => 'failed')
      if (n % 11 === 0)
        return connection.query('select $1::int', ['x']).then(String, () => 'failed')
      const [row] = await connection.query<{ n: number; text: string }>(ROWS, [n])
      return `${row?.n} ${row?.text}`
    }
    for (const _ of [1, 2, 3]) {
      const all = Array.from({ length: 600 }, (_, n) => n)
      const expected = all.map(n =>
        n % 7 === 0 || n % 11 === 0
          ? 'failed'
          : `${n} ${String.fromCharCode(97 + (n % 26)).repeat(n)}`,
      )
      expect(await Promise.all(all.map(ask))).toEqual(expected)
    }
  })
})

test('a database that is away keeps no process alive', async () => {
  const source = join(import.meta.dir, '../../src/postgres/connection.ts')
  const script = `
    import { openConnection } from ${JSON.stringify(source)}
    const { query } = openConnection({ url: 'postgres://x@127.0.0.1:1/x', timeoutMs: 500, name: 'x' })
    await query('select 1').catch(({ message }) => console.log(message))`
  const child = Bun.spawn([process.execPath, '-e', script], { stderr: 'pipe', stdout: 'pipe' })
  const killer = setTimeout(() => child.kill(), 120_000)
  expect(await child.exited).toBe(0)
  clearTimeout(killer)
  expect(await new Response(child.stderr).text()).toBe('')
  expect(await new Response(child.stdout).text()).toContain('the connection was refused')
})

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
const open = (timeoutMs = 600_000): Connection => {
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
      outcomes.push(outcomeOf(await admit(unwaited(), regular(burst(2, 60)), IP, 0)))
    }
    expect(outcomes).toEqual(['ok', 'ok', 'window'])
  })

  test.each([600_000, 20_000])(
    'statements, locks, transactions and idle connections have timeouts (%p)',
    async timeoutMs => {
      const [one, two] = [open(timeoutMs), open(timeoutMs)]
      const pidOf = async (): Promise<unknown> => (await two.query('select pg_backend_pid()'))[0]
      const pid = await pidOf()
      let waiting: Promise<unknown> | null = null
      await one.transaction(async tx => {
        await tx('update proxylist.probes set n = n + 1')
        waiting = two.query('update proxylist.probes set n = n + 1')
        await first.query(PAUSE)
        await tx(PAUSE)
      })
      await waiting
      await first.query(PAUSE)
      expect(await pidOf()).toEqual(pid)
    },
  )

  test('notifications are received', async () => {
    const [listening, heard] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()]
    const listener = createListener(
      () => url,
      message => (message === null ? listening.resolve() : heard.resolve(message)),
    )
    onCleanUp(listener.end)
    listener.ensure()
    await listening.promise
    await first.query(PAUSE)
    await first.query(`select pg_notify('proxylist', 'keys')`)
    expect(await heard.promise).toBe('keys')
  })
})
