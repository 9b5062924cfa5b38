/**
 * Moves and backups of a database on the command line (contract I5): what they print, and that the
 * commands go on with what was moved.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from '../support/answer.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { holdings, listed } from '../support/moves.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { take } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const ROWS = [
  { ip: '192.0.2.1:80', type: 'http', city: 'Köln', city_en: 'Cologne', country: 'DE' },
  { ip: '192.0.2.2:80', type: 'socks5', ip_out: '2001:db8::1' },
]
const shown = (url: string): string => url.replace(/^.*@/, '')

/** A password as URLs of operators have one; the server of tests asks for none. */
const withPassword = (url: string): string => url.replace('postgres@', 'postgres:s3cr3t-word@')

test('needs a direction: one of --database and --from-database', async () => {
  const cwd = temporaryDirectory()
  const URL = 'postgres://user:s3cr3t-word@127.0.0.1:1/none'
  await take(cwd, {
    args: ['move'],
    exitCode: 2,
    stderr:
      /^proxylist: name where to move: into a database with --database, or back .*--from-database\n$/,
  })
  const both = await take(cwd, {
    args: ['move', '--from-database', URL],
    env: { PROXYLIST_DATABASE: URL },
    exitCode: 2,
    stderr:
      /^proxylist: --database and --from-database move in opposite directions; .*PROXYLIST_DATABASE\n$/,
  })
  expect(both.stderr).not.toContain('s3cr3t')
  const wrong = await take(cwd, {
    args: ['move', '--from-database', 'mysql://user:s3cr3t-word@host/db'],
    exitCode: 2,
    stderr: /^proxylist: .*from-database.* postgres:\/\/USER/,
  })
  expect(wrong.stderr).not.toContain('s3cr3t')
  await take(cwd, {
    args: ['restore', 'a.tar', '--force', '--database', URL],
    exitCode: 2,
    stderr:
      /^proxylist: --force replaces the data of a data directory; a database has to be empty\n$/,
  })
})

test('a database that cannot be reached is named, without its password; nothing is made', async () => {
  const [dir, back] = [dataDirectory(ROWS), join(temporaryDirectory(), 'back')]
  const URL = 'postgres://user:s3cr3t-word@127.0.0.1:1/none'
  for (const args of [
    ['move', '--data', dir, '--database', URL],
    ['move', '--data', back, '--from-database', URL],
    ['backup', join(back, '../a.tar'), '--database', URL],
  ]) {
    const { exitCode, stderr } = await proxylist(args)
    expect([exitCode, stderr]).toEqual([
      1,
      'proxylist: the database 127.0.0.1:1/none cannot be used: the connection was refused, or there is no such host\n',
    ])
  }
  expect([existsSync(back), existsSync(join(back, '../a.tar'))]).toEqual([false, false])
})

