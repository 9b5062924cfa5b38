/**
 * A database that fails (src/postgres/connection.ts, contract I4): what hangs is given up, what was
 * interrupted is never sent again, everything fails at once while the database is away, and answers are
 * right again soon after it came back.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import { limitRulesOf } from '../../src/access/entitlements.ts'
import type { Awaitable } from '../../src/lib/awaitable.ts'
import { StoreError, UnknownOutcome } from '../../src/lib/errors.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { createRefund } from '../../src/postgres/usage/admissions.ts'
import { createRefusalCache } from '../../src/postgres/usage/refusals.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { burst, IP, regular, unwaited } from '../support/limits.ts'
import { HAS_POSTGRES, holdOpen, type Server, startPostgres } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** A busy machine connects, and hears of a failure, within half of it. */
const TIMEOUT_MS = 800
/** That of connections which never wait for it: what fails within half of it fails at once. */
const LONG_MS = 20_000
/** From the return of the database until answers are right again. */
const BACK_MS_MAX = 2_000

type Row = { pid: number }
const pidOf = async ({ query }: Pick<Connection, 'query'>): Promise<number> =>
  (await query<Row>('select pg_backend_pid() as pid'))[0]?.pid ?? 0

/** The failure of a promise, and after how many milliseconds. */
async function failureOf(promise: Awaitable<unknown>): Promise<{ failure: unknown; ms: number }> {
  const start = performance.now()
  const failure = await Promise.resolve(promise).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  return { failure, ms: performance.now() - start }
}

/** Tries until it succeeds; the milliseconds that it took. */
async function untilBack(attempt: () => Awaitable<unknown>): Promise<number> {
  const start = performance.now()
  for (;;) {
    const { failure } = await failureOf(attempt())
    const ms = performance.now() - start
    if (failure === null) return ms
    expect(failure).toBeInstanceOf(StoreError)
    if (ms > 10_000) throw failure
    await Bun.sleep(10)
  }
}

let server: Server
let url = ''
let operator: Connection
const open = (timeoutMs = LONG_MS): Connection => openConnection({ url, timeoutMs, name: 'node' })

beforeAll(async () => {
  if (!HAS_POSTGRES) return
  server = await startPostgres({ max_connections: '14', superuser_reserved_connections: '0' })
  url = server.url('postgres')
  operator = open(600_000)
  await migrate(operator)
  await operator.query('create table public.writes (n integer)')
})
afterAll(() => operator?.close())

describe.skipIf(!HAS_POSTGRES)('a lost connection', () => {
  test('fails its statement, which is never sent again', async () => {
    const connection = open(5_000)
    const pid = await pidOf(connection)
    const insertSlowly = connection.query(
      'with slow as (select pg_sleep(60)) insert into public.writes select 1 from slow',
    )
    const failed = failureOf(insertSlowly)
    while (
      (await operator.query("select from pg_stat_activity where wait_event = 'PgSleep'")).length ===
      0
    );
    await operator.query('select pg_terminate_backend($1)', [pid])
    const { failure } = await failed
    expect(failure).toBeInstanceOf(UnknownOutcome)
    expect(await pidOf(connection)).not.toBe(pid)
    expect(await operator.query('select from public.writes')).toHaveLength(0)
    await connection.close()
  })

  test('is replaced without an error when it was idle', async () => {
    const connection = open()
    const pid = await pidOf(connection)
    await operator.query('select pg_terminate_backend($1, 5000)', [pid])
    await untilBack(() => pidOf(connection))
    expect(await pidOf(connection)).not.toBe(pid)
    await connection.close()
  })
})

