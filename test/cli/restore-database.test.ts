/** `backup` and `restore` between a data directory and a shared database (contract I5), on the command line. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ask } from '../support/answer.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { connectTo, emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand, runStep } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const ROWS = [
  { ip: '192.0.2.1:80', type: 'http', city: 'Köln', city_en: 'Cologne', country: 'DE' },
  { ip: '192.0.2.2:80', type: 'socks5', ip_out: '2001:db8::1' },
]
const shown = (url: string): string => url.replace(/^.*@/, '')

/** A password as URLs of operators have one; the server of tests asks for none. */
const withPassword = (url: string): string => url.replace('postgres@', 'postgres:s3cr3t-word@')

const UNREACHABLE = 'postgres://user:s3cr3t-word@127.0.0.1:1/none'

test('backup and restore name a database that does not answer, without its password', async () => {
  const cwd = temporaryDirectory()
  await runStep(cwd, { args: ['backup', 'one.tar', '--data', dataDirectory(ROWS)], stderr: /./ })
  for (const args of [
    ['backup', 'a.tar'],
    ['restore', 'one.tar'],
  ]) {
    const { exitCode, stderr } = await runCommand([...args, '--database', UNREACHABLE], { cwd })
    expect([exitCode, stderr]).toEqual([
      1,
      'proxylist: the database 127.0.0.1:1/none cannot be used: the connection was refused, or there is no such host\n',
    ])
  }
  expect(existsSync(join(cwd, 'a.tar'))).toBeFalse()
})

describe.skipIf(!HAS_POSTGRES)('a backup', () => {
  test('moves keys and their usage between one machine and many', async () => {
    const cwd = temporaryDirectory()
    const limits = { burst: { requests: 3, seconds: 3600 } }
    const [dir, url] = [dataDirectory(ROWS, limits), withPassword(await emptyDatabase())]
    const env = { PROXYLIST_DATABASE: url }
    const { query, close } = connectTo(url)
    const served = async (data: string, requests: number, work = async () => {}) => {
      const args = data === 'node' ? ['--database', url] : []
      const server = await startChild(resolve(cwd, data), {}, args)
      await until(async () => (await fetch(`${server.url}/readyz`)).ok)
      const answers: string[] = []
      for (let n = 0; n < requests; n += 1) answers.push((await ask(server)).slice(0, 3))
      await work()
      await server.stop()
      return answers
    }
    expect(await served(dir, 1)).toEqual(['200'])
    const contents = 'access.db (1 key, 5 plans) and proxies.db (2 proxies)'
    await runStep(cwd, { args: ['backup', 'one.tar', '--data', dir], stderr: /^one\.tar: / })
    const refused = await runCommand(['backup', 'none.tar', '--data', dir], { cwd, env })
    expect([refused.exitCode, existsSync(join(cwd, 'none.tar'))]).toEqual([1, false])
    await runStep(cwd, {
      args: ['restore', 'one.tar'],
      env,
      stderr: `${shown(url)}: restored ${contents} from one.tar; the first node imports the list\n`,
    })
    await runStep(cwd, {
      args: ['restore', 'one.tar'],
      ...{ env, exitCode: 1 },
      stderr: /^proxylist: the database \S+ is not empty: give an empty one/,
    })
    await query(
      `create or replace function proxylist.now_ms() returns bigint language sql as 'select ${T0}'`,
    )
    const backUpNode = () =>
      runStep(cwd, {
        args: ['backup', 'many.tar', '--data', 'node'],
        env,
        stderr:
          /^many\.tar: \d+ kB with access\.db \(1 key, 5 plans\) and proxies\.db \(2 proxies\)\n$/,
      })
    expect(await served('node', 1, async () => void (await backUpNode()))).toEqual(['200'])
    await runStep(cwd, {
      args: ['restore', 'many.tar', '--data', 'back'],
      stderr: `back: restored ${contents} from many.tar\n`,
    })
    expect(await served('back', 2)).toEqual(['200', '429'])
    const listed = async (data: string): Promise<string> =>
      (await runStep(cwd, { args: ['list', 'get=json', '--data', data], stdout: /./ })).stdout
    expect(await listed('back')).toBe(await listed(dir))
    await close()
  })
})
