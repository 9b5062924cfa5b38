/**
 * A backup holds both databases, each as of one moment while others read and write, in one file that appears
 * complete or not at all, and restores to the same service.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { backUp } from '../../src/sqlite/backup.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ASK, dataDirectory, T0 } from '../support/fixtures.ts'
import { RUNNER_FREE } from '../support/program.ts'
import { SERVICES, type Service } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runStep } from '../support/transcript.ts'

afterAll(cleanUp)

function shell(commands: string, cwd: string): void {
  const { exitCode, stderr } = Bun.spawnSync(['sh', '-ec', commands], { cwd, env: RUNNER_FREE })
  // tar warns when the clock of the tests is ahead of the real one.
  expect({ exitCode, stderr: stderr.toString() }).toMatchObject({ exitCode: 0 })
}

/** A fresh directory with `backup.tar` of a data directory. */
async function backupOf(dir: string): Promise<string> {
  const cwd = temporaryDirectory()
  await runStep(cwd, { args: ['backup', 'backup.tar', '--data', dir], stderr: /^backup\.tar: / })
  return cwd
}

/** Unpacks an archive of `backupOf`; gives the data directory. */
function restored(cwd: string): string {
  mkdirSync(join(cwd, 'data'), { mode: 0o700 })
  shell('tar -xpf backup.tar -C data', cwd)
  return join(cwd, 'data')
}

const ROWS = [
  { ip: '192.0.2.1:80', type: 'http', city: 'Омск', country: 'ru' },
  { ip: '192.0.2.2:1080', type: 'socks5', ping: 0.2, works: 97 },
]

describe('a backup', () => {
  test('reports its content, as a sentence and as JSON', async () => {
    const dir = dataDirectory(ROWS)
    const cwd = temporaryDirectory()
    await runStep(cwd, {
      args: ['backup', 'a.tar', '--data', dir],
      stderr: /^a\.tar: \d+ kB with access\.db \(1 key, 5 plans\) and proxies\.db \(2 proxies\)\n$/,
    })
    const { stdout } = await runStep(cwd, {
      args: ['backup', 'b.tar', '--json', '--data', dir],
      stdout: /./,
    })
    const { size: bytes } = statSync(join(cwd, 'b.tar'))
    const files = [ACCESS_FILE, PROXY_FILE]
    const counts = { keys: 1, plans: 5, proxies: 2 }
    expect(JSON.parse(stdout)).toEqual({ file: 'b.tar', files, bytes, ...counts })
  })

  test('is one file for its owner only, with the same content and no file beside it', async () => {
    const dir = dataDirectory(ROWS)
    const before = readdirSync(dir)
    const cwd = await backupOf(dir)
    expect([readdirSync(dir), readdirSync(cwd)]).toEqual([before, ['backup.tar']])
    expect(statSync(join(cwd, 'backup.tar')).mode & 0o777).toBe(0o600)
    const data = restored(cwd)
    expect(readdirSync(data).sort()).toEqual([ACCESS_FILE, PROXY_FILE])
    for (const file of readdirSync(data)) {
      expect(statSync(join(data, file)).mode & 0o777).toBe(0o600)
      const db = new Database(join(data, file), { readonly: true })
      expect(db.query('pragma integrity_check').values()).toEqual([['ok']])
      db.close()
    }
  })
})

describe('a restored copy', () => {
  const limits = { burst: { requests: 4, seconds: 3600 }, daily: 100, subnets: 50 }
  const queries = ['', '&get=json', '&type=socks5', '&get=json&wrap=1&city=омск']
  /** What a client sees of a response, without what differs between any two. */
  const seen = async (service: Service, path: string) => {
    const { status, headers, text } = await service.request(path)
    // The last one depends on how often a server was asked.
    for (const name of ['x-request-id', 'date', 'etag']) headers.delete(name)
    return [status, text, Object.fromEntries([...headers])]
  }

  test.each(SERVICES)(
    'gives the same responses to the same keys, with the same quota left, %s',
    async (_, start) => {
      const dir = dataDirectory(ROWS, limits)
      const service = await start(dir, {})
      await service.request(ASK)
      await service.request(ASK)
      const copy = await start(restored(await backupOf(dir)), {})
      // A list that the server has not seen before is checked before it is served.
      while ((await copy.request('/readyz')).status !== 200) await Bun.sleep(10)
      for (const query of queries) {
        expect(await seen(copy, ASK + query)).toEqual(await seen(service, ASK + query))
      }
      expect((await seen(copy, ASK))[0]).toBe(429) // two before the backup, two after
      expect(await seen(copy, '/api?key=nobody')).toEqual(await seen(service, '/api?key=nobody'))
      await service.stop()
      await copy.stop()
    },
  )
})

