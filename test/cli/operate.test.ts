import { afterAll, describe, expect, test } from 'bun:test'
import {
  chownSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { COMMANDS } from '../../src/cli/program.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { makeReadOnly, smallDisk } from '../support/disk.ts'
import { ASK, addKeys, addList, dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { launch } from '../support/launch.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { program, proxylist, RUNNER_FREE, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { directoryOf, take } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

/** A database of places. */
const PLACES = join(temporaryDirectory(), 'city.mmdb')
writeFileSync(PLACES, mmdb({ '192.0.2.0/24': cityRecord('DE', 'Berlin') }))

/** What to type after the name of a command, where that is needed. */
const TYPED: { readonly [command: string]: readonly string[] } = {
  ...{ import: ['a.txt'], 'keys import': ['a.txt'], backup: ['b.tar'], restore: ['a.tar'] },
  ...{ 'plans set': ['small'], 'plans remove': ['small'], serve: ['--listen', '127.0.0.1:0'] },
  ...{ 'check explain': ['203.0.113.7:80'] },
  ...{ 'keys set': ['k3x9m2ab', '--label', 'a'] },
  ...Object.fromEntries(
    ['show', 'rotate', 'reset', 'revoke', 'remove'].map(word => [`keys ${word}`, ['k3x9m2ab']]),
  ),
}
const lineOf = (name: string): string[] => [...name.split(' '), ...(TYPED[name] ?? [])]
/** More than a pipe holds. */
const MANY = Array.from({ length: 5000 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: 'http',
}))
const FILES = { 'a.txt': 'http://192.0.2.1:80\n', 'a.tar': 'x', 'file/here': 'x' }

describe('a file as --data is named in one sentence', () => {
  const named = async (name: string, data: string, why: string) => {
    const cwd = directoryOf(FILES)
    await take(cwd, {
      args: [...lineOf(name), '--data', data],
      exitCode: 1,
      stderr: `proxylist: the data directory ${data} cannot be used: ${why}\n`,
    })
  }
  const commands = COMMANDS.filter(({ settings }) => settings.includes('data'))
  test.each(commands.map(({ name }) => [name]))('by %s', name =>
    named(name, 'a.txt', 'it is not a directory'),
  )
  test.each([['a.txt/deep', 'a part of its path is a file']])('whatever it is: %s', (data, why) =>
    named('list', data, why),
  )
})

describe('a command that only reads or changes makes nothing, and names what is missing', () => {
  const READERS = [
    ['list', PROXY_FILE, 'fill it with: proxylist import FILE'],
    ['keys list', ACCESS_FILE, 'create a key with: proxylist keys add'],
    ['plans list', ACCESS_FILE, 'create a key with: proxylist keys add'],
  ] as const
  const names = [
    ...[...READERS.map(([name]) => name), 'backup', 'stats', 'feeds', 'console', 'plans remove'],
    ...['export', 'show', 'set', 'rotate', 'reset', 'revoke', 'remove'].map(word => `keys ${word}`),
  ]
  test.each(names)('%s: a mistyped --data', async name => {
    const cwd = directoryOf(FILES)
    await take(cwd, {
      args: [...lineOf(name), '--data', 'dta'],
      exitCode: 1,
      stderr: /^proxylist: there is no data directory dta; check --data, or create it with: /,
    })
    expect(readdirSync(cwd).sort()).toEqual(['a.tar', 'a.txt', 'file'])
  })

  test.each(READERS)('%s: a directory without %s', async (name, file, hint) => {
    const cwd = directoryOf(FILES)
    await take(cwd, {
      args: [...lineOf(name), '--data', 'file'],
      exitCode: 1,
      stderr: `proxylist: there is no file/${file}; ${hint}\n`,
    })
    expect(readdirSync(join(cwd, 'file'))).toEqual(['here'])
  })
})

/** Sends a signal once the program handles it: a line of proc(5) has the signals that it catches. */
async function interrupt(child: ReturnType<typeof launch>, signal: 'SIGINT' | 'SIGTERM') {
  const bit = 1n << BigInt(constants.signals[signal] - 1)
  const caught = (): bigint => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    return BigInt(`0x${/^SigCgt:\s*(\S+)/m.exec(status)?.[1] ?? '0'}`)
  }
  while ((caught() & bit) === 0n) await Bun.sleep(10)
  child.kill(signal)
}

