/** What `serve` starts in the background before it listens (src/cli/commands/serve.ts). */
import { expect, test } from 'bun:test'
import { type Serving, startJobs } from '../../src/cli/commands/serve.ts'

test('a node listens at once, also where its database does not answer', async () => {
  let ticks = 0
  const node = {
    isJobHolder: () => false,
    tick(): Promise<never> {
      ticks += 1
      return new Promise(() => {})
    },
  }
  const jobs = await startJobs({ node } as unknown as Serving) // it reads nothing else of them
  expect(ticks).toBe(1)
  for (const job of jobs) job.stop()
})
