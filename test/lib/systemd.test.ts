/**
 * Holds what the service is to systemd: a unit file that is strict and right, and a process that
 * says itself when it is ready, alive and stopping. systemd need not run here: the tests are the
 * service manager, and systemd-analyze, where there is one, judges the file.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SETTINGS } from '../../src/config/settings.ts'
import { parseDuration } from '../../src/lib/time.ts'
import { ask } from '../support/answer.ts'
import { listenForDatagrams } from '../support/datagrams.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import { BINARY, proxylist, ROOT, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)
/** A busy machine is slow at starting programs; none of this is about time. */
setDefaultTimeout(60_000)

const UNIT = readFileSync(join(ROOT, 'data/proxylist.service'), 'utf8')
/** All that a setting of the unit is given, joined. */
const unitValue = (name: string): string =>
  [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value).join(' ')

describe('the unit file', () => {
  test('is what `proxylist systemd-unit` prints', async () => {
    const { exitCode, stdout, stderr } = await proxylist(['systemd-unit'])
    expect(stdout).toBe(UNIT)
    expect([exitCode, stderr]).toEqual([0, ''])
  })

  test('lets requests in flight finish before systemd kills', () => {
    const stopMs = parseDuration(unitValue('TimeoutStopSec')) ?? 0
    expect(stopMs).toBeGreaterThan(parseDuration(SETTINGS.grace.fallback ?? '') ?? Infinity)
  })

  test('does not turn off compiling to machine code', () => {
    expect(UNIT).not.toMatch(/^(?:MemoryDenyWriteExecute|LimitAS|LimitDATA|LimitRSS)=/m)
  })

  test('unsets what could steer the runtime or the loader', () => {
    const names = ['BUN_OPTIONS', 'BUN_BE_BUN', 'BUN_INSPECT', 'BUN_INSPECT_PRELOAD', 'LD_PRELOAD']
    expect(unitValue('UnsetEnvironment').split(' ')).toEqual(expect.arrayContaining(names))
  })

  test('gives the process its own directory, and no option by another name', () => {
    expect([unitValue('StateDirectory'), unitValue('ExecStart')]).toEqual([
      'proxylist',
      '/usr/local/bin/proxylist serve',
    ])
  })
})

/** The unit with a program that is there, in a file of its own. */
function installedUnit(): string {
  const file = join(temporaryDirectory(), 'proxylist.service')
  writeFileSync(file, UNIT.replace(/^ExecStart=\S+/m, `ExecStart=${BINARY ?? process.execPath}`))
  return file
}

async function analyze(...args: string[]) {
  const child = Bun.spawn(['systemd-analyze', ...args], {
    env: { PATH: process.env.PATH, SYSTEMD_COLORS: '0', LC_ALL: 'C' },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { exitCode: await child.exited, stdout, stderr }
}

const isHere = Bun.which('systemd-analyze') !== null
describe(`systemd-analyze${isHere ? '' : ' (skipped: there is none on this machine)'}`, () => {
  test.skipIf(!isHere)('verify finds nothing to say', async () => {
    expect(await analyze('verify', installedUnit())).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: '',
    })
  })

  test.skipIf(!isHere)('security finds an exposure of at most 1.5', async () => {
    const { stdout } = await analyze('security', '--offline=true', installedUnit())
    const exposure = /exposure level for proxylist\.service: (\d+\.\d)/.exec(stdout)?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1.5)
  })
})

const serve = (socket: string, more: { [name: string]: string } = {}) =>
  startProgram(['serve', '--listen', '127.0.0.1:0', '--data', dataDirectory()], {
    NOTIFY_SOCKET: socket,
    ...more,
  })

describe.each([
  ['a path', () => join(temporaryDirectory(), 'notify')],
  ['an abstract name', () => `@proxylist-test-${crypto.randomUUID()}`],
])('a service manager at %s', (_, name) => {
  test('hears when the server answers and when it stops', async () => {
    const socket = name()
    using manager = listenForDatagrams(socket)
    await using server = serve(socket)
    const ready = manager.receive()
    expect(ready).toMatch(/^READY=1\nSTATUS=listening on http:\/\/127\.0\.0\.1:\d+$/)
    const url = ready.split(' ').at(-1)
    expect((await fetch(`${url}/readyz`)).status).toBe(200) // ready is true when it is said
    server.kill('SIGTERM')
    expect(manager.receive()).toMatch(/^STOPPING=1\nSTATUS=./)
    expect(await server.ended).toBe(0)
    expect(server.written.stderr).not.toContain('service manager')
  })

  test('hears that the server lives, as often as it asks', async () => {
    const socket = name()
    using manager = listenForDatagrams(socket)
    await using server = serve(socket, { WATCHDOG_USEC: '20000' })
    expect(manager.receive()).toStartWith('READY=1\n')
    for (const _ of [1, 2, 3]) expect(manager.receive()).toBe('WATCHDOG=1')
    server.kill('SIGTERM')
    let last = manager.receive()
    while (last === 'WATCHDOG=1') last = manager.receive()
    expect(last).toStartWith('STOPPING=1\n')
    expect(await server.ended).toBe(0)
  })
})