describe('a signal ends a command with one sentence', () => {
  test.each([
    ['keys add --key -', 'SIGINT', 130, ''],
    ['restore -', 'SIGTERM', 143, 'access.db'],
  ] as const)(
    '%s, which waits for its stdin: %s is status %d',
    async (line, signal, status, input) => {
      const data = join(temporaryDirectory(), 'data')
      await using running = startProgram([...line.split(' '), '--data', data])
      running.stdin.write(input)
      await running.stdin.flush()
      await interrupt(running, signal)
      expect(await running.ended).toBe(status)
      expect(running.written.stderr).toBe('proxylist: interrupted; nothing was changed\n')
      expect(existsSync(data)).toBeFalse()
    },
  )

  test('a server that a signal stops while it starts ends well', async () => {
    const args = ['serve', '--data', temporaryDirectory(), '--listen', '127.0.0.1:0']
    await using running = startProgram(args)
    await interrupt(running, 'SIGTERM')
    expect(await running.ended).toBe(0)
  })

  test('backup to a stalled reader leaves no copy behind', async () => {
    const tmp = temporaryDirectory()
    const args = ['backup', '-', '--data', dataDirectory(MANY)]
    await using child = launch([...program(), ...args], { stdout: 'pipe', env: { TMPDIR: tmp } })
    while (readdirSync(tmp).length === 0) await Bun.sleep(10)
    await interrupt(child, 'SIGINT')
    expect(await child.exited).toBe(130)
    expect(readdirSync(tmp)).toEqual([])
  })
})

test('backup - does not write to a terminal, nor beside --json', async () => {
  const dir = dataDirectory()
  const json = 'proxylist: --json needs a FILE: with -, stdout is the archive\n'
  const args = ['backup', '-', '--json', '--data', dir]
  await take(directoryOf(), { args, exitCode: 2, stderr: json })
  const line = [...program(), 'backup', '-', '--data', dir].join(' ')
  const { stdout } = Bun.spawnSync(['script', '-qec', line, '/dev/null'], { env: RUNNER_FREE })
  expect(stdout.toString()).toContain(
    '- writes the archive to stdout, which is a terminal; use > FILE',
  )
})

const fill = (dir: string): void =>
  void Bun.spawnSync(['dd', 'if=/dev/zero', `of=${dir}/filler`, 'bs=1k'])
/** Too small for the list, and large enough. */
const SIZES = ['1m', '12m']

/** Imports `file` beside a server on a disk of this size; returns the exit status. */
async function importOn(disk: string, file: string): Promise<number> {
  const dir = join(disk, 'data')
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free' }], T0)
  const server = await startChild(dir)
  const { exitCode, stderr } = await proxylist(['import', file, '--data', dir])
  if (exitCode !== 0) expect(stderr).toContain('the disk is full')
  await until(async () => (await ask(server, ASK)).startsWith('200 '))
  await server.stop()
  return exitCode
}

/** Writes empty files until there are no more inodes. */
function takeInodes(dir: string): void {
  try {
    for (let n = 0; n < 100; n += 1) writeFileSync(join(dir, `${n}.none`), '')
  } catch {
    // There are none left.
  }
}

/** What is made in a directory before its disk fails. */
async function makeData(cwd: string, data: string): Promise<void> {
  for (const name of ['import', 'fetch --feed a.txt', 'keys add']) {
    await take(cwd, { args: [...lineOf(name), '--data', data], stdout: /^/, stderr: /^/ })
  }
}

