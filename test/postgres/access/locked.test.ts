/** Requests that wait for a locked row of usage, without a database. */
import { expect, test } from 'bun:test'
import { SQL } from 'bun'
import { limitRulesOf } from '../../../src/access/entitlements.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import { BATCH_MAX } from '../../../src/lib/turn-batch.ts'
import type { Query } from '../../../src/postgres/connection.ts'
import { createAdmissions } from '../../../src/postgres/usage/admissions.ts'
import { createDatabaseClock } from '../../../src/postgres/usage/clock.ts'
import { createKnownUsage } from '../../../src/postgres/usage/known.ts'
import { decideAll, IP, regular } from '../../support/limits.ts'

const notFree = (): StoreError =>
  new StoreError('a lock is not free', {
    cause: new SQL.PostgresError('', { errno: '55P03', code: '' }),
  })
const requestsOf = (...ids: string[]) =>
  ids.map(id => ({ rules: limitRulesOf(regular({}, id), IP), nowMs: 0 }))
const LATE = 'somebody keeps a row locked'

/** Admissions over these two connections, in which a request may wait so long. */
function admissionsOver(query: Query, queryLocked: Query, msMax = 2_000) {
  const clock = createDatabaseClock(() => 0)
  return createAdmissions(query, queryLocked, createKnownUsage(clock), clock, {
    lockMs: 1,
    msMax,
    late: () => new StoreError(LATE),
  })
}

test('a request that fails while the rest of its batch is decided leaves no rejection unhandled', async () => {
  const tried = Promise.withResolvers<void>()
  const [lost, slow] = [Promise.withResolvers<never>(), Promise.withResolvers<never>()]
  const calls = [() => Promise.reject(notFree()), () => slow.promise]
  const admit = admissionsOver(
    () => calls.shift()?.() ?? slow.promise,
    () => {
      tried.resolve()
      return lost.promise
    },
  )
  const first = decideAll({ admit }, requestsOf('one')).catch(String)
  await tried.promise
  const both = Promise.resolve(admit(requestsOf('one', 'two')))
  lost.reject(new StoreError('the other connection is lost'))
  expect(await first).toEndWith('the other connection is lost')
  await new Promise(resolve => setImmediate(resolve)) // a rejection that nobody handles fails the test here
  slow.reject(new StoreError('the database is away'))
  expect((await Promise.allSettled(await both)).map(({ status }) => status)).toEqual([
    'rejected',
    'rejected',
  ])
})

test('a request that waits for a lock waits no longer than it may where the database does not answer', async () => {
  const hanging = new Promise<never>(() => {})
  const admit = admissionsOver(
    () => Promise.reject(notFree()),
    () => hanging,
    20,
  )
  expect(await decideAll({ admit }, requestsOf('one')).catch(String)).toEndWith(LATE)
})

test('requests do not wait behind thousands of a row that stays locked', async () => {
  let tries = 0
  const admit = admissionsOver(
    () => Promise.reject(notFree()),
    async (statement, values = []) => {
      if (statement.includes('skip locked')) return [{ kind: 'key', id: 'one' }] as never[]
      if (String(values[1]).includes('one')) {
        tries += 1
        await Bun.sleep(1)
        throw notFree()
      }
      return [{ numbers: '1,1,1,1,1,1' }] as never[]
    },
  )
  const ids = [...new Array<string>(2 * BATCH_MAX).fill('one'), 'two']
  const decisions = await admit(requestsOf(...ids))
  for (const decision of decisions) Promise.resolve(decision).catch(() => {})
  expect(await decisions.at(-1)).toMatchObject({ kind: 'admitted' })
  expect(tries).toBe(0)
})

test('a call that fails does not fail requests of its batch that wait for a lock', async () => {
  const calls = [notFree(), new StoreError('the database is away')]
  const tried = Promise.withResolvers<void>()
  const { promise: lost, reject } = Promise.withResolvers<never>()
  const admit = admissionsOver(
    () => Promise.reject(calls.shift()),
    () => {
      tried.resolve()
      return lost
    },
  )
  const first = decideAll({ admit }, requestsOf('one')).catch(String)
  await tried.promise
  const both = await admit(requestsOf('one', 'two'))
  const outcomes = Promise.allSettled(both)
  reject(new StoreError('the other connection is lost'))
  expect(await first).toEndWith('the other connection is lost')
  expect((await outcomes).map(each => each.status === 'rejected' && each.reason.message)).toEqual([
    'the other connection is lost',
    'the database is away',
  ])
})
