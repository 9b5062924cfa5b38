/** Jobs that one server runs for several: they run while it is the leader. */
import { expect, test } from 'bun:test'
import { whileLeader } from '../../src/jobs/leader.ts'

let examine = (): void => {}
/** Takes the place of a timer. */
const byHand = (work: () => void) => {
  examine = work
  return {
    stop() {
      examine = () => {}
    },
  }
}
async function examined(): Promise<void> {
  examine()
  for (let i = 0; i < 10; i += 1) await Promise.resolve()
}

test('jobs run once, and only while the lock is held', async () => {
  let isLeader = false
  const running = new Set<number>()
  let started = 0
  const job = whileLeader(
    () => isLeader,
    async () => {
      started += 1
      const id = started
      running.add(id)
      return [{ stop: () => void running.delete(id) }]
    },
    failure => {
      throw failure
    },
    byHand,
  )
  await examined()
  expect(started).toBe(0)
  isLeader = true
  await examined()
  expect([...running]).toEqual([1])
  isLeader = false
  await examined()
  expect([...running]).toEqual([])
  isLeader = true
  await examined()
  expect([...running]).toEqual([2])
  job.stop()
  expect([...running]).toEqual([])
  await examined()
  expect(started).toBe(2)
})

test('jobs that fail to start are started again 5 s later; jobs that start too late end', async () => {
  const failures: unknown[] = []
  let isStartedAgain = false
  const slow = Promise.withResolvers<void>()
  let stopped = 0
  const job = whileLeader(
    () => true,
    async () => {
      if (failures.length === 0) throw new Error('the database is away')
      isStartedAgain = true
      await slow.promise
      return [{ stop: () => void stopped++ }]
    },
    failure => void failures.push(failure),
    byHand,
  )
  await examined()
  expect(failures).toHaveLength(1)
  for (let i = 0; i < 20; i += 1) await examined()
  expect(isStartedAgain).toBe(false)
  await examined()
  expect(isStartedAgain).toBe(true)
  job.stop()
  slow.resolve()
  await examined()
  expect(stopped).toBe(1)
})