describe.skipIf(!HAS_POSTGRES)('on the command line', () => {
  test('a move says what it moved, and commands go on with it there and back', async () => {
    const cwd = temporaryDirectory()
    const dir = dataDirectory(ROWS)
    const [before, url] = [await listed(dir), withPassword(await emptyDatabase())]
    const keys = async (...where: string[]): Promise<string> =>
      (await proxylist(['keys', 'list', '--json', ...where])).stdout
    const held = await keys('--data', dir)
    await take(cwd, {
      args: ['move', '--data', dir],
      env: { PROXYLIST_DATABASE: url },
      stderr:
        'moved 1 key, 5 plans, 0 subjects, 2 proxies\n' +
        `${dir} is now a copy of ${shown(url)}: serve with --database goes on with it\n`,
    })
    expect(await keys('--database', url)).toBe(held)
    const COPY =
      /^proxylist: \S+access\.db is a copy of a shared database: name that with --database/
    writeFileSync(join(cwd, 'a.tar'), '') // that there is one is looked at first
    for (const args of [
      ['keys', 'list'],
      ['backup', 'a.tar'],
      ['restore', 'a.tar'],
      ['restore', 'a.tar', '--force'],
    ]) {
      const { exitCode, stderr } = await proxylist([...args, '--data', dir], { cwd })
      expect([args, exitCode, COPY.test(stderr) || stderr]).toEqual([args, 1, true])
    }
    const { stdout } = await take(cwd, {
      args: ['move', '--json', '--data', 'back', '--from-database', url],
      stdout: /./,
    })
    expect(JSON.parse(stdout)).toEqual({
      ...{ keys: 1, plans: 5, subjects: 0, proxies: 2, database: shown(url) },
    })
    expect(await keys('--data', join(cwd, 'back'))).toBe(held)
    await take(cwd, { args: ['doctor', '--data', 'back'], stdout: /^list +ok /m })
    expect(await listed(join(cwd, 'back'))).toEqual(before)
  })

  test('an archive of one machine is restored for many, and one of many for one machine', async () => {
    const cwd = temporaryDirectory()
    const dir = dataDirectory(ROWS)
    const [before, url] = [await listed(dir), withPassword(await emptyDatabase())]
    const env = { PROXYLIST_DATABASE: url }
    const contents = 'access.db (1 keys, 5 plans) and proxies.db (2 proxies)'
    await take(cwd, { args: ['backup', 'one.tar', '--data', dir], stderr: /^one\.tar: / })
    await take(cwd, {
      args: ['restore', 'one.tar'],
      env,
      stderr: `${shown(url)}: restored ${contents} from one.tar\n`,
    })
    const { stdout } = await take(cwd, { args: ['backup', 'many.tar', '--json'], env, stdout: /./ })
    expect(JSON.parse(stdout)).toMatchObject({ file: 'many.tar', keys: 1, plans: 5, proxies: 2 })
    await take(cwd, {
      args: ['restore', 'many.tar', '--data', 'back'],
      stderr: `back: restored ${contents} from many.tar\n`,
    })
    expect(await listed(join(cwd, 'back'))).toEqual(before)
    await take(cwd, { args: ['keys', 'add', '--plan', 'free'], env, stdout: /^pl_/, stderr: /./ })
    await take(cwd, {
      args: ['restore', 'many.tar'],
      env,
      exitCode: 1,
      stderr:
        /^proxylist: the database \S+ is not empty, it holds 2 keys, 1 plan, 2 proxies: give one/,
    })
    expect(readdirSync(cwd).sort()).toEqual(['back', 'many.tar', 'one.tar'])
    const { query, close } = connectTo(url)
    await query(`update proxylist.feed_lines set lines = '/mine paused'`)
    await close()
    await take(cwd, {
      args: ['backup', 'fed.tar'],
      env,
      stderr:
        /\nthe feeds of the console are not in it: a restore leaves the feeds of the console as they are\n$/,
    })
    expect((await holdings(url)).proxies).toBe(2)
  })
})

describe.skipIf(!HAS_POSTGRES)('after a move', () => {
  test('serve goes on with the directory that was moved, at once, there and back; no quota is given back', async () => {
    const limits = { burst: { requests: 3, seconds: 3600 } }
    const [dir, url] = [dataDirectory(ROWS, limits), await emptyDatabase()]
    const { query, close } = connectTo(url)
    const served = async (requests: number, ...args: string[]): Promise<string[]> => {
      const server = await startChild(dir, {}, args)
      await until(async () => (await fetch(`${server.url}/readyz`)).ok)
      const answers: string[] = []
      for (let n = 0; n < requests; n += 1) answers.push((await ask(server)).slice(0, 3))
      await server.stop()
      return answers
    }
    expect(await served(1)).toEqual(['200'])
    await take(dir, {
      args: ['move', '--data', dir, '--database', url],
      stderr: /1 subject, 2 proxies/,
    })
    const { ino } = statSync(join(dir, 'proxies.db'))
    await query(
      `create or replace function proxylist.now_ms() returns bigint language sql as 'select ${T0}'`,
    )
    expect(await served(1, '--database', url)).toEqual(['200'])
    expect(statSync(join(dir, 'proxies.db')).ino).toBe(ino) // the copy was not made again
    await take(dir, {
      args: ['move', '--data', dir, '--from-database', url],
      stderr: /^moved 1 key, 5 plans, 1 subject, 2 proxies\n/,
    })
    expect(await served(2)).toEqual(['200', '429'])
    await close()
  })
})