describe('while others use the data', () => {
  test('a backup does not wait for writers, and holds only what is committed', async () => {
    const dir = dataDirectory(ROWS)
    const writers = [
      [ACCESS_FILE, "insert into plans (name, enabled) values ('half', 1)"],
      [PROXY_FILE, 'delete from proxies'],
    ].map(([file = '', sql = '']) => {
      const db = new Database(join(dir, file), { create: false, readwrite: true })
      db.run('begin immediate')
      db.run(sql)
      return db
    })
    const data = restored(await backupOf(dir))
    for (const db of writers) db.run('rollback')
    for (const db of writers) db.close()
    await runStep(data, {
      args: ['list', 'type_prefix=1', '--data', data],
      stdout: /^socks5.*\nhttp.*\n$/,
    })
    const plans = await runStep(data, { args: ['plans', 'list', '--data', data], stdout: /./ })
    expect(plans.stdout).not.toContain('half')
  })
})

describe('a backup fails', () => {
  const fails = async (args: readonly string[], stderr: string | RegExp) => {
    const cwd = temporaryDirectory()
    await runStep(cwd, { args: ['backup', ...args], exitCode: 1, stderr })
    expect(readdirSync(cwd)).toEqual([])
  }

  test('because FILE exists, and does not change it', async () => {
    const cwd = temporaryDirectory()
    writeFileSync(join(cwd, 'a.tar'), 'precious')
    const step = { exitCode: 1, stderr: 'proxylist: a.tar exists already; choose another name\n' }
    await runStep(cwd, { args: ['backup', 'a.tar', '--data', dataDirectory()], ...step })
    expect(readFileSync(join(cwd, 'a.tar'), 'utf8')).toBe('precious')
    expect(readdirSync(cwd)).toEqual(['a.tar'])
  })

  const long = `${'x'.repeat(255)}.tar`
  test.each([
    ['no/a.tar', 'no such file or directory'],
    ['/dev/null/a.tar', 'a part of its path is a file'],
    [long, 'name too long'],
  ])('because it cannot create %s, without the code of the error', (file, reason) =>
    fails([file, '--data', dataDirectory()], `proxylist: cannot write ${file}: ${reason}\n`),
  )

  test.each([ACCESS_FILE, PROXY_FILE])('because %s is damaged, and names it', async name => {
    const dir = dataDirectory()
    const file = join(dir, name)
    writeFileSync(file, readFileSync(file).fill(255, 4096))
    await fails(['a.tar', '--data', dir], new RegExp(`^proxylist: ${file} is damaged`))
  })
})

describe('a backup reports its progress, and can be aborted', () => {
  const order = (progress: (share: number) => void, signal = new AbortController().signal) => {
    const target = temporaryDirectory()
    const file = join(target, 'a.tar')
    const to = { kind: 'file', file } as const
    return { target, order: { dir: dataDirectory(ROWS), to, nowMs: T0, signal, progress } }
  }

  test.each([
    ['before it begins', 'before'],
    ['while the databases are copied', 'copying'],
    ['while the archive is written', 'writing'],
  ])('%s: it leaves no file', async (_, when) => {
    const controller = new AbortController()
    const stop = (): void => controller.abort(new Error('enough'))
    if (when === 'before') stop()
    const written = (share: number) => when === 'writing' && share > 0.5 && stop()
    const { target, order: ordered } = order(written, controller.signal)
    const backup = backUp(ordered)
    if (when === 'copying') stop()
    expect(await backup.catch(String)).toBe('Error: enough')
    expect(readdirSync(target)).toEqual([])
  })
})
