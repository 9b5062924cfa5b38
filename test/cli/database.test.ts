/**
 * Commands with `--database`: they do there what they do in a data directory, need none, and say in one
 * sentence what is wrong with a database.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { SQL } from 'bun'
import { writeCopyOf } from '../../src/sqlite/copy.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { addList } from '../support/fixtures.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES, startPostgres } from '../support/postgres.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import {
  directoryOf,
  runCommand,
  runStep,
  type Step,
  type Transcript,
} from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

let database: Promise<string> | null = null

/** Runs statements in the database of these tests. */
async function run<R>(statements: string): Promise<R[]> {
  database ??= emptyDatabase()
  const sql = new SQL({ url: await database, max: 1 })
  try {
    return await sql.unsafe(statements)
  } finally {
    await sql.close()
  }
}

/** The URL of a database that is as empty as a new one. */
async function freshDatabase(): Promise<string> {
  await run('set client_min_messages = error; drop schema if exists proxylist cascade')
  return (await database) ?? ''
}

/** A server that accepts connections and never says a word, as a database that hangs does; `connected` resolves at the first. */
async function startSilentServer() {
  const { promise: connected, resolve } = Promise.withResolvers<void>()
  const listening = Promise.withResolvers<number>()
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}) // the client may go first
    resolve()
  }).listen(0, '127.0.0.1', () => {
    const address = server.address()
    listening.resolve(typeof address === 'object' && address ? address.port : 0)
  })
  onCleanUp(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: await listening.promise, connected }
}

/** Host, port and name: what is said of a database. */
const shown = (url: string): string => url.replace(/^.*@/, '')

const NO_NODE = 'proxylist: no node is running that could import: start one with proxylist serve\n'

const FILES = { 'a.txt': 'http://192.0.2.1:80\nsocks5://192.0.2.2:80\n' }

/** A directory and a database, both empty; `step` takes a command line and checks what it says. */
async function start(files: Transcript['files'] = FILES) {
  const cwd = directoryOf(files)
  const url = await freshDatabase()
  return {
    cwd,
    url,
    step: (line: string, expected: Partial<Step> = {}) =>
      runStep(cwd, { args: line.split(' '), env: { PROXYLIST_DATABASE: url }, ...expected }),
  }
}

/** A line of each command that only reads, or changes what is there. */
const NEEDY = [
  ...['keys list', 'keys show k', 'keys set k --label x', 'keys rotate k', 'keys reset k'],
  ...['keys revoke k', 'keys remove k', 'keys export', 'plans list', 'plans remove x'],
  'feeds',
]

describe.skipIf(!HAS_POSTGRES)('a machine without a data directory', () => {
  test('imports and fetches through a node, and makes no directory', async () => {
    const { cwd, url, step } = await start({ ...FILES, data: 'a file' }) // in its place
    await step('import a.txt', { exitCode: 1, stderr: NO_NODE })
    const dir = temporaryDirectory()
    const node = await startChild(dir, {}, ['--database', url])
    await until(async () => (await node.request('/readyz')).status === 200)
    await step('import a.txt', { stderr: /^read 2, added 2, / })
    await step('import a.txt --replace --json', { stdout: /"unchanged":2/ })
    await step('list', {
      exitCode: 1,
      stderr: /^proxylist: there is no copy of the list in \.\/data: /,
    })
    const copy = `--data ${dir}`
    const listed = 'http://192.0.2.1:80\nsocks5://192.0.2.2:80\n'
    await step(`list type_prefix=1 ${copy}`, { stdout: listed })
    const stats = await step(`stats --json ${copy}`, { stdout: /./ })
    expect(JSON.parse(stats.stdout).list.total).toBe(2)
    await step('feeds', { stderr: /^no feed was fetched into [\d.]+:\d+\/\S+ yet\n$/ })
    await step('fetch --feed a.txt', { stdout: /\na\.txt +2026-11-20T12:00:00/ })
    const failed = await runCommand(['fetch', '--feed', 'http://127.0.0.1:1/x'], {
      cwd,
      env: { PROXYLIST_DATABASE: url },
    })
    expect(failed.stdout).toContain('refuses connections')
    await step('feeds', { stdout: /\nhttp:[^\n]*never/ })
    const places = mmdb({ '192.0.2.0/24': cityRecord('DE', 'Berlin', 'Берлин') })
    writeFileSync(join(cwd, 'city.mmdb'), places)
    await step('import a.txt --geoip city.mmdb', { stderr: /updated 2/ })
    await step(`list city=berlin&lang=en ${copy}`, { stdout: '192.0.2.1:80\n192.0.2.2:80\n' })
    await node.stop()
    expect(readdirSync(cwd).toSorted()).toEqual([...Object.keys(FILES), 'city.mmdb', 'data'])
  })

  test('gets the command that fills an empty database', async () => {
    const { step, url } = await start()
    for (const line of NEEDY) {
      const origin =
        line === 'feeds'
          ? 'fill it with: proxylist import FILE'
          : 'create a key with: proxylist keys add'
      await step(line, {
        exitCode: 1,
        stderr: `proxylist: the database ${shown(url)} holds nothing of proxylist yet; ${origin}\n`,
      })
    }
    expect(await run(`select from pg_namespace where nspname = 'proxylist'`)).toHaveLength(0)
  })
})

