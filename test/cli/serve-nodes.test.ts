/** Several servers on one database (contract I): shared limits, revocations, imports, and failures. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { makeToken } from '../../src/console.ts'
import { startJobs } from '../../src/server-jobs.ts'
import { T0 } from '../support/fixtures.ts'
import { HAS_POSTGRES, type Server, startPostgres } from '../support/postgres.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const KEY = 'pl_canarynodescanarynodescanarynode'
const OTHER = 'pl_canaryothercanaryothercanaryothe'
const REVOKED = 'pl_canaryrevokedcanaryrevokedcanary'

type Node = Awaited<ReturnType<typeof startNode>>

const startNode = (url: string, dir = temporaryDirectory(), more: readonly string[] = []) =>
  startChild(dir, {}, ['--database', url, ...more])

const statusOf = async (node: Node, key: string): Promise<number> =>
  (await node.request(`/api?key=${key}`)).status
const isReady = async (node: Node): Promise<boolean> =>
  (await node.request('/readyz')).text.startsWith('ready list_version=')

/** Runs a command on the database. */
async function run(url: string, ...args: string[]): Promise<string> {
  const outcome = await proxylist(args, { env: { PROXYLIST_DATABASE: url } })
  if (outcome.exitCode !== 0) throw new Error(`${args.join(' ')}: ${outcome.stderr}`)
  return outcome.stdout
}

let postgres: Server
let url = ''
let sql: SQL
let nodes: Node[] = []
let keyId = ''
beforeAll(async () => {
  if (!HAS_POSTGRES) return
  postgres = await startPostgres()
  url = postgres.url('postgres')
  sql = new SQL({ url, max: 1 })
  onCleanUp(() => sql.close())
  nodes = await Promise.all([startNode(url), startNode(url)])
  await run(url, 'keys', 'add', '--key', KEY, '--plan', 'standard', '--label', 'shared')
  await run(url, 'keys', 'add', '--key', OTHER, '--plan', 'standard', '--label', 'other')
  await run(url, 'keys', 'add', '--key', REVOKED, '--plan', 'standard', '--label', 'leaked')
  const keys = JSON.parse(await run(url, 'keys', 'list', '--json'))
  keyId = keys.find(({ label }: { label: string }) => label === 'leaked').id
  await importList('http://192.0.2.1:80\n')
  for (const node of nodes) await until(() => isReady(node))
})

async function importList(text: string): Promise<void> {
  const file = join(temporaryDirectory(), 'list.txt')
  writeFileSync(file, text)
  await run(url, 'import', file, '--replace')
}
/** The sums of what is written of a key: records and refusals. */
async function noted(label: string): Promise<string> {
  const [sums] = await sql`select sum(records)::int as records, sum(refused)::int as refused
    from proxylist.days join proxylist.keys on id = key_id where label = ${label}`
  return `${sums.records} ${sums.refused}`
}
const addressOf = (node: Node): string => node.url.replace('http://', '')
async function listedNodes(): Promise<string[]> {
  const rows = await sql`select address from proxylist.nodes order by address`
  return rows.map(({ address }: { address: string }) => address)
}
const onBoth = async (key: string, status: number): Promise<void> => {
  for (const node of nodes) await until(async () => (await statusOf(node, key)) === status)
}

describe.skipIf(!HAS_POSTGRES)('two nodes', () => {
  test('share limits exactly, and see keys and imports of each machine', async () => {
    for (const node of nodes) {
      const found = async () =>
        (await node.request(`/api?key=${REVOKED}`)).text === '192.0.2.1:80\n'
      await until(found)
    }
    const statuses: number[] = []
    for (let n = 0; n < 6; n += 1) {
      statuses.push(...(await Promise.all(nodes.map(node => statusOf(node, KEY)))))
    }
    expect(statuses.filter(status => status === 200)).toHaveLength(5)
    expect(statuses.filter(status => status === 429)).toHaveLength(7)
  })

  test('write records and refusals within half a minute', () =>
    until(async () => (await noted('shared')) === '5 7'))

  test('refuse a revoked key within a second', async () => {
    await run(url, 'keys', 'revoke', keyId)
    const took = await until(async () => {
      const statuses = await Promise.all(nodes.map(node => statusOf(node, REVOKED)))
      return statuses.every(status => status === 403)
    })
    expect(took).toBeLessThan(1_000)
  })

  test('report their version and lag in the database', async () => {
    const { text } = await (nodes[0] as Node).request('/readyz')
    expect(text).toMatch(/^ready list_version=\d+ lag_seconds=\d+\.\d\n$/)
    expect(await listedNodes()).toEqual(nodes.map(addressOf).toSorted())
  })
})

