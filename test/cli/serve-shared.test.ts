/** Tests of servers beside each other on one data directory, and one after the other. */
import { afterAll, describe, expect, test } from 'bun:test'
import { DAY_MS, SECOND_MS } from '../../src/lib/time.ts'
import { ask, from } from '../support/answer.ts'
import { ASK, addKeys, addList, dataDirectory, KEY } from '../support/fixtures.ts'
import { type Service, startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

describe('limits', () => {
  test('outlive servers that are killed: no quota is given back', async () => {
    const dir = temporaryDirectory()
    addList(dir, [
      { ip: '192.0.2.1:80', type: 'http', works: 95 },
      { ip: '198.51.100.1:80', type: 'https', works: 95 },
    ])
    const burst = { requests: 3, seconds: 3600 }
    addKeys(dir, { burst: { burst }, daily: { daily: 3 }, subnets: { subnets: 1 } }, [
      ...['burst', 'daily', 'subnets'].map(name => ({ key: name, plan: name })),
      { key: 'temp_one', plan: null },
    ])
    const asked = (service: Service, key: string, type = 'http') =>
      ask(service, `/api?key=${key}&type=${type}`)
    for (const keys of [
      ['burst', 'burst', 'daily', 'daily', 'subnets', 'demo', 'temp_one'],
      ['burst', 'daily', 'demo', 'temp_one'],
    ]) {
      const killed = await startChild(dir)
      for (const key of keys) expect(await asked(killed, key)).toStartWith('200 ')
      killed.kill('SIGKILL')
      await killed.exited
    }
    const server = await startChild(dir)
    expect(await asked(server, 'burst')).toBe('429 RATE_LIMIT_EXCEEDED')
    expect(await asked(server, 'daily')).toBe('429 DAILY_LIMIT_REACHED')
    expect(await asked(server, 'subnets', 'https')).toBe('429 SUBNET_LIMIT_REACHED')
    expect(await asked(server, 'subnets')).toBe('200 192.0.2.1:80\n')
    expect(await asked(server, 'demo')).toBe('429 DEMO_LIMIT_REACHED')
    const elsewhere = from('203.0.113.7')
    expect(await ask(server, '/api?key=temp_one', elsewhere)).toBe('429 TEMP_LIMIT_REACHED')
    await server.stop()
  })

  test('two servers on one data directory admit together exactly what the plan grants', async () => {
    const dir = dataDirectory(undefined, { burst: { requests: 50, seconds: 3600 } })
    const more = ['two', 'three']
    addKeys(
      dir,
      {},
      more.map(key => ({ key, plan: 'free' })),
    )
    const servers = await Promise.all([startChild(dir), startChild(dir)])
    const [one, other] = servers
    for (const key of [KEY, ...more]) {
      /** One of 40 clients, asking ten times, the servers in turn. */
      const client = async (number: number): Promise<string[]> => {
        const answers: string[] = []
        for (let turn = 0; turn < 10; turn++) {
          answers.push(await ask((turn + number) % 2 === 0 ? one : other, `/api?key=${key}`))
        }
        return answers
      }
      const answers = await Promise.all(Array.from({ length: 40 }, (_, number) => client(number)))
      const counts = Map.groupBy(answers.flat(), answer => answer.trim())
      expect([...counts].map(([answer, all]) => [answer, all.length]).sort()).toEqual([
        ['200 192.0.2.1:80', 50],
        ['429 RATE_LIMIT_EXCEEDED', 350],
      ])
    }
    for (const server of servers) {
      await server.stop()
      expect(server.output()).toContain('"path":"/api"')
    }
  })
})

describe('--retain', () => {
  const DAY = DAY_MS / SECOND_MS
  const EVER = `${ASK}&time=999999999`
  const old = (ip: string, age: number) => ({ ip, type: 'http', age })
  const rows = [0, 7 * DAY, 7 * DAY + 1].map((age, i) => old(`192.0.2.${i + 1}:80`, age))

  test('of 7d by default removes older checks in slices', async () => {
    const many = Array.from({ length: 5000 }, (_, i) =>
      old(`10.0.${i >> 8}.${i & 255}:80`, 8 * DAY + i),
    )
    const server = await startChild(dataDirectory([...rows, ...many]))
    await until(async () => (await ask(server, EVER)) === '200 192.0.2.1:80\n192.0.2.2:80\n')
    await server.stop()
  })

  test.each([
    ['as given', ['--retain', '1h'], 0, [1]],
    ['longer', ['--retain', '2w'], 0, [1, 2, 3]],
    ['not by a clock that is ahead of the list', [], 365, [1, 2]],
  ])('removes what is due at the start: %s', async (_, more, daysAgo, left) => {
    const list = rows.map(row => ({ ...row, age: row.age + daysAgo * DAY }))
    const server = await startChild(dataDirectory(list), {}, more)
    const lines = left.map(n => `192.0.2.${n}:80\n`)
    await until(async () => (await ask(server, EVER)) === `200 ${lines.join('')}`)
    await server.stop()
  })
})