test.skipIf(!HAS_POSTGRES)('keys and plans live in a database', async () => {
  const { step } = await start()
  const made = await step('keys add --label first --expires 30d', { stdout: /^pl_/, stderr: /./ })
  const [, id = ''] = /key ([a-z0-9]{8})/.exec(made.stderr) ?? []
  await step(`keys set ${id} --plan classic`, { stderr: /^key \w+: plan classic, label first, / })
  await step(`keys rotate ${id} --overlap 1h`, {
    stdout: /^pl_/,
    stderr: /the old one is valid until 2026-11-20T13:00:00/,
  })
  await step(`keys reset ${id}`, { stderr: /^reset / })
  await step(`keys show ${id}`, { stdout: /label +first\n(?:.*\n)*burst +2 +2 +5 s/ })
  const { stdout: exported } = await step('keys export', { stdout: /^\{/ })
  await step('keys import -', { stdin: exported, exitCode: 1, stderr: /this key exists, as / })
  const other = await start()
  await other.step('keys import -', { stdin: exported, stderr: '1 key is imported\n' })
  await other.step('keys export', { stdout: exported })
  await other.step(`keys revoke ${id}`, { stderr: `key ${id} is revoked\n` })
  await other.step(`keys remove ${id}`, { stderr: `key ${id} is removed\n` })
  await other.step('plans set p --daily 9', { stderr: /^plan p: .* daily 9,/ })
  await other.step('plans remove p', { stderr: 'plan p is removed\n' })
  await other.step('keys list --json', { stdout: '[]\n' })
  expect(readdirSync(other.cwd)).toEqual(Object.keys(FILES))
})

test.skipIf(!HAS_POSTGRES)(
  'two machines may use a new database first at the same time',
  async () => {
    const { cwd, url, step } = await start()
    const env = { PROXYLIST_DATABASE: url }
    const add = () => proxylist(['keys', 'add', '--key', 'the-same-key-0123'], { cwd, env })
    const added = await Promise.all([add(), add()])
    expect(added.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 1])
    const keys = await step('keys list --json', { stdout: /./ })
    expect(JSON.parse(keys.stdout)).toHaveLength(1)
    expect(added.map(({ stderr }) => stderr).join()).toContain(JSON.parse(keys.stdout)[0].id)
  },
)

/** Each way in which a command opens a database. */
const KINDS = ['keys list', 'keys add', 'import a.txt', 'feeds', 'fetch --feed a.txt']

describe.skipIf(!HAS_POSTGRES)('one message names a database', () => {
  const failing = (line: string, url: string, why: RegExp) =>
    runStep(directoryOf(FILES), {
      args: [...line.split(' '), '--database-timeout', '300ms'],
      env: { PROXYLIST_DATABASE: url },
      exitCode: 1,
      stderr: new RegExp(`^proxylist: the database ${shown(url)} ${why.source}\\n$`),
    })

  test('where nothing listens', async () => {
    const why = /cannot be used: the connection was refused, or there is no such host/
    const url = 'postgres://who:secret@127.0.0.1:1/x'
    await Promise.all(KINDS.map(line => failing(line, url, why)))
  })

  test('that hangs', async () => {
    const { port } = await startSilentServer()
    const url = `postgres://who:secret@127.0.0.1:${port}/x`
    const why = /cannot be used: it does not answer/
    await Promise.all(KINDS.slice(1, 4).map(line => failing(line, url, why)))
  })

  test('without this user or this name', async () => {
    const url = new URL(await freshDatabase())
    url.username = 'nobody'
    await failing(
      'keys list',
      url.href,
      /cannot be used: it (?:refuses this user or password|does not let this user log in, or not from here, or only with TLS \(pg_hba\.conf\))/,
    )
    url.username = 'postgres'
    url.pathname = '/none'
    await failing('keys list', url.href, /cannot be used: there is no database of this name/)
  })

  test('of an earlier or newer program, which commands that read do not change', async () => {
    const { step, url } = await start()
    await step('plans set x', { stderr: /^plan x/ })
    await run('update proxylist.installation set schema = 0')
    await step('keys list', {
      exitCode: 1,
      stderr: `proxylist: the database ${shown(url)} was written by an earlier proxylist; serve, or a command that changes something, upgrades it for all machines\n`,
    })
    await run('update proxylist.installation set schema = 99')
    for (const line of ['keys list', 'keys add', 'import a.txt']) {
      await step(line, {
        exitCode: 1,
        stderr: /newer proxylist \(schema 99, this one knows 3\); use that version\n$/,
      })
    }
  })
})