describe.skipIf(!HAS_POSTGRES)('nodes', () => {
  test('write their records and remove their row when they stop; a killed node holds no lock', async () => {
    const [killed, stopped] = await Promise.all([startNode(url), startNode(url)])
    await Promise.all([killed, stopped].map(node => until(() => isReady(node))))
    expect(await statusOf(stopped, OTHER)).toBe(200)
    killed.kill('SIGKILL')
    await stopped.stop()
    expect(await noted('other')).toBe('1 0')
    expect(await listedNodes()).not.toContain(addressOf(stopped))
    await until(async () => {
      const [held] = await sql`select count(*)::int as n from pg_locks where locktype = 'advisory'`
      return held.n === 1 // that of the jobs, of one of the two that live
    })
  })

  test('answer 503 with Retry-After while the database is away, and serve within 2 s of its return', async () => {
    const node = nodes[0] as Node
    await postgres.stop('SIGQUIT')
    await onBoth(KEY, 503)
    const refused = await node.request(`/api?key=${KEY}`)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect(JSON.parse(refused.text).code).toBe('DB_EXECUTE_FAILED')
    expect((await node.request('/api')).status).toBe(400)
    expect((await node.request('/readyz')).status).toBe(503)
    const late = await startNode(url) // waits for the database
    expect(await statusOf(late, KEY)).toBe(503)
    // Keys are asked for every second: a shorter outage is seen by requests alone, and said as theirs.
    await until(async () => node.output().includes('answering 503 until that is over'))
    await postgres.start()
    const took = await until(async () => (await statusOf(node, OTHER)) === 200)
    expect(took).toBeLessThan(2_000)
    await until(() => isReady(late))
    await onBoth(REVOKED, 403)
    await until(async () => node.output().includes('works again'))
    for (const each of [...nodes, late]) expect(each.output()).not.toContain('canary')
  })
})

describe.skipIf(!HAS_POSTGRES)('a node', () => {
  test('logs once why requests fail, while it follows the list', async () => {
    const node = nodes[0] as Node
    await sql`alter function proxylist.admit rename to away`
    for (let n = 0; n < 3; n += 1) expect(await statusOf(node, OTHER)).toBe(503)
    await sql`alter function proxylist.away rename to admit`
    await until(async () => (await statusOf(node, OTHER)) === 200)
    await until(async () => node.output().includes('requests get 503'))
    expect(node.output().match(/requests get 503: .*: its schema is missing/g)).toHaveLength(1)
  })
})

/** One more database on the server of these tests. */
async function otherDatabase(name: string): Promise<string> {
  await sql.unsafe(`create database ${name}`)
  return postgres.url(name)
}

describe.skipIf(!HAS_POSTGRES)('a node', () => {
  test('runs the shared jobs for feeds, retention and old machines; another node takes over after a kill', async () => {
    const url = await otherDatabase('jobs')
    const [file, feed] = ['list.csv', 'feed.txt'].map(name => join(temporaryDirectory(), name))
    const at = (agoMs: number): string => new Date(T0 - agoMs).toISOString()
    const rows = [`192.0.2.8:80,http,${at(0)}`, `192.0.2.9:80,http,${at(7_200_000)}`]
    writeFileSync(`${file}`, ['ip,type,checked_at', ...rows, ''].join('\n'))
    writeFileSync(`${feed}`, 'http://192.0.2.1:80\n')
    const first = await startNode(url)
    await until(() => isReady(first))
    await run(url, 'import', `${file}`)
    await first.stop()
    await run(url, 'keys', 'add', '--key', KEY, '--plan', 'standard')
    await run(url, 'plans', 'set', 'standard', '--burst', 'unlimited', '--daily', 'unlimited')
    const database = new SQL({ url, max: 1 })
    await database`insert into proxylist.nodes values ('gone', 'x:1', 1, 0, 0)`
    const more = ['--log', 'off', '--retain', '1h', '--feed', `${feed} every=1s`]
    const both = await Promise.all([1, 2].map(() => startNode(url, temporaryDirectory(), more)))
    const listOf = async (node: Node) => (await node.request(`/api?key=${KEY}&time=9999`)).text
    const listed = '192.0.2.1:80\n192.0.2.8:80\n'
    for (const node of both) await until(async () => (await listOf(node)) === listed)
    await until(async () => {
      const gone = await database`select from proxylist.nodes where node = 'gone'`
      return gone.length === 0
    })
    await database.close()
    // A node says what it fetched after the commit, which the copies may show earlier.
    const saying = () => both.filter(node => node.output().includes('feed.txt: 1 row'))
    await until(async () => saying().length > 0)
    const fetchers = saying()
    expect(fetchers).toHaveLength(1)
    const other = both.find(node => node !== fetchers[0]) as Node
    fetchers[0]?.kill('SIGKILL')
    writeFileSync(`${feed}`, 'http://192.0.2.2:80\nhttp://192.0.2.3:80\n')
    await until(async () => other.output().includes('feed.txt: 2 rows'))
    await until(async () => (await listOf(other)).includes('192.0.2.3:80'))
    await other.stop()
  })

  test('shows and changes the database in its console', async () => {
    const url = await otherDatabase('console')
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
    expect(await run(url, 'keys', 'list')).toContain('from the console')
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
    const feed = { method: 'POST', body: JSON.stringify({ source: '/feed.txt' }) }
    expect((await ask('/console/feeds', feed)).status).toBe(409)
    await node.stop()
  })
})

test('a node listens before its database answers', async () => {
  let ticks = 0
  const node = {
    tick(): Promise<never> {
      ticks += 1
      return new Promise(() => {})
    },
  }
  const jobs = await startJobs({ node, isLeader: () => false } as unknown as Parameters<
    typeof startJobs
  >[0]) // it reads nothing else of them
  expect(ticks).toBe(1)
  for (const job of jobs) job.stop()
})
