/**
 * Tests of one data directory in use by several processes: commands beside a server, servers beside each
 * other, and one after the other; `serve.test.ts` runs them.
 */
import { describe, expect, test } from 'bun:test'
import { DAY_MS, SECOND_MS } from '../../src/lib/time.ts'
import { ask, from } from '../support/answer.ts'
import { ASK, dataDirectory, KEY } from '../support/fixtures.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'

/** Runs a command that must succeed; gives what it printed. */
async function command(dir: string, line: string, stdin = ''): Promise<string> {
  const { exitCode, stdout, stderr } = await proxylist([...line.split(' '), '--data', dir], {
    stdin,
  })
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  return stdout.trim()
}

describe('what other processes change is seen by the next request', () => {
  test('import adds, updates and replaces', async () => {
    const dir = dataDirectory()
    const server = await startChild(dir)
    expect(await ask(server)).toBe('200 192.0.2.1:80\n')
    await command(dir, 'import -', 'http://192.0.2.2:80\n')
    expect(await ask(server)).toBe('200 192.0.2.1:80\n192.0.2.2:80\n')
    await command(dir, 'import - --replace', 'socks5://192.0.2.3:1080\n')
    expect(await ask(server)).toBe('200 192.0.2.3:1080\n')
    await server.stop()
  })

  test('keys are made and revoked', async () => {
    const dir = dataDirectory()
    const server = await startChild(dir)
    const added = await command(dir, 'keys add')
    expect(await ask(server, `/api?key=${added}`)).toBe('200 192.0.2.1:80\n')
    const temporary = await command(dir, 'keys temp')
    expect(await ask(server, `/api?key=${temporary}`)).toBe('200 192.0.2.1:80\n')
    const keys: { id: string; prefix: string }[] = JSON.parse(
      await command(dir, 'keys list --json'),
    )
    for (const [key, code] of [
      [added, 'INVALID_KEY'],
      [temporary, 'TEMP_KEY_INVALID'],
    ] as const) {
      const id = keys.find(({ prefix }) => key.startsWith(prefix))?.id
      await command(dir, `keys revoke ${id}`)
      expect(await ask(server, `/api?key=${key}`)).toBe(`403 ${code}`)
    }
    expect(await ask(server)).toBe('200 192.0.2.1:80\n')
    await server.stop()
  })

  test('plans are changed, and today’s use is listed', async () => {
    const dir = dataDirectory()
    const server = await startChild(dir)
    for (const _ of [1, 2, 3]) expect(await ask(server)).toBe('200 192.0.2.1:80\n')
    await command(dir, 'plans set free --daily 3')
    expect(await ask(server)).toBe('429 DAILY_LIMIT_REACHED')
    await command(dir, 'plans set free --daily 4')
    expect(await ask(server)).toBe('200 192.0.2.1:80\n')
    await command(dir, 'plans set free --daily unlimited --burst 1/1h')
    expect(await ask(server)).toBe('429 RATE_LIMIT_EXCEEDED')
    const [key] = JSON.parse(await command(dir, 'keys list --json'))
    expect(key).toMatchObject({ requests_today: 4, subnets_today: 0 })
    await server.stop()
  })
})

const countEach = (answers: readonly string[]): { [answer: string]: number } =>
  Object.fromEntries(
    Map.groupBy(answers, answer => answer)
      .entries()
      .map(([a, all]) => [a, all.length]),
  )