describe.skipIf(!HAS_POSTGRES)('a database that does not answer', () => {
  test('times out when a backend stops, with the statements that wait behind it', async () => {
    const connection = open(TIMEOUT_MS)
    const pid = await pidOf(connection)
    process.kill(pid, 'SIGSTOP')
    try {
      const found = await Promise.all([1, 2, 3].map(() => failureOf(pidOf(connection))))
      for (const { failure, ms } of found) {
        expect(failure).toBeInstanceOf(UnknownOutcome)
        expect(ms).toBeLessThan(TIMEOUT_MS * 2)
      }
      expect(await untilBack(() => pidOf(connection))).toBeLessThan(BACK_MS_MAX)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await connection.close()
  })

  test('times out when a whole server stops, and works again soon after it continues', async () => {
    const connection = open(TIMEOUT_MS)
    const pids = [await pidOf(connection), server.pid()]
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const first = await failureOf(pidOf(connection))
    const second = await failureOf(pidOf(connection))
    for (const pid of pids) process.kill(pid, 'SIGCONT')
    expect(first.failure).toBeInstanceOf(UnknownOutcome)
    for (const { failure } of [first, second]) {
      expect(String(failure)).toEndWith('cannot be used: it does not answer') // said once, so the same
    }
    expect(second.ms).toBeLessThan(2 * TIMEOUT_MS)
    expect(await untilBack(() => pidOf(connection))).toBeLessThan(BACK_MS_MAX)
    await connection.close()
  })

  test('does not delay closing, which rejects statements in flight', async () => {
    const connection = open(600_000)
    await pidOf(connection)
    const failed = failureOf(connection.query('select pg_sleep(60)'))
    await connection.close()
    expect((await failed).failure).toBeInstanceOf(StoreError)
    expect((await failureOf(pidOf(connection))).failure).toBeInstanceOf(StoreError)
  })
})

describe.skipIf(!HAS_POSTGRES)('a database that refuses', () => {
  test('fails writes with that message while it is read-only', async () => {
    await operator.query('alter database postgres set default_transaction_read_only = on')
    const connection = open()
    const write = () => connection.query('insert into public.writes values (2)')
    const { failure } = await failureOf(write())
    expect(String(failure)).toContain('it is read-only')
    expect(failure).not.toBeInstanceOf(UnknownOutcome)
    await operator.query('set default_transaction_read_only = off')
    await operator.query('alter database postgres reset default_transaction_read_only')
    expect(await untilBack(write)).toBeLessThan(BACK_MS_MAX)
    await connection.close()
  })

  test.each([['53100', 'its disk is full']])('with %s says that %s', async (state, reason) => {
    const connection = open()
    const raise = `do $$ begin raise exception 'canary' using errcode = '${state}'; end $$`
    const { failure } = await failureOf(connection.query(raise))
    expect(String(failure)).toEndWith(`cannot be used: ${reason}`)
    await connection.close()
  })

  test('fails with that message while it has no free connection', async () => {
    const others: Connection[] = []
    let connection = open()
    let failure = (await failureOf(pidOf(connection))).failure
    while (failure === null) {
      others.push(connection)
      connection = open()
      failure = (await failureOf(pidOf(connection))).failure
    }
    expect(String(failure)).toContain('it accepts no more connections')
    for (const other of others) await other.close()
    expect(await untilBack(() => pidOf(connection))).toBeLessThan(BACK_MS_MAX)
    await connection.close()
  })
})

describe('a refund that fails', () => {
  const known = createRefusalCache(() => 0)
  const rules = limitRulesOf(regular(burst(5, 5)), IP)
  const refundWith = (failure: Error) =>
    createRefund(
      async () => {
        throw failure
      },
      known,
      () => {},
    )([{ rules, instants: [1] }])

  test('is retried, unless its result is unknown', async () => {
    expect(refundWith(new StoreError('nothing was sent'))).rejects.toThrow('nothing was sent')
    await refundWith(new UnknownOutcome('the connection was lost')) // done, for its caller
  })
})

describe.skipIf(!HAS_POSTGRES)('admissions to a database that fails', () => {
  test('wait no longer than the timeout behind a batch that hangs', async () => {
    const usage = createUsageStore({ url, timeoutMs: TIMEOUT_MS, name: 'node' })
    const access = createAccess({ find: () => null }, usage)
    const caller = regular(burst(5, 5))
    await access.admit(unwaited(), caller, IP, 0)
    const session = await holdOpen(url, 'select from proxylist.usage for update')
    const waits: Promise<{ failure: unknown; ms: number }>[] = []
    for (let n = 0; n < 8; n += 1) {
      waits.push(failureOf(access.admit(unwaited(), caller, IP, 0)))
      await Bun.sleep(TIMEOUT_MS / 6) // arrives while those before are waiting
    }
    for (const { failure, ms } of await Promise.all(waits)) {
      expect(failure).toBeInstanceOf(StoreError)
      expect(ms).toBeLessThan(TIMEOUT_MS * 1.5)
    }
    await session.end()
    expect(await untilBack(() => access.admit(unwaited(), caller, IP, 0))).toBeLessThan(BACK_MS_MAX)
    await usage.close()
  })

  test('are not lost after their answer, and never counted twice', async () => {
    const usage = createUsageStore({ url, timeoutMs: 2_000, name: 'node' })
    const access = createAccess({ find: () => null }, usage)
    const caller = regular({ daily: 1_000_000 }, 'counted')
    let [sent, answered, isOver] = [0, 0, false]
    const client = async (): Promise<void> => {
      while (!isOver) {
        sent += 1
        const { failure } = await failureOf(access.admit(unwaited(), caller, IP, 0))
        if (failure === null) answered += 1
        else expect(failure).toBeInstanceOf(StoreError)
      }
    }
    const clients = Array.from({ length: 8 }, client)
    for (let kills = 0; kills < 20; kills += 1) {
      const goal = answered + 20
      while (answered < goal) await Bun.sleep(1)
      await operator.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'node' and pid <> pg_backend_pid() and query like '%admit%'`,
      )
    }
    isOver = true
    await Promise.all(clients)
    const { usages } = await usage.peek([{ kind: 'key', id: 'counted' }])
    expect(usages[0]?.requests).toBeGreaterThanOrEqual(answered)
    expect(usages[0]?.requests).toBeLessThanOrEqual(sent)
    await usage.close()
  })
})
