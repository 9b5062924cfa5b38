/**
 * A restore puts the data of a backup in place after it has checked the archive; never under a server, and never
 * over data that it does not keep.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { backUp } from '../../src/sqlite/backup.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { restore } from '../../src/sqlite/restore.ts'
import { ask } from '../support/answer.ts'
import { flipLast } from '../support/damage.ts'
import { ASK, dataDirectory, T0 } from '../support/fixtures.ts'
import { program, RUNNER_FREE } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runStep } from '../support/transcript.ts'

afterAll(cleanUp)

const OLD = [{ ip: '192.0.2.1:80', type: 'http' }]
const NEW = [{ ip: '192.0.2.9:80', type: 'http' }]

/** An archive of a list and a key; it is made once. */
let archive: Promise<string> | null = null
async function makeArchive(): Promise<string> {
  const file = join(temporaryDirectory(), 'backup.tar')
  const to = { kind: 'file', file } as const
  const signal = new AbortController().signal
  await backUp({ dir: dataDirectory(NEW), to, nowMs: T0, signal, progress() {} })
  return file
}
async function archived(): Promise<string> {
  archive ??= makeArchive()
  return archive
}

/** A working directory with `backup.tar` of a list and a key, and `data` with another list. */
async function scene({ hasData = true } = {}): Promise<string> {
  const cwd = temporaryDirectory()
  cpSync(await archived(), join(cwd, 'backup.tar'))
  if (hasData) renameSync(dataDirectory(OLD), join(cwd, 'data'))
  return cwd
}
/** Where data is kept that a restore replaces. */
const keptIn = (cwd: string): string => {
  const [name = ''] = readdirSync(join(cwd, 'data')).filter(entry =>
    entry.startsWith('before-restore-20261120T120000Z-'),
  )
  return `data/${name}`
}
const forced = (cwd: string, stderr: RegExp = /./) =>
  runStep(cwd, { args: ['restore', 'backup.tar', '--force'], stderr })
const listed = async (cwd: string, data = 'data'): Promise<string> =>
  (await runStep(cwd, { args: ['list', '--data', data], stdout: /./ })).stdout
/** Everything below a directory with its content, without what SQLite keeps next to a database. */
const contentOf = (dir: string): { [file: string]: string } =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true })
      .map(String)
      .filter(name => statSync(join(dir, name)).isFile() && !/-(?:wal|shm)$/.test(name))
      .map(name => [name, Bun.hash(readFileSync(join(dir, name))).toString()]),
  )

describe('restore', () => {
  test('makes the data directory of the backup, which doctor accepts and a server serves at once', async () => {
    const cwd = await scene({ hasData: false })
    await runStep(cwd, {
      args: ['restore', 'backup.tar'],
      stderr:
        './data: restored access.db (1 key, 5 plans) and proxies.db (1 proxy) from backup.tar\n',
    })
    expect(readdirSync(join(cwd, 'data')).sort()).toEqual([ACCESS_FILE, PROXY_FILE])
    const modes = ['data', `data/${PROXY_FILE}`, `data/${ACCESS_FILE}`].map(path =>
      (statSync(join(cwd, path)).mode & 0o777).toString(8),
    )
    expect(modes).toEqual(['700', '600', '600'])
    await runStep(cwd, { args: ['doctor'], stdout: /^list +ok /m })
    expect(await listed(cwd)).toBe('192.0.2.9:80\n')
    const { stdout } = await runStep(cwd, { args: ['keys', 'list', '--json'], stdout: /./ })
    expect(JSON.parse(stdout)).toHaveLength(1)
    const server = await startChild(join(cwd, 'data'))
    expect(await ask(server, ASK)).toBe('200 192.0.2.9:80\n')
    await server.stop()
    expect(server.output()).not.toContain('answering 503')
  })

  test('installs the feeds file, keeps the old one with its state, and has all feeds fetched again', async () => {
    const cwd = temporaryDirectory()
    renameSync(dataDirectory(OLD), join(cwd, 'data'))
    const file = join(cwd, 'data', 'feeds')
    writeFileSync(file, '/first\n', { mode: 0o600 })
    await runStep(cwd, {
      args: ['backup', 'backup.tar'],
      stderr: / proxies\.db \(1 proxy\) and feeds\n/,
    })
    writeFileSync(file, '/second\n')
    const feeds = openFeeds(join(cwd, 'data'))
    feeds.keepOnly([{ id: '1', shown: '/second' }], T0)
    feeds.close()
    await forced(cwd)
    expect(readFileSync(file, 'utf8')).toBe('/first\n')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(cwd, keptIn(cwd), 'feeds'), 'utf8')).toBe('/second\n')
    expect(readdirSync(join(cwd, keptIn(cwd)))).toContain(FEEDS_FILE)
    expect(readdirSync(join(cwd, 'data'))).not.toContain(FEEDS_FILE)
  })

  test('reads a backup from stdin, and reports as JSON', async () => {
    const cwd = temporaryDirectory()
    const [from, to] = [dataDirectory(NEW), join(cwd, 'data')]
    const run = program().join(' ')
    const shell = `${run} backup - --data ${from} | ${run} restore - --json --data ${to}`
    const { exitCode, stdout, stderr } = Bun.spawnSync(['sh', '-c', shell], {
      cwd,
      env: RUNNER_FREE,
    })
    expect(exitCode).toBe(0)
    expect(stderr.toString()).toMatch(/^stdout: \d+ kB with access\.db \(.*\)\n$/)
    const counts = { keys: 1, plans: 5, proxies: 1 }
    const files = [ACCESS_FILE, PROXY_FILE]
    const restored = { file: '(stdin)', data: to, files, previous: null, ...counts }
    expect(JSON.parse(stdout.toString())).toEqual(restored)
    expect(await listed(cwd)).toBe('192.0.2.9:80\n')
  })
})

