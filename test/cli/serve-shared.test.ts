/** Servers beside each other on one data directory, and one after the other. */
import { afterAll, expect, test } from 'bun:test'
import { DAY_MS, SECOND_MS } from '../../src/lib/time.ts'
import { ask } from '../support/answer.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import { startChild } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

test('two servers share a limit exactly, also after they are killed', async () => {
  const dir = dataDirectory(undefined, { burst: { requests: 50, seconds: 3600 } })
  const servers = await Promise.all([startChild(dir), startChild(dir)])
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const statuses: string[] = []
      for (let turn = 0; turn < 10; turn += 1) {
        statuses.push((await ask(servers[(turn + n) % 2] ?? servers[0], ASK)).slice(0, 3))
      }
      return statuses
    }),
  )
  expect(answers.flat().filter(status => status === '200')).toHaveLength(50)
  for (const { kill, exited } of servers) {
    kill('SIGKILL')
    await exited
  }
  const next = await startChild(dir)
  expect(await ask(next, ASK)).toBe('429 RATE_LIMIT_EXCEEDED')
  await next.stop()
})

test.each([
  ['after 7 days by default', [], 0, [1, 2]],
  ['after --retain', ['--retain', '1h'], 0, [1]],
  ['by the newest check when the clock is ahead', [], 365, [1, 2]],
])('a server removes rows %s', async (_, more, daysAgo, left) => {
  const DAY = DAY_MS / SECOND_MS
  const rows = [0, 7 * DAY, 7 * DAY + 1].map((age, i) => ({
    ...{ ip: `192.0.2.${i + 1}:80`, type: 'http', age: age + daysAgo * DAY },
  }))
  const server = await startChild(dataDirectory(rows), {}, more)
  const listed = left.map(n => `192.0.2.${n}:80\n`).join('')
  await until(async () => (await ask(server, `${ASK}&time=999999999`)) === `200 ${listed}`)
  await server.stop()
})
