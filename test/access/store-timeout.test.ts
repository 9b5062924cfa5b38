/** How long one request waits for a store that can hang (src/access/store-timeout.ts, contract I4). */
import { expect, spyOn, test } from 'bun:test'
import { createStoreTimeout, type Waits } from '../../src/access/store-timeout.ts'

const HOUR_MS = 3_600_000
const LATE = new Error('the store took too long for a request')
const never = (): Promise<never> => new Promise(() => {})

test('the queries of one request share one timeout', async () => {
  let elapsedMs = 5 * HOUR_MS
  const bound = { msMax: HOUR_MS, elapsedMs: () => elapsedMs, failure: () => LATE }
  const within = createStoreTimeout(bound)
  const waits: Waits = { waitedMs: HOUR_MS / 4 } // for its admission
  const slow = Promise.withResolvers<string>()
  const waiting = within(waits, slow.promise)
  elapsedMs += HOUR_MS / 2
  slow.resolve('found late')
  expect(await waiting).toBe('found late')
  expect(waits.waitedMs).toBe((3 * HOUR_MS) / 4)
  const failing = Promise.withResolvers<never>()
  const failed = within(waits, failing.promise)
  elapsedMs += HOUR_MS / 4
  failing.reject(new Error('the store failed'))
  expect(failed).rejects.toThrow('the store failed')
  await failed.catch(() => {})
  expect(await within(waits, never()).catch(String)).toBe(String(LATE))
})

test('a request that was answered in time leaves no timer behind', async () => {
  const [set, cleared] = [spyOn(globalThis, 'setTimeout'), spyOn(globalThis, 'clearTimeout')]
  const within = createStoreTimeout({ msMax: HOUR_MS, elapsedMs: () => 0, failure: () => LATE })
  await within({ waitedMs: 0 }, Promise.resolve())
  expect(cleared.mock.calls.map(([timer]): unknown => timer)).toEqual(
    set.mock.results.map(it => it.value),
  )
  set.mockRestore()
  cleared.mockRestore()
})