describe('limits outlive the server', () => {
  const limits = [
    ['burst', { burst: { requests: 3, seconds: 3600 } }, 'RATE_LIMIT_EXCEEDED'],
    ['daily', { daily: 3 }, 'DAILY_LIMIT_REACHED'],
  ] as const

  test.each(limits)('killing it does not give the %s quota back', async (_, plan, code) => {
    const dir = dataDirectory(undefined, plan)
    for (const _ of [1, 2, 3]) {
      const server = await startChild(dir)
      expect(await ask(server)).toBe('200 192.0.2.1:80\n')
      server.kill('SIGKILL')
      await server.exited
    }
    const server = await startChild(dir)
    expect(await ask(server)).toBe(`429 ${code}`)
    await server.stop()
  })

  test('killing it gives back neither subnets nor the windows of demo and temporary keys', async () => {
    const dir = dataDirectory(
      [
        { ip: '192.0.2.1:80', type: 'http' },
        { ip: '198.51.100.1:80', type: 'https' },
      ].map(row => ({ ...row, works: 95 })),
      { subnets: 1 },
    )
    const temporary = await command(dir, 'keys temp')
    const first = await startChild(dir)
    expect(await ask(first, `${ASK}&type=http`)).toBe('200 192.0.2.1:80\n')
    for (const key of ['demo', temporary]) {
      for (const _ of [1, 2]) expect(await ask(first, `/api?key=${key}`)).toMatch(/^200 /)
    }
    first.kill('SIGKILL')
    await first.exited
    const second = await startChild(dir)
    expect(await ask(second, `${ASK}&type=https`)).toBe('429 SUBNET_LIMIT_REACHED')
    expect(await ask(second, `${ASK}&type=http`)).toBe('200 192.0.2.1:80\n')
    expect(await ask(second, '/api?key=demo')).toBe('429 DEMO_LIMIT_REACHED')
    expect(await ask(second, `/api?key=${temporary}`, from('203.0.113.7'))).toBe(
      '429 TEMP_LIMIT_REACHED',
    )
    await second.stop()
  })

  test('two servers on one data directory admit together exactly what the plan grants', async () => {
    const dir = dataDirectory(undefined, { burst: { requests: 50, seconds: 3600 } })
    const [one, other] = await Promise.all([startChild(dir), startChild(dir)])
    /** One client, asking ten times, the servers in turn. */
    const client = async (number: number, key: string): Promise<string[]> => {
      const answers: string[] = []
      for (let turn = 0; turn < 10; turn++) {
        const server = (turn + number) % 2 === 0 ? one : other
        answers.push(await ask(server, `/api?key=${key}`))
      }
      return answers
    }
    const add = () => command(dir, 'keys add --plan free')
    for (const key of [KEY, await add(), await add()]) {
      const clients = Array.from({ length: 40 }, (_, number) => client(number, key))
      const answers = (await Promise.all(clients)).flat()
      const granted = { '200 192.0.2.1:80\n': 50, '429 RATE_LIMIT_EXCEEDED': 350 }
      expect(countEach(answers)).toEqual(granted)
    }
    for (const server of [one, other]) {
      await server.stop()
      expect(server.output()).toContain('"path":"/api"')
    }
  })
})

describe('--retain', () => {
  const DAY = DAY_MS / SECOND_MS
  const EVER = `${ASK}&time=999999999`
  const old = (ip: string, age: number) => ({ ip, type: 'http', age })
  const rows = [
    old('192.0.2.1:80', 0),
    old('192.0.2.2:80', 7 * DAY),
    old('192.0.2.3:80', 7 * DAY + 1),
  ]

  test.each([
    ['7d by default', [], '192.0.2.1:80\n192.0.2.2:80\n'],
    ['as given', ['--retain', '1h'], '192.0.2.1:80\n'],
    ['longer', ['--retain', '2w'], '192.0.2.1:80\n192.0.2.2:80\n192.0.2.3:80\n'],
  ])('removes at the start what was checked longer ago: %s', async (_, more, left) => {
    const server = await startChild(dataDirectory(rows), {}, more)
    expect(await ask(server, EVER)).toBe(`200 ${left}`)
    await server.stop()
  })

  test.each([8, 365])(
    'removes nothing of a list when the clock is %d days ahead of it',
    async days => {
      const list = [0, 7, 7.5].map((age, i) => old(`192.0.2.${i + 1}:80`, (days + age) * DAY))
      const server = await startChild(dataDirectory(list))
      expect(await ask(server, EVER)).toBe('200 192.0.2.1:80\n192.0.2.2:80\n')
      await server.stop()
      expect(server.output()).not.toContain('removed')
    },
  )

  test('says on stderr how many it removed when they are many', async () => {
    const many = Array.from({ length: 1000 }, (_, i) =>
      old(`10.0.${i >> 8}.${i & 255}:80`, 8 * DAY),
    )
    const server = await startChild(dataDirectory([...rows, ...many]))
    const said = 'removed 1,001 of 1,003 proxies, which were last checked longer ago than --retain'
    while (!server.output().includes(said)) await Bun.sleep(5)
    await server.stop()
  })

  test('forgets more than one slice, and rows of the list only', async () => {
    const many = Array.from({ length: 5000 }, (_, i) =>
      old(`10.0.${i >> 8}.${i & 255}:80`, 8 * DAY + i),
    )
    const server = await startChild(dataDirectory([...rows, ...many]))
    let found = await ask(server, EVER)
    while (found.includes('\n10.')) {
      await Bun.sleep(5)
      found = await ask(server, EVER)
    }
    expect(found).toBe('200 192.0.2.1:80\n192.0.2.2:80\n')
    expect(await ask(server, `/api?key=${KEY}-other`)).toBe('403 INVALID_KEY')
    await server.stop()
  })
})
