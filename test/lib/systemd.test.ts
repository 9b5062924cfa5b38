/**
 * The service under systemd: a unit file that is strict and correct, and a process that notifies
 * when it is ready, alive and stopping. systemd does not have to run here: the tests act as the
 * service manager, and systemd-analyze, where it is installed, checks the file.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SETTINGS } from '../../src/config/settings.ts'
import { parseDuration } from '../../src/lib/time.ts'
import { listenForDatagrams } from '../support/datagrams.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import { manual } from '../support/manual.ts'
import { BINARY, proxylist, ROOT, startProgram } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const UNIT = readFileSync(join(ROOT, 'data/proxylist.service'), 'utf8')
const JUDGE_UNIT = readFileSync(join(ROOT, 'data/proxylist-judge.service'), 'utf8')
const CHECK_UNIT = readFileSync(join(ROOT, 'data/proxylist-check.service'), 'utf8')
/** All values of a setting of the unit, joined. */
const unitValue = (name: string): string =>
  [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value).join(' ')

describe.each([
  ['', UNIT],
  ['judge', JUDGE_UNIT],
  ['check', CHECK_UNIT],
])('the unit file of %j', (command, unit) => {
  test('is what `proxylist systemd-unit` prints', async () => {
    const outcome = await proxylist(['systemd-unit', ...command.split(' ').filter(Boolean)])
    expect(outcome).toEqual({ exitCode: 0, stdout: unit, stderr: '' })
  })
})

test('no unit exists for another command: status 2', async () => {
  const { exitCode, stderr } = await proxylist(['systemd-unit', 'import'])
  const why = 'there is no unit for that; there are those of serve, judge, check'
  expect([exitCode, stderr]).toEqual([2, `proxylist: ${why}\n`])
})

test.each([
  ['Restart', 'always'],
  ['StartLimitIntervalSec', '0'], // a full disk may last
  ['RuntimeDirectory', 'proxylist'],
  ['RuntimeDirectoryMode', '0750'], // for the manual's /run/proxylist/http.sock
  ['StateDirectory', 'proxylist'],
  ['ExecStart', '/usr/local/bin/proxylist serve'],
])('the unit of the service has %s=%s', (name, value) => expect(unitValue(name)).toBe(value))

test('the service has longer to stop than its requests in flight', () => {
  const stopMs = parseDuration(unitValue('TimeoutStopSec')) ?? 0
  expect(stopMs).toBeGreaterThan(parseDuration(SETTINGS.grace.fallback ?? '') ?? Infinity)
})

test('the other units are as strict, except for ports below 1024', () => {
  const [, text = ''] = /\nNoNewPrivileges=yes\n(.*)\n\[Install\]/s.exec(UNIT) ?? []
  const strict = text.split('\n').filter(line => line !== '')
  const own = ['CapabilityBoundingSet=', 'AmbientCapabilities=', 'PrivateUsers=yes']
  expect(strict.length).toBeGreaterThan(own.length)
  expect(CHECK_UNIT.split('\n')).toEqual(
    expect.arrayContaining([...strict, 'User=proxylist', 'StateDirectory=proxylist']),
  )
  const shared = strict.filter(line => !own.includes(line))
  expect(JUDGE_UNIT.split('\n')).toEqual(expect.arrayContaining(shared))
  expect(JUDGE_UNIT.match(/^.*(?:Capabilit|PrivateUsers).*=.*$/gm)).toEqual([
    'CapabilityBoundingSet=CAP_NET_BIND_SERVICE',
    'AmbientCapabilities=CAP_NET_BIND_SERVICE',
    'PrivateUsers=no',
  ])
})

/** A unit, with a program that exists, in a file of its own. */
function installedUnit(name: string): string {
  const file = join(temporaryDirectory(), name)
  const unit = readFileSync(join(ROOT, 'data', name), 'utf8')
  writeFileSync(file, unit.replace(/^ExecStart=\S+/m, `ExecStart=${BINARY ?? process.execPath}`))
  return file
}
/** What serves, answers checks, and checks. */
const UNITS = ['proxylist.service', 'proxylist-judge.service', 'proxylist-check.service']

/** The units for backups that the manual shows, in files under their names. */
function backupUnits(): string[] {
  const dir = temporaryDirectory()
  return [...manual('backup').matchAll(/```ini\n# \/etc\/systemd\/system\/(\S+)\n(.*?)```/gs)].map(
    ([, name = '', text = '']) => {
      const file = join(dir, name)
      writeFileSync(file, text)
      return file
    },
  )
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
  test.skipIf(!isHere)('verify reports nothing, also about the manual’s backups', async () => {
    const units = backupUnits()
    expect(units).toHaveLength(2)
    const outcome = await analyze('verify', ...UNITS.map(installedUnit), ...units)
    expect(outcome).toEqual({ exitCode: 0, stdout: '', stderr: '' })
  })

  test.skipIf(!isHere).each(UNITS)(
    'security finds an exposure of %s of at most 1.5',
    async unit => {
      const { stdout } = await analyze('security', '--offline=true', installedUnit(unit))
      const exposure = /exposure level for \S+: (\d+\.\d)/.exec(stdout)?.[1]
      expect(Number(exposure)).toBeLessThanOrEqual(1.5)
    },
  )
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
  test('is notified when the server is ready and when it stops', async () => {
    const socket = name()
    using manager = listenForDatagrams(socket)
    await using server = serve(socket)
    const ready = manager.receive()
    expect(ready).toMatch(/^READY=1\nSTATUS=listening on http:\/\/127\.0\.0\.1:\d+$/)
    const url = ready.split(' ').at(-1)
    expect((await fetch(`${url}/readyz`)).status).toBe(200) // it is ready when it says so
    server.kill('SIGTERM')
    expect(manager.receive()).toMatch(/^STOPPING=1\nSTATUS=./)
    expect(await server.ended).toBe(0)
    expect(server.written.stderr).not.toContain('service manager')
  })

  test('is notified that the server is alive, as often as it asks', async () => {
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

test('a service manager is notified when a judge is ready and when it stops', async () => {
  const socket = join(temporaryDirectory(), 'notify')
  using manager = listenForDatagrams(socket)
  const args = ['judge', '--listen', '127.0.0.1:0', '--judge-secret', `${socket}-secret`]
  await using judge = startProgram(args, { NOTIFY_SOCKET: socket })
  expect(manager.receive()).toMatch(/^READY=1\nSTATUS=listening on http:\/\/127\.0\.0\.1:\d+$/)
  judge.kill('SIGTERM')
  expect(manager.receive()).toMatch(/^STOPPING=1\nSTATUS=./)
  expect(await judge.ended).toBe(0)
})

describe('a service manager that cannot be notified', () => {
  test.each([
    ['does not exist', '/nonexistent/notify', 'a message was not accepted'],
    ['does not exist, abstract', '@proxylist-nobody', 'a message was not accepted'],
    ['is not a unix socket', 'vsock:2:1234', 'it is not a unix socket'],
    ['has too long a name', `/${'x'.repeat(120)}`, 'its name is too long'],
  ])('because it %s is reported once, and the service goes on', async (_, socket, why) => {
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
    expect(said).toEqual([`cannot notify the service manager at NOTIFY_SOCKET: ${why}`])
  })
})