const WRITING = [
  ['serve', ACCESS_FILE],
  ['keys add', ACCESS_FILE],
  ['import', PROXY_FILE],
] as const
/** SQLite creates files beside a database even to read it. */
const READING = [
  ['list', PROXY_FILE],
  ['keys list', ACCESS_FILE],
  ['backup', ACCESS_FILE],
] as const

/** Runs commands that must say why their database cannot be used. */
async function expectRefusals(
  cwd: string,
  data: string,
  why: string,
  lines: readonly (readonly [name: string, file: string])[] = [...WRITING, ...READING],
): Promise<void> {
  for (const [name, file] of lines) {
    const stderr = new RegExp(`^proxylist: \\S+${file} cannot be written \\(${why}[^\\n]*\\n$`)
    await take(cwd, { args: [...lineOf(name), '--data', data], exitCode: 1, stderr })
  }
}

const disk = smallDisk('300k')
const FULL = 'the disk is full: no space or inodes; '

if (disk !== null) {
  fill(disk)
  test('on a full disk, commands say that it is full', async () => {
    const cwd = directoryOf(FILES)
    const data = join(disk, 'data')
    await expectRefusals(cwd, data, FULL, WRITING)
    expect(readdirSync(data)).toEqual([])
    rmSync(join(disk, 'filler'))
    await makeData(cwd, data)
    fill(disk)
    await expectRefusals(cwd, data, FULL)
    const doctor = await proxylist(['doctor', '--data', data])
    expect(doctor.stdout).toMatch(/^disk +WRONG /m)
    rmSync(join(disk, 'filler'))
  })

  test('on a read-only disk, commands say that it is read-only', async () => {
    const readOnly = smallDisk('4m') ?? ''
    const cwd = directoryOf(FILES)
    const data = join(readOnly, 'data')
    await makeData(cwd, data)
    for (const path of [data, join(data, ACCESS_FILE), join(data, PROXY_FILE)]) {
      chownSync(path, 65534, 65534) // that is not the reason
    }
    makeReadOnly(readOnly)
    await expectRefusals(cwd, data, 'read-only file system')
  })

  test('on a disk without inodes, commands say so, and doctor too', async () => {
    const few = smallDisk('90m,nr_inodes=40') ?? ''
    const cwd = directoryOf(FILES)
    const data = join(few, 'data')
    await makeData(cwd, data)
    takeInodes(few)
    await expectRefusals(cwd, data, FULL)
    const { stdout } = await proxylist(['doctor', '--data', data])
    expect(stdout).toMatch(/^disk +WRONG +the disk has \d free inodes?: /m)
  })

  test('an import that does not fit on the disk fails, and the server goes on', async () => {
    const line = (n: number) => `http://10.${n >> 16}.${(n >> 8) & 255}.${n & 255}:80\n`
    const lines = Array.from({ length: 21_000 }, (_, n) => line(n))
    const file = join(directoryOf({ 'many.txt': lines.join('') }), 'many.txt')
    const statuses: number[] = []
    for (const size of SIZES) statuses.push(await importOn(smallDisk(size) ?? '', file))
    expect([statuses[0], statuses.at(-1)]).toEqual([1, 0])
  })
}

test('keys export of no keys leaves a file that it is appended to as it is', async () => {
  const cwd = directoryOf({ 'all.ndjson': 'old\n' })
  await take(cwd, { args: 'plans set gold', stderr: /gold/ })
  const file = openSync(join(cwd, 'all.ndjson'), 'a')
  const { exitCode } = Bun.spawnSync([...program(), 'keys', 'export'], {
    cwd,
    stdout: file,
    env: RUNNER_FREE,
  })
  closeSync(file)
  expect([exitCode, readFileSync(join(cwd, 'all.ndjson'), 'utf8')]).toEqual([0, 'old\n'])
})