describe('restore where there is data', () => {
  test('refuses to replace data without --force, and keeps the old data with it', async () => {
    const cwd = await scene()
    const before = contentOf(join(cwd, 'data'))
    await runStep(cwd, {
      args: ['restore', 'backup.tar'],
      exitCode: 1,
      stderr: `proxylist: ./data holds data already (access.db, proxies.db); --force replaces it and keeps it aside\n`,
    })
    expect(contentOf(join(cwd, 'data'))).toEqual(before)
    const { stderr } = await forced(cwd)
    const kept = keptIn(cwd)
    expect(stderr).toEndWith(
      `the earlier data is kept in ${kept}; to go back:\n` +
        `  proxylist backup before.tar --data ${kept}\n` +
        '  proxylist restore before.tar --force --data ./data\n',
    )
    expect(await listed(cwd)).toBe('192.0.2.9:80\n')
    expect(await listed(cwd, kept)).toBe('192.0.2.1:80\n')
    await forced(cwd, /to go back/)
    expect(await listed(cwd, kept)).toBe('192.0.2.1:80\n')
  })

  test('refuses while a server runs on the data, with --force too', async () => {
    const cwd = await scene()
    const server = await startChild(join(cwd, 'data'))
    const right = await ask(server, ASK)
    await runStep(cwd, {
      args: ['restore', 'backup.tar', '--force'],
      exitCode: 1,
      stderr: /^proxylist: data\/access\.db is in use; stop server and checker, or wait /,
    })
    expect(await ask(server, ASK)).toBe(right)
    await server.stop()
    expect(server.output()).not.toContain('answering 503')
    expect(readdirSync(join(cwd, 'data')).filter(name => /restore/.test(name))).toEqual([])
    await forced(cwd, /restored/)
  })

  test('replaces the WAL of a killed server, and keeps it with its database', async () => {
    const cwd = await scene()
    const data = join(cwd, 'data')
    const killed = await startChild(data)
    await runStep(cwd, { args: ['keys', 'add', '--label', 'in the WAL'], stdout: /./, stderr: /./ })
    killed.kill('SIGKILL')
    await killed.exited.catch(() => {})
    await forced(cwd)
    const labels = async (dir: string) =>
      (await runStep(cwd, { args: ['keys', 'list', '--data', dir], stdout: /./ })).stdout
    expect(await labels('data')).not.toContain('in the WAL')
    expect(await labels(keptIn(cwd))).toContain('in the WAL')
  })
})

test('restore replaces damaged data', async () => {
  const cwd = await scene()
  for (const name of [ACCESS_FILE, PROXY_FILE]) {
    writeFileSync(join(cwd, 'data', name), 'x'.repeat(9999))
  }
  await forced(cwd, /restored/)
  expect(await listed(cwd)).toBe('192.0.2.9:80\n')
})