describe.skipIf(!HAS_POSTGRES)('while another machine changes keys', () => {
  /** The commands that wait for the lock. */
  const waiting = () =>
    run(
      `select from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'proxylist command'`,
    )

  /** Holds the lock of all changes, as one does that is under way, until `work` is over. */
  async function whileLocked(url: string, work: () => Promise<void>): Promise<void> {
    const sql = new SQL({ url, max: 1 })
    await sql.begin(async tx => {
      await tx.unsafe('update proxylist.installation set keys_version = keys_version')
      await work()
    })
    await sql.close()
  }

  test('a change waits for --database-timeout, and then changes nothing', async () => {
    const { step, url } = await start()
    await step('plans set x', { stderr: /./ })
    await whileLocked(url, async () => {
      // The server gives up first, unless the machine is busy.
      const waited =
        / (?:cannot be used: it took too long; the change was not made|does not answer; the change may be made, .*)\n$/
      await step('plans set y --database-timeout 300ms', { exitCode: 1, stderr: waited })
      while ((await waiting()).length > 0) await Bun.sleep(20)
    })
    await step('plans remove y', { exitCode: 1, stderr: /there is no plan of this name/ })
  })

  test('Ctrl-C ends a waiting command, which says that its change may be made', async () => {
    const { step, url } = await start()
    await step('plans set x', { stderr: /./ })
    await whileLocked(url, async () => {
      const env = { PROXYLIST_DATABASE: url, PROXYLIST_DATABASE_TIMEOUT: '10m' }
      await using running = startProgram(['plans', 'set', 'y'], env)
      while ((await waiting()).length === 0) await Bun.sleep(20)
      running.kill('SIGINT')
      expect(await running.ended).toBe(130)
      expect(running.written.stderr).toBe(
        'proxylist: interrupted; the database has made its change or not, but no part of it\n',
      )
    })
    await step('plans remove y', { exitCode: 1, stderr: /there is no plan of this name/ })
  })

  test('Ctrl-C ends a command that waits for a database that hangs', async () => {
    const { port, connected } = await startSilentServer()
    await using running = startProgram(['keys', 'list'], {
      PROXYLIST_DATABASE: `postgres://who:secret@127.0.0.1:${port}/x`,
      PROXYLIST_DATABASE_TIMEOUT: '10m',
    })
    await connected
    running.kill('SIGINT')
    expect(await running.ended).toBe(130)
  })
})

test.skipIf(!HAS_POSTGRES)(
  'keys add prints no key while the standby does not confirm it, and says to run it again',
  async () => {
    const server = await startPostgres()
    const env = { PROXYLIST_DATABASE: server.url('postgres') }
    await runStep(directoryOf(), { args: 'plans set x', env, stderr: /./ })
    const { query, close } = connectTo(server.url('postgres'))
    await query("alter system set synchronous_standby_names = 'away'")
    await query('select pg_reload_conf()')
    const add = () => runCommand(['keys', 'add', '--database-timeout', '3s'], { env })
    let failed = await add()
    while (failed.exitCode === 0) failed = await add() // the server has not read its settings yet
    expect([failed.exitCode, failed.stdout]).toEqual([1, ''])
    expect(failed.stderr).toEndWith(
      'the change may be made, or be once the database answers: run it again then\n',
    )
    await close()
  },
)

describe.skipIf(!HAS_POSTGRES)('the data directory of a node', () => {
  /** Makes the list of `dir` a copy of a database. */
  function makeCopy(dir: string): void {
    addList(dir, [{ ip: '203.0.113.9:80', type: 'http' }])
    using list = openList(dir)
    writeCopyOf(list.db, { database: 'some', version: 7, mark: 'mark' })
  }

  test('is refused without --database, by each command', async () => {
    const cwd = directoryOf(FILES)
    makeCopy(join(cwd, 'data'))
    const says =
      /^proxylist: data\/proxies\.db is a copy of a shared database: name that with --database, or give another --data\n$/
    for (const line of [...KINDS, 'list', 'stats', 'keys revoke k', 'plans list']) {
      await runStep(cwd, { args: line.split(' '), exitCode: 1, stderr: says })
    }
  })

  test('is read by list while the database is away', async () => {
    const cwd = directoryOf(FILES)
    const url = ['--database', 'postgres://127.0.0.1:1/proxylist']
    const args = ['list', 'time=9999999999', ...url]
    makeCopy(join(cwd, 'data'))
    await runStep(cwd, { args, stdout: '203.0.113.9:80\n' })
  })
})