describe('a service manager that does not listen', () => {
  test.each([
    ['is not there', '/nonexistent/notify', 'a message was not taken'],
    ['is not there, abstract', '@proxylist-nobody', 'a message was not taken'],
    ['is no unix socket', 'vsock:2:1234', 'it names no unix socket'],
    ['has too long a name', `/${'x'.repeat(120)}`, 'its name is too long'],
  ])('because it %s is told of once, and the service goes on', async (_, socket, why) => {
    await using server = serve(socket, { WATCHDOG_USEC: '1000' })
    const url = (await server.says(/http:\S+\n/)).trim()
    await server.says(/service manager/)
    const request = async (path: string) => {
      const answer = await fetch(url + path)
      return { ...answer, status: answer.status, text: await answer.text() }
    }
    expect((await request(ASK)).text).toBe('192.0.2.1:80\n')
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    const said = server.written.stderr.split('\n').filter(line => line.includes('NOTIFY_SOCKET'))
    expect(said).toEqual([`the service manager at NOTIFY_SOCKET hears nothing: ${why}`])
  })

  test('because there is none is nothing to speak of', async () => {
    const server = await startChild(dataDirectory())
    expect(await ask(server)).toBe('200 192.0.2.1:80\n')
    await server.stop()
    expect(server.output()).not.toContain('service manager')
  })
})

/** Evil code that says so; a debugger; options of the runtime. */
const STEERING = {
  BUN_OPTIONS: '--smol',
  BUN_INSPECT: '127.0.0.1:0',
  BUN_INSPECT_CONNECT_TO: 'ws://127.0.0.1:9',
  BUN_INSPECT_NOTIFY: 'unix:///nonexistent',
  BUN_JSC_useJIT: '0',
  BUN_CONFIG_VERBOSE_FETCH: 'curl',
  BUN_FEATURE_FLAG_DISABLE_IPV6: '1',
}

if (BINARY !== undefined) {
  describe('the binary refuses to be steered', () => {
    test.each(Object.entries(STEERING))('by %s', async (name, value) => {
      const { exitCode, stdout, stderr } = await proxylist(['version'], { env: { [name]: value } })
      expect([exitCode, stdout]).toEqual([2, ''])
      expect(stderr).toBe(
        `proxylist: ${name} would steer the runtime inside; start it without: env -u ${name} proxylist …\n`,
      )
    })

    test.each(['BUN_OPTIONS', 'BUN_INSPECT_PRELOAD'])(
      'by code named in %s, which the runtime loads before ours all the same',
      async name => {
        const loud = join(temporaryDirectory(), 'loud.ts')
        writeFileSync(loud, "process.stderr.write('loud\\n')")
        const value = name === 'BUN_OPTIONS' ? `--preload=${loud}` : loud
        const { exitCode, stdout, stderr } = await proxylist(['version'], {
          env: { [name]: value },
        })
        expect([exitCode, stdout]).toEqual([2, ''])
        expect(stderr).toStartWith(`loud\nproxylist: ${name} would steer`)
      },
    )

    test('though not by BUN_BE_BUN, which makes the file plain Bun, as the README says', async () => {
      const { stdout } = await proxylist(['--version'], { env: { BUN_BE_BUN: '1' } })
      expect(stdout).toBe(`${Bun.version}\n`)
    })

    test.each([
      ['BUN_INSTALL', '/root/.bun'],
      ['BUN_INSTALL_BIN', '/usr/local/bin'],
      ['BUN_RUNTIME_TRANSPILER_CACHE_PATH', '0'],
      ['BUN_OPTIONS', ''],
      ['NODE_OPTIONS', '--inspect'],
    ])('but heeds not %s=%s, which is none of its business', async (name, value) => {
      const { exitCode, stderr } = await proxylist(['version'], { env: { [name]: value } })
      expect([exitCode, stderr]).toEqual([0, ''])
    })
  })
}
