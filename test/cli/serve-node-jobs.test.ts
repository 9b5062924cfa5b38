/** What one node of several does for all (contract I1), and the console of a node. */
import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { type Serving, startJobs } from '../../src/cli/commands/serve.ts'
import { makeToken } from '../../src/console.ts'
import { T0 } from '../support/fixtures.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const KEY = 'pl_canaryjobscanaryjobscanaryjobsca'

async function run(url: string, ...args: string[]): Promise<void> {
  const { exitCode, stderr } = await proxylist(args, { env: { PROXYLIST_DATABASE: url } })
  expect([exitCode, exitCode === 0 ? '' : stderr]).toEqual([0, ''])
}

test.skipIf(!HAS_POSTGRES)(
  'feeds are fetched by one node, and by another one when that is killed',
  async () => {
    const url = await emptyDatabase()
    await run(url, 'plans', 'set', 'free', '--burst', 'unlimited', '--daily', 'unlimited')
    await run(url, 'keys', 'add', '--key', KEY, '--plan', 'free')
    const feed = join(temporaryDirectory(), 'feed.txt')
    writeFileSync(feed, 'http://192.0.2.1:80\n')
    const more = ['--database', url, '--log', 'off', '--feed', `${feed} every=1s`]
    const start = () => startChild(temporaryDirectory(), {}, more)
    const [one, two] = await Promise.all([start(), start()])
    const listOf = async (node: typeof one) => (await node.request(`/api?key=${KEY}`)).text
    const both = [one, two]
    for (const node of both) await until(async () => (await listOf(node)) === '192.0.2.1:80\n')
    // A node says what it fetched after the commit, which the copies may show earlier.
    const saying = () => both.filter(node => node.output().includes('feed.txt: 1 rows'))
    await until(async () => saying().length > 0)
    const fetchers = saying()
    expect(fetchers).toHaveLength(1)
    const other = both.find(node => node !== fetchers[0])
    fetchers[0]?.kill('SIGKILL')
    writeFileSync(feed, 'http://192.0.2.2:80\nhttp://192.0.2.3:80\n')
    await until(async () => other?.output().includes('feed.txt: 2 rows') ?? false)
    await until(async () => other !== undefined && (await listOf(other)).includes('192.0.2.3:80'))
    await other?.stop()
  },
)

test.skipIf(!HAS_POSTGRES)(
  'old proxies, and machines that are long gone, are removed by a node',
  async () => {
    const url = await emptyDatabase()
    const file = join(temporaryDirectory(), 'list.csv')
    const at = (agoMs: number): string => new Date(T0 - agoMs).toISOString()
    writeFileSync(
      file,
      `ip,type,checked_at\n192.0.2.1:80,http,${at(0)}\n192.0.2.2:80,http,${at(7_200_000)}\n`,
    )
    await run(url, 'import', file)
    const sql = new SQL({ url, max: 1 })
    await sql`insert into proxylist.nodes values ('gone', 'x:1', 1, 0, 0)`
    const counts = async () =>
      sql`select (select count(*)::int from proxylist.proxies) as proxies,
        (select count(*)::int from proxylist.nodes where node = 'gone') as gone`
    expect([...(await counts())]).toEqual([{ proxies: 2, gone: 1 }])
    const more = ['--database', url, '--log', 'off', '--retain', '1h']
    const node = await startChild(temporaryDirectory(), {}, more)
    await until(async () => {
      const [{ proxies, gone }] = await counts()
      return proxies === 1 && gone === 0
    })
    await sql.close()
    await node.stop()
  },
  60_000,
)

test.skipIf(!HAS_POSTGRES)(
  'the console of a node shows and changes what is in the database, and its imports go there',
  async () => {
    const url = await emptyDatabase()
    const dir = temporaryDirectory()
    const { token } = makeToken(dir)
    const node = await startChild(dir, {}, [
      ...['--database', url, '--admin-listen', '127.0.0.1:0', '--log', 'off'],
    ])
    await until(async () => /admin listening on \S+\n/.test(node.output()))
    const [, admin = ''] = /admin listening on (\S+)\n/.exec(node.output()) ?? []
    const ask = async (path: string, init: RequestInit = {}) => {
      const type = path === '/console/import?format=txt' ? 'octet-stream' : 'json'
      const headers = { authorization: `Bearer ${token}`, 'content-type': `application/${type}` }
      const response = await fetch(admin + path, { ...init, headers })
      return { status: response.status, text: await response.text() }
    }
    await until(async () => (await node.request('/readyz')).status === 200)
    const body = JSON.stringify({ kind: 'regular', plan: 'standard', label: 'from the console' })
    const made = await ask('/console/keys', { method: 'POST', body })
    expect(made.status).toBe(201)
    const list = await proxylist(['keys', 'list'], { env: { PROXYLIST_DATABASE: url } })
    expect(list.stdout).toContain('from the console')
    expect((await ask('/console/keys')).text).toContain('from the console')
    expect((await ask('/console/overview')).status).toBe(200)
    const imported = await ask('/console/import?format=txt', {
      ...{ method: 'POST', body: 'http://192.0.2.9:80\n' },
    })
    expect([imported.status, imported.text]).toEqual([200, expect.stringContaining('"added":1')])
    const key = JSON.parse(made.text).key
    await until(async () => (await node.request(`/api?key=${key}`)).text === '192.0.2.9:80\n')
    const shows = (line: string) => async () => (await ask('/metrics')).text.includes(line)
    await until(shows('proxylist_replication_list_version 1\n'))
    await until(shows('proxylist_replication_runs_jobs 1\n'))
    await node.stop()
  },
)

test('a node listens at once, also where its database does not answer', async () => {
  let ticks = 0
  const node = {
    isJobHolder: () => false,
    tick(): Promise<never> {
      ticks += 1
      return new Promise(() => {})
    },
  }
  const jobs = await startJobs({ node } as unknown as Serving) // it reads nothing else of them
  expect(ticks).toBe(1)
  for (const job of jobs) job.stop()
})
