/**
 * The checker and its judge as programs, from a file of bare addresses to a served, fresh, typed list (contract H),
 * on loopback: what an operator does by the commands of the README.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addressText } from '../../src/proxies/proxy.ts'
import { HONEST, LIARS } from '../checker/proxy-behaviours.ts'
import { http, socks5And, startProxy } from '../support/fake-proxies.ts'
import { ASK, addKeys, addList, KEY } from '../support/fixtures.ts'
import { launch, run } from '../support/launch.ts'
import { program, startProgram } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { onTerminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const CONTACT = ['--contact', 'https://example.com/checks']
const NO_TLS = { cert: '', key: '' }

/** Runs with the clock of the machine: judge and checker must agree. */
const check = (args: readonly string[], cwd?: string) =>
  run([...program(), 'check', ...args], { ...(cwd !== undefined && { cwd }) })

/** A judge, proxies that say what they are, and the options of a checker for them. */
async function startWorld() {
  const dir = temporaryDirectory()
  const secret = join(dir, 'secret')
  const judge = launch([
    ...[...program(), 'judge', '--listen', '127.0.0.1:0', '--judge-secret', secret],
  ])
  const url = /http:\S+/.exec(await judge.says(/listening on http:\S+\n/))?.[0] ?? ''
  const world = { judgePort: Number(new URL(url).port), middle: NO_TLS, otherName: NO_TLS }
  async function proxies(table: typeof HONEST, names: readonly string[]) {
    const chosen = table.filter(([what]) => names.includes(what))
    expect(chosen).toHaveLength(names.length)
    return Promise.all(
      chosen.map(async ([what, behave, found]) => {
        const address = addressText(await startProxy(behave(world)))
        return { what, found, address }
      }),
    )
  }
  const kinds = ['http', 'socks4', 'socks5', 'an unknown header', 'X-Forwarded-For']
  const honest = await proxies(HONEST, kinds)
  const options = ['--judge', url, '--judge-secret', secret, ...CONTACT, '--allow-private']
  return { dir, judge, url, secret, proxies, honest, options }
}

