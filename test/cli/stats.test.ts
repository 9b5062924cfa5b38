/** `stats` (contract G5): the use of the last 24 hours and the list, for a terminal and as JSON. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

const HOUR = 3600

/** A list, and two keys and demo that were used yesterday and today. */
const dir = temporaryDirectory()
let [busy, idle] = ['', '']
beforeAll(async () => {
  addList(dir, [
    { ip: '192.0.2.1:80', type: 'http', country: 'DE', age: 30, works: 100 },
    { ip: '192.0.2.2:80', type: 'http', country: 'DE', age: 301 },
    { ip: '198.51.100.1:80', type: 'socks5', country: 'FR', age: 3601 },
    { ip: '203.0.113.1:80', type: 'socks4', age: 6 * 24 * HOUR },
  ])
  const plans = { once: { burst: { requests: 1, seconds: 1 } } }
  const keys = ['busy', 'idle', 'never'].map(key => ({ key, plan: 'once', label: `label ${key}` }))
  ;[busy = '', idle = ''] = addKeys(dir, plans, keys, T0)
  const service = await startChild(dir)
  for (const seconds of [-13 * HOUR, -24 * HOUR, -HOUR, 0, 1, 1]) {
    service.setClock(seconds)
    await ask(service, '/api?key=busy&time=999999')
  }
  await ask(service, '/api?key=idle&count=1&time=999999')
  await ask(service, '/api?key=demo&time=999999')
  await service.stop()
})

/** What is counted by a member, whose numbers are numbers. */
const counted = (member: string, counts: { [value: string]: number }) =>
  Object.entries(counts).map(([value, count]) => ({
    [member]: /^\d/.test(value) ? Number(value) : value,
    count,
  }))

describe('stats', () => {
  test('prints requests by hour, the busiest keys of today, and the list', async () => {
    const { exitCode, stdout, stderr } = await runCommand(['stats', '--json', '--data', dir])
    expect([exitCode, stderr]).toEqual([0, ''])
    const { hours, ...rest } = JSON.parse(stdout)
    expect(hours).toHaveLength(24)
    expect(hours[0].hour).toBe('2026-11-19T13:00:00.000Z')
    const used = hours.filter(({ requests }: { requests: number }) => requests > 0)
    expect(used).toEqual([
      { hour: '2026-11-19T23:00:00.000Z', requests: 1 },
      { hour: '2026-11-20T11:00:00.000Z', requests: 1 },
      { hour: '2026-11-20T12:00:00.000Z', requests: 4 },
    ])
    const key = { plan: 'once', refused: 0 }
    expect(rest).toEqual({
      today: { requests: 5, records: 14, refused: 1 },
      keys: [
        { ...key, id: busy, label: 'label busy', requests: 3, records: 12, refused: 1 },
        { id: 'demo', label: '', plan: 'demo', requests: 1, records: 1, refused: 0 },
        { ...key, id: idle, label: 'label idle', requests: 1, records: 1 },
      ],
      list: {
        total: 4,
        newest_seconds: 30,
        types: counted('type', { http: 2, https: 0, socks4: 1, socks5: 1 }),
        countries: counted('country', { DE: 2, '': 1, FR: 1 }),
        ages: [
          ...counted('seconds', { 60: 1, 300: 0, 600: 1, 3600: 0, 86400: 1, 604800: 1 }),
          { seconds: null, count: 0 },
        ],
      },
    })
  })

  test('draws charts on a terminal', async () => {
    const { stdout } = await runCommand(['stats', '--data', dir])
    for (const line of [
      'Today (UTC): 5 requests, 14 records, 1 refused\n',
      `  12:00  4  ${'█'.repeat(40)}\n`,
      `  11:00  1  ${'█'.repeat(10)}\n`,
      '  13:00  0\n',
      `${busy}  once  3         12       1        label busy\n`,
      'List: 4 proxies, the newest check 30 s ago\n',
      `  http    2  ${'█'.repeat(40)}\n`,
      `  unknown  1  ${'█'.repeat(20)}\n`,
      `  up to a week      1  ${'█'.repeat(40)}\n`,
    ]) {
      expect(stdout).toContain(line)
    }
  })

  test.each([
    ['no list', PROXY_FILE, 'The list is empty.\n'],
    ['no keys', ACCESS_FILE, 'Today (UTC): 0 requests, 0 records, 0 refused\n'],
  ])('prints the other parts with %s', async (_, file, line) => {
    const rest = temporaryDirectory()
    cpSync(dir, rest, { recursive: true })
    rmSync(join(rest, file))
    const { exitCode, stdout } = await runCommand(['stats', '--data', rest])
    expect([exitCode, stdout.includes(line)]).toEqual([0, true])
  })
})