test('restore prints the commands that bring back the old keys and list', async () => {
  const cwd = await scene()
  const keysOf = async () => (await runStep(cwd, { args: ['keys', 'export'], stdout: /./ })).stdout
  const data = join(cwd, "it's here")
  renameSync(join(cwd, 'data'), data)
  symlinkSync(data, join(cwd, 'data'))
  await runStep(cwd, { args: ['keys', 'add', '--label', 'before'], stdout: /./, stderr: /./ })
  const keys = await keysOf()
  const { stderr } = await runStep(cwd, {
    args: ['restore', 'backup.tar', '--force', '--data', data],
    stderr: /./,
  })
  expect([await listed(cwd), await keysOf()]).not.toEqual(['192.0.2.1:80\n', keys])
  const commands = stderr.split('\n').filter(line => line.startsWith('  proxylist '))
  expect(commands).toHaveLength(2)
  for (const line of commands) {
    const shell = line.replace('proxylist', program().join(' '))
    expect(Bun.spawnSync(['sh', '-c', shell], { cwd, env: RUNNER_FREE }).exitCode).toBe(0)
  }
  expect([await listed(cwd), await keysOf()]).toEqual(['192.0.2.1:80\n', keys])
})

/** What is done to the archive `backup.tar` of a key and a list in a working directory. */
type Change = (cwd: string) => void
const shell =
  (line: string): Change =>
  cwd => {
    const { exitCode, stderr } = Bun.spawnSync(['sh', '-ec', line], { cwd, env: RUNNER_FREE })
    expect([exitCode, exitCode === 0 ? '' : stderr.toString()]).toEqual([0, ''])
  }
const truncated =
  (share: number): Change =>
  cwd => {
    const file = join(cwd, 'backup.tar')
    const bytes = readFileSync(file)
    writeFileSync(file, bytes.subarray(0, Math.floor((bytes.length - 1024) * share)))
  }
/** Changes a database of it, and packs it again, without checksums. */
const repacked =
  (name: string, damage: (file: string) => void): Change =>
  cwd => {
    shell('mkdir u && tar -xpf backup.tar -C u')(cwd)
    damage(join(cwd, 'u', name))
    shell('tar -cf backup.tar -C u access.db proxies.db')(cwd)
  }
const noDatabase = (file: string): void => writeFileSync(file, 'x'.repeat(9999))
const sql =
  (...statements: string[]) =>
  (file: string): void => {
    const db = new Database(file)
    for (const statement of statements) db.run(statement)
    db.close()
  }
