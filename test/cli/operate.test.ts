/** Commands at a signal, on disks that fail, and on terminals. */
import { afterAll, describe, expect, test } from 'bun:test'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { makeReadOnly, smallDisk } from '../support/disk.ts'
import { ASK, addKeys, addList, dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { launch } from '../support/launch.ts'
import { program, proxylist, RUNNER_FREE, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { directoryOf, runCommand, runStep } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

/** More than a pipe holds. */
const MANY = Array.from({ length: 5000 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: 'http',
}))
const FILES = { 'a.txt': 'http://192.0.2.1:80\n' }

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
    '%s, which waits for stdin: %s gives status %d',
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

  test('a server that a signal stops while it starts exits 0', async () => {
    const args = ['serve', '--data', temporaryDirectory(), '--listen', '127.0.0.1:0']
    await using running = startProgram(args)
    await interrupt(running, 'SIGTERM')
    expect(await running.ended).toBe(0)
  })

  test('backup to a stalled reader leaves no copy', async () => {
    const tmp = temporaryDirectory()
    const args = ['backup', '-', '--data', dataDirectory(MANY)]
    await using child = launch([...program(), ...args], { stdout: 'pipe', env: { TMPDIR: tmp } })
    while (readdirSync(tmp).length === 0) await Bun.sleep(10)
    await interrupt(child, 'SIGINT')
    expect(await child.exited).toBe(130)
    expect(readdirSync(tmp)).toEqual([])
  })
})

test('backup - refuses to write to a terminal', async () => {
  const dir = dataDirectory()
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
  if (exitCode !== 0) expect(stderr).toContain('is the disk full')
  await until(async () => (await ask(server, ASK)).startsWith('200 '))
  await server.stop()
  return exitCode
}

/** Writes empty files until there are no more inodes. */
function takeInodes(dir: string): void {
  try {
    for (let n = 0; n < 100; n += 1) writeFileSync(join(dir, `${n}.none`), '')
  } catch {} // there are none left
}

/** Runs commands that must say why they cannot write; SQLite creates files even to read a database. */
async function expectRefusals(cwd: string, data: string, onlyWriting = false) {
  const writing = ['serve --listen 127.0.0.1:0', 'keys add', 'import a.txt']
  const reading = ['list', 'keys list', 'backup b.tar']
  for (const line of onlyWriting ? writing : [...writing, ...reading]) {
    const file = line.startsWith('import') || line === 'list' ? PROXY_FILE : ACCESS_FILE
    const stderr = new RegExp(
      `^proxylist: \\S+${file} cannot be used \\([^\\n]* See: proxylist doctor\\n$`,
    )
    await runStep(cwd, { args: [...line.split(' '), '--data', data], exitCode: 1, stderr })
  }
}

const DISKS = [
  ['a full disk', '300k', fill, /^disk +WRONG /m],
  ['a read-only disk', '4m', makeReadOnly, /^disk +WRONG .* read-only/m],
  ['a disk without inodes', '90m,nr_inodes=40', takeInodes, /^disk +WRONG .* free inodes?; /m],
] as const
const MOUNTS = smallDisk('300k')

describe.skipIf(MOUNTS === null)('on a disk that cannot be written', () => {
  test.each(DISKS)('commands name doctor, which reports the reason: %s', async (...row) => {
    const [, size, spoil, says] = row
    const disk = smallDisk(size) ?? ''
    const data = join(disk, 'data')
    const cwd = directoryOf(FILES)
    for (const line of ['import a.txt', 'fetch --feed a.txt', 'keys add']) {
      await runStep(cwd, { args: [...line.split(' '), '--data', data], stdout: /^/, stderr: /^/ })
    }
    spoil(disk)
    await expectRefusals(cwd, data)
    const { stdout } = await runCommand(['doctor', '--data', data])
    expect(stdout).toMatch(says)
  })

  test('commands refuse to create data on a full disk', async () => {
    const disk = smallDisk('300k') ?? ''
    fill(disk)
    const data = join(disk, 'data')
    await expectRefusals(directoryOf(FILES), data, true)
  })

  test('an import that does not fit fails, and the server goes on', async () => {
    const line = (n: number) => `http://10.${n >> 16}.${(n >> 8) & 255}.${n & 255}:80\n`
    const lines = Array.from({ length: 21_000 }, (_, n) => line(n))
    const file = join(directoryOf({ 'many.txt': lines.join('') }), 'many.txt')
    const statuses: number[] = []
    for (const size of SIZES) statuses.push(await importOn(smallDisk(size) ?? '', file))
    expect(statuses).toEqual([1, 0])
  })
})

test('keys export without keys does not truncate the file that stdout appends to', async () => {
  const cwd = directoryOf({ 'all.ndjson': 'old\n' })
  await runStep(cwd, { args: 'plans set gold', stderr: /gold/ })
  const file = openSync(join(cwd, 'all.ndjson'), 'a')
  const { exitCode } = Bun.spawnSync([...program(), 'keys', 'export'], {
    cwd,
    stdout: file,
    env: RUNNER_FREE,
  })
  closeSync(file)
  expect([exitCode, readFileSync(join(cwd, 'all.ndjson'), 'utf8')]).toEqual([0, 'old\n'])
})