describe('check --once FILE without --data', () => {
  let world: Awaited<ReturnType<typeof startWorld>>
  let file: string
  beforeAll(async () => {
    world = await startWorld()
    file = join(temporaryDirectory(), 'addresses.txt')
    writeFileSync(file, world.honest.map(({ address }) => `${address}\n`).join(''))
  })

  test('prints working proxies as the API does, and leaves no file', async () => {
    const cwd = temporaryDirectory()
    const { exitCode, stdout, stderr } = await check(['--once', file, ...world.options], cwd)
    expect(exitCode).toBe(0)
    expect(stderr).toEndWith('checked 5, alive 5, deferred 0\n')
    const rows: { ip: string; type: string; anon: string; ip_out: string }[] = JSON.parse(stdout)
    const found = Object.fromEntries(rows.map(({ ip, type, anon }) => [ip, `${type} ${anon}`]))
    const right = world.honest.map(({ address, found }) => [address, found.replace(/ by .*/, '')])
    expect(found).toEqual(Object.fromEntries(right))
    for (const { ip_out } of rows) expect(ip_out).toBe('127.5.0.9')
    expect(readdirSync(cwd)).toEqual([])
  })

  test('prints each working type', async () => {
    const proxy = addressText(await startProxy(socks5And(http())))
    const files = ['http.txt', 'socks5.txt', 'socks4.txt'].map(name => {
      const path = join(temporaryDirectory(), name)
      writeFileSync(path, `${proxy}\n`)
      return path
    })
    const args = ['--once', ...files, '--get', 'ndjson', ...world.options]
    const { stdout } = await check(args)
    expect(JSON.parse(stdout)).toMatchObject({
      ip: proxy,
      type: 'socks5',
      types: ['socks5', 'http'],
    })
  })

  test.each([
    ['json', /^\[\n {2}\{\n {4}"ip": "127\./],
    ['ndjson', /^\{"ip":"127\..*\}\n$/s],
    ['csv', /^ip,ip_out,.*\r\n127\./],
    ['txt', /^127\.[\d.]+:\d+\n$/],
  ])('--get %s', async (form, shown) => {
    const one = join(temporaryDirectory(), 'one.txt')
    writeFileSync(one, `${world.honest[0]?.address}\n`)
    const { exitCode, stdout } = await check(['--once', one, '--get', form, ...world.options])
    expect(stdout).toMatch(shown)
    expect(exitCode).toBe(0)
  })

  test('leaves a quarter of the descriptors free, and says so', async () => {
    const services = ['google', 'avito']
    const targets = services.flatMap(name => ['--target', `${name}=http://127.0.0.1:9/`])
    const command = [...program(), 'check', '--once', file, ...world.options, ...targets]
    const limited = ['sh', '-c', 'ulimit -n 100; exec "$@"', 'sh', ...command]
    const { exitCode, stderr } = await run(limited)
    expect(stderr).toMatch(/^only [1-3]\d checks at a time: raise LimitNOFILE or ulimit -n\n/)
    expect(stderr).toEndWith('checked 5, alive 5, deferred 0\n')
    expect(exitCode).toBe(0)
  })

  test('prints [] and exits 0 when no proxy works; it checks the same address once', async () => {
    const dead = join(temporaryDirectory(), 'dead.txt')
    writeFileSync(dead, '127.66.0.1:9\n'.repeat(1000))
    const { exitCode, stdout, stderr } = await check(['--once', dead, ...world.options])
    expect([exitCode, stdout]).toEqual([0, '[]'])
    expect(stderr).toBe('checked 1, alive 0, deferred 0\n')
  })

  test('refuses private addresses of proxies and judges without --allow-private', async () => {
    const options = world.options.filter(option => option !== '--allow-private')
    const { exitCode, stdout, stderr } = await check(['--once', file, ...options])
    expect([exitCode, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      'skipping 5 private addresses: see --allow-private\n' +
        'checked 0, alive 0, deferred 0\n' +
        `proxylist: the judge at ${world.url} has a private address (127.0.0.1), ` +
        'which requires --allow-private\n',
    )
  })

  test('--exclude skips addresses and networks', async () => {
    const [one = '', other = '', ...rest] = world.honest.map(({ address }) => address)
    const excluded = `${one.split(':')[0]},${other.split(':')[0]}/32`
    const options = ['--get', 'txt', '--exclude', excluded, ...world.options]
    const { stdout, stderr } = await check(['--once', file, ...options])
    expect(stdout.trim().split('\n').toSorted()).toEqual(rest.toSorted())
    expect(stderr).toBe('checked 3, alive 3, deferred 0\n')
  })

  test('--json prints the counts', async () => {
    const { stderr } = await check(['--once', file, '--json', ...world.options])
    const last = JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '')
    expect(last).toMatchObject({ checked: 5, alive: 5, deferred: 0, coverage: 1 })
    expect(last.rate).toBeNumber()
  })
})

test('--once names a feed that fails', async () => {
  const { dir, options } = await startWorld()
  const feeds = join(dir, 'feeds.txt')
  writeFileSync(feeds, `${join(dir, 'gone.txt')} check\n`)
  const outcome = await check(['--once', '--feeds', feeds, '--data', join(dir, 'data'), ...options])
  expect(outcome).toEqual({
    exitCode: 0,
    stdout: '',
    stderr: expect.stringMatching(/^feed \S+\/gone\.txt: .+\nchecked 0, alive 0, deferred 0\n$/),
  })
})

test('SIGTERM ends check with status 0 while it reads its files', async () => {
  const { dir, options } = await startWorld()
  const pipe = join(dir, 'addresses.txt')
  expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0)
  const args = ['check', pipe, '--data', join(dir, 'data'), ...options]
  const checker = launch([...program(), ...args])
  const script = 'exec 3>"$0"; echo open; exec cat' // the pipe can be opened once it is being read
  const writer = Bun.spawn(['sh', '-c', script, pipe], { stdin: 'pipe', stdout: 'pipe' })
  await writer.stdout.getReader().read()
  checker.kill('SIGTERM')
  expect(await checker.ended).toBe(0)
  writer.kill('SIGKILL')
})

test('--once prints all results when it is interrupted', async () => {
  const { dir, honest, options } = await startWorld()
  using silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const file = join(dir, 'addresses.txt')
  const living = honest.map(({ address }) => address)
  writeFileSync(file, [...living, `127.0.0.1:${silent.port}`].join('\n'))
  const { shown, ...checker } = onTerminal(['check', '--once', file, '--get', 'txt', ...options])
  await until(() => shown().includes('alive 5'))
  checker.kill('SIGINT')
  expect(await checker.exited).toBe(130)
  await until(() => shown().includes('interrupted'))
  expect(shown().split('\r\n')).toEqual(expect.arrayContaining(living))
})

test('messages on a terminal do not mix with the progress line', async () => {
  const { dir, options } = await startWorld()
  const raw = join(dir, 'raw.txt')
  const feeds = join(dir, 'feeds.txt')
  writeFileSync(feeds, `${raw} check every=1s\n`)
  writeFileSync(raw, '127.66.0.1:9\n')
  const data = join(dir, 'data')
  const { shown, ...checker } = onTerminal(['check', '--feeds', feeds, '--data', data, ...options])
  await until(() => /checked \d+, .* MB/.test(shown()))
  writeFileSync(raw, '127.255.255.255:9\n') // a broadcast address: nothing can be sent there
  await until(() => shown().includes('checks are deferred'))
  checker.kill('SIGTERM')
  expect(await checker.exited).toBe(0)
  await until(() => /checked \d+, alive 0, deferred [1-9]\d*\r\n/.test(shown()))
  expect(shown()).not.toMatch(/MB\x1b\[0K\w/)
})

test('check turns addresses into a fresh, typed list that a server serves, and names each liar', async () => {
  const world = await startWorld()
  const told = ['407', 'socks5 without a target']
  const liars = [
    ...(await world.proxies(LIARS, told)),
    ...(await world.proxies(
      LIARS,
      LIARS.map(([what]) => what)
        .filter(what => /forward|replay|another check|page with 200|hides/i.test(what))
        .slice(0, 5),
    )),
  ]
  expect(liars.length).toBeGreaterThan(4)
  const data = join(world.dir, 'data')
  const file = join(world.dir, 'addresses.txt')
  const all = [...world.honest, ...liars]
  writeFileSync(file, all.map(({ address }) => `${address}\n`).join(''))
  addList(data, [{ ip: '127.67.0.1:9', type: 'http', works: 90 }])
  addKeys(data, { free: {} }, [{ key: KEY, plan: 'free' }])

  const args = [...program(), 'check', file, '--data', data, ...world.options]
  const checker = launch(args)
  const explained = async (address: string): Promise<string> =>
    (await run([...program(), 'check', 'explain', address, '--data', data])).stdout
  for (const { address, found } of liars) {
    await until(async () => (await explained(address)).includes(`failed`))
    expect(`${found}: ${await explained(address)}`).toContain(`: ${found}`)
  }
  await using server = startProgram(
    ['serve', '--data', data, '--listen', '127.0.0.1:0', '--log', 'off'],
    { PROXYLIST_TEST_CLOCK: '' },
  )
  const url = /http:\S+/.exec(await server.says(/listening on .*\n/))?.[0]
  const ask = async () =>
    (await (await fetch(`${url}${ASK}&get=json`)).json()) as { ip: string; type: string }[]
  await until(async () => (await ask()).length >= world.honest.length)
  const rows = await ask()
  for (const { address, found } of world.honest) {
    const type = rows.find(({ ip }) => ip === address)?.type
    expect(`${address} ${type}`).toBe(`${address} ${found.split(' ')[0]}`)
  }
  for (const { address } of liars) expect(rows.map(({ ip }) => ip)).not.toContain(address)

  const second = await run(args)
  expect(second).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: expect.stringMatching(/another checker is at work on /),
  })
  checker.kill('SIGTERM')
  expect(await checker.ended).toBe(0)
  expect(await explained('127.99.0.1:1')).toContain('is not known to the checker')
})