const newer = sql('create table later (a text)', 'pragma user_version = 99')
const songs = (file: string): void => {
  rmSync(file)
  sql('create table songs (title text)')(file)
}
const NO_BACKUP = ' is not a backup of proxylist'
const MISSING = ' is not a whole backup: access.db is missing'
const FOREIGN = ' is not a backup of proxylist: it holds '
const damaged = (file: string): void => writeFileSync(file, readFileSync(file).fill(255, 4096))
const REFUSALS: readonly (readonly [what: string, change: Change, says: string | RegExp])[] = [
  ['an empty file', truncated(0), NO_BACKUP],
  ['a file of zeros', shell('head -c 9999 /dev/zero > backup.tar'), MISSING],
  ['cut in the first header', truncated(0.002), NO_BACKUP],
  ['cut in the middle', truncated(0.3), ' is truncated'],
  ['no archive', shell('seq 9999 > backup.tar'), NO_BACKUP],
  ['another archive', shell('echo > song && tar -cf backup.tar song'), `${FOREIGN}'song'`],
  [
    'a link in the place of a file',
    shell('ln -s /etc/passwd access.db && tar -cf backup.tar access.db'),
    `${FOREIGN}'access.db'`,
  ],
  [
    'a path outside',
    shell('cp backup.tar x.db && tar -P -cf backup.tar ../*/x.db'),
    /^ is not a backup of proxylist: it holds '\.\.\//,
  ],
  [
    'a backup without keys',
    shell('mkdir u && tar -xpf backup.tar -C u && tar -cf backup.tar -C u proxies.db'),
    MISSING,
  ],
  ['a flipped bit in the list', repacked(PROXY_FILE, flipLast), ' is damaged: proxies.db'],
  ['damaged keys', repacked(ACCESS_FILE, damaged), ' is damaged: access.db'],
  [
    'a foreign database',
    repacked(ACCESS_FILE, songs),
    ': access.db is a database of another program',
  ],
  ['a file that is not a database', repacked(PROXY_FILE, noDatabase), ' is damaged: proxies.db'],
  [
    'a database of a newer version',
    repacked(ACCESS_FILE, newer),
    /^: access\.db was written by a newer proxylist \(schema 99, /,
  ],
]

describe('restore refuses, and changes no data,', () => {
  test.each(REFUSALS)('%s', async (_, change, says) => {
    const cwd = temporaryDirectory()
    cpSync(await archived(), join(cwd, 'backup.tar'))
    renameSync(dataDirectory(OLD), join(cwd, 'data'))
    const before = contentOf(join(cwd, 'data'))
    change(cwd)
    for (const name of ['data', 'fresh']) {
      const failure = await restore({
        ...{ dir: join(cwd, name), file: 'FILE', force: true, nowMs: T0, progress() {} },
        ...{ bytes: Bun.file(join(cwd, 'backup.tar')).stream() },
        signal: new AbortController().signal,
      }).then(
        () => 'it was restored',
        (error: Error) => error.message,
      )
      expect(failure).toStartWith('FILE')
      if (typeof says === 'string') expect(failure).toBe(`FILE${says}`)
      else expect(failure.slice('FILE'.length)).toMatch(says)
    }
    expect(contentOf(join(cwd, 'data'))).toEqual(before)
    expect(existsSync(join(cwd, 'fresh'))).toBeFalse()
  })

  test('a missing file, a directory, or no input, in one line', async () => {
    const cwd = await scene()
    mkdirSync(join(cwd, 'folder'))
    for (const [file, says] of [
      ['none.tar', 'cannot read none.tar: no such file or directory'],
      ['folder', 'cannot read folder: it is a directory, not a file'],
      ['/dev/null', '/dev/null is not a backup of proxylist'],
    ] as const) {
      const stderr = `proxylist: ${says}\n`
      await runStep(cwd, { args: ['restore', file, '--force'], exitCode: 1, stderr })
      await runStep(cwd, { args: ['restore', file, '--data', 'fresh'], exitCode: 1, stderr })
    }
    expect(readdirSync(cwd).sort()).toEqual(['backup.tar', 'data', 'folder'])
    expect(await listed(cwd)).toBe('192.0.2.1:80\n')
  })
})

describe('a restore that ends early', () => {
  test.each([0, 1, 2, 3, 4, 6, 8, 12])(
    'by a kill after %d ms of its last step leaves whole databases, and can run again',
    async afterMs => {
      const cwd = await scene()
      const data = join(cwd, 'data')
      const args = ['restore', 'backup.tar', '--force', '--data', data]
      const child = Bun.spawn([...program(), ...args], { cwd, env: RUNNER_FREE, stderr: 'ignore' })
      const isKept = (): boolean => readdirSync(data).some(name => name.startsWith('before-'))
      while (child.exitCode === null && !isKept()) await Bun.sleep(0)
      await Bun.sleep(afterMs)
      child.kill('SIGKILL')
      await child.exited
      expect(['192.0.2.1:80\n', '192.0.2.9:80\n']).toContain(await listed(cwd))
      await runStep(cwd, { args: ['keys', 'list'], stdout: / active / })
      await forced(cwd)
      expect(await listed(cwd)).toBe('192.0.2.9:80\n')
    },
  )

  test('by a signal while it reads leaves all data unchanged', async () => {
    const cwd = await scene()
    const dir = join(cwd, 'data')
    const before = contentOf(dir)
    const controller = new AbortController()
    const order = { dir, file: 'backup.tar', force: true, nowMs: T0, signal: controller.signal }
    const bytes = Bun.file(join(cwd, 'backup.tar')).stream()
    const progress = (): void => controller.abort(new Error('enough'))
    const failure = await restore({ ...order, bytes, progress }).catch(String)
    expect(failure).toBe('Error: enough')
    expect(contentOf(dir)).toEqual(before)
  })
})
