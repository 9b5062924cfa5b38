/** Requests that wait for a locked row of usage, without a database. */
import { expect, test } from 'bun:test'
import { SQL } from 'bun'
import { limitRulesOf } from '../../../src/access/entitlements.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import { createAdmissions } from '../../../src/postgres/usage/admissions.ts'
import { createDatabaseClock } from '../../../src/postgres/usage/clock.ts'
import { createKnownUsage } from '../../../src/postgres/usage/known.ts'
import { decideAll, IP, regular } from '../../support/limits.ts'

test('a call that fails does not fail requests of its batch that wait for a lock', async () => {
  const clock = createDatabaseClock(() => 0)
  const calls = [
    new StoreError('a lock is not free', {
      cause: new SQL.PostgresError('', { errno: '55P03', code: '' }),
    }),
    new StoreError('the database is away'),
  ]
  const tried = Promise.withResolvers<void>()
  const { promise: lost, reject } = Promise.withResolvers<never>()
  const admit = createAdmissions(
    () => Promise.reject(calls.shift()),
    () => {
      tried.resolve()
      return lost
    },
    createKnownUsage(clock),
    clock,
    { lockMs: 250, msMax: 2_000, late: () => new StoreError('somebody keeps a row locked') },
  )
  const [one, two] = ['one', 'two'].map(id => ({
    rules: limitRulesOf(regular({}, id), IP),
    nowMs: 0,
  }))
  if (one === undefined || two === undefined) throw new Error('there are two')
  const first = decideAll({ admit }, [one]).catch(String)
  await tried.promise
  const both = await admit([one, two])
  const outcomes = Promise.allSettled(both)
  reject(new StoreError('the other connection is lost'))
  expect(await first).toEndWith('the other connection is lost')
  expect((await outcomes).map(each => each.status === 'rejected' && each.reason.message)).toEqual([
    'the other connection is lost',
    'the database is away',
  ])
})
