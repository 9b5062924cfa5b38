/**
 * The service when a database is locked, refuses writes, lacks a table or is
 * damaged, and when its own code fails (contract A9, B8, E): no request is
 * served uncounted, nothing internal is shown, and afterwards all works as before.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { type Answer, ask, from } from '../support/answer.ts'
import { ASK, dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { type Exchange, startInProcess } from '../support/in-process.ts'
import { SERVICES, type ServeOptions, type Service, startChild } from '../support/service.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const GOOD = '200 192.0.2.1:80\n'
const TEMPORARY = 'temp_5f4dcc3b5aa765d61d8327deb882cf99'

/** A data directory with `KEY` on a plan of these limits, a temporary key, and one proxy. */
function directoryOf(limits: Parameters<typeof dataDirectory>[1] = {}): string {
  const dir = dataDirectory([{ ip: '192.0.2.1:80', type: 'http', works: 95 }], limits)
  const registry = openRegistry(dir)
  registry.keys.add(
    { key: TEMPORARY, label: '', note: '', from: '', plan: null, expiresAt: null },
    T0,
  )
  registry.close()
  return dir
}

/** What no client may ever read: SQL, names and places of files, stacks, keys. */
const INTERNALS = new RegExp(
  [
    'sqlite|TypeError|malformed|\\blocked\\b',
    '\\b(?:select|insert|update|delete|begin|commit|pragma|table)\\b',
    '\\.db|\\.ts\\b|/tmp|proxylist-test|\\n\\s*at ',
    `${KEY}|${TEMPORARY}`,
  ].join('|'),
  'i',
)

/** The one shape of an error body (spec 2.3), and the headers of every answer (contract A8). */
function expectError({ status, headers, text }: Answer, expected: number, code: string): void {
  expect({ status, code: JSON.parse(text).code }).toEqual({ status: expected, code })
  expect(JSON.parse(text)).toEqual({
    status: 'error',
    code,
    message: expect.stringMatching(/^[a-z ;]{20,100}$/),
    timestamp: new Date(T0).toISOString(),
  })
  expect(Object.keys(JSON.parse(text))).toEqual(['status', 'code', 'message', 'timestamp'])
  expect(text).not.toMatch(INTERNALS)
  expect(JSON.stringify([...headers])).not.toMatch(INTERNALS)
  expect(headers.get('retry-after')).toBe(code === 'DB_EXECUTE_FAILED' ? '1' : null)
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(headers.get('cache-control')).toBe('private, no-store')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('referrer-policy')).toBe('no-referrer')
  expect(headers.get('x-request-id')).toMatch(/^[\w-]{10,}$/)
}

async function expectUnavailable(service: Service, path = ASK, init?: RequestInit): Promise<void> {
  expectError(await service.request(path, init), 503, 'DB_EXECUTE_FAILED')
}

/** Another process's connection to a database file, and the trouble that it makes. */
function otherProcess(dir: string, file: string) {
  const db = new Database(join(dir, file), { create: false, readwrite: true })
  onCleanUp(() => db.close(true))
  db.run('pragma busy_timeout = 10000')
  const tables = db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'",
    )
    .all()
  const all = (sql: (table: string) => string) => {
    db.transaction(() => {
      for (const { name } of tables) db.run(sql(name))
    }).immediate()
  }
  const verbs = ['insert', 'update', 'delete']
  return {
    lock: () => void db.run('begin immediate'),
    unlock: () => void db.run('rollback'),
    takeTables: () => all(table => `alter table ${table} rename to taken_${table}`),
    giveTablesBack: () => all(table => `alter table taken_${table} rename to ${table}`),
    refuseWrites() {
      for (const verb of verbs) {
        all(
          table => `create trigger no_${verb}_${table} before ${verb} on ${table}
            begin select raise(abort, 'disk /tmp/full.db is locked'); end`,
        )
      }
    },
    takeWrites() {
      for (const verb of verbs) all(table => `drop trigger no_${verb}_${table}`)
    },
  }
}
type OtherProcess = ReturnType<typeof otherProcess>

/** What another process can do to `access.db`, and how it is undone. */
const TROUBLES: readonly (readonly [
  what: string,
  begin: keyof OtherProcess,
  end: keyof OtherProcess,
])[] = [
  ['locked', 'lock', 'unlock'],
  ['refusing writes', 'refuseWrites', 'takeWrites'],
  ['without its tables', 'takeTables', 'giveTablesBack'],
]

describe.each(TROUBLES)('while access.db is %s', (_, begin, end) => {
  test.each(SERVICES)(
    'every kind of key gets 503, and no window and no day counts a request, %s',
    async (_, start) => {
      const dir = directoryOf({ burst: { requests: 3, seconds: 3600 }, daily: 4 })
      const service = await start(dir, {})
      const other = otherProcess(dir, ACCESS_FILE)
      const demo = ['/api?key=demo', from('203.0.113.7')] as const
      const temporary = [`/api?key=${TEMPORARY}`] as const
      expect(await ask(service)).toBe(GOOD)
      other[begin]()
      await Promise.all([
        ...Array.from({ length: 5 }, () => expectUnavailable(service)),
        ...[demo, demo, temporary].map(([path, init]) => expectUnavailable(service, path, init)),
        expectUnavailable(service, `${ASK}&get=json.file`),
        expectUnavailable(service, `${ASK}&type=socks4`), // nothing matches: it counts too
      ])
      expect(await ask(service, '/api')).toBe('400 KEY_MISSING') // needs no database
      expect(await ask(service, '/nowhere')).toBe('404 NOT_FOUND')
      expect(await ask(service, ASK, { method: 'POST' })).toBe('405 METHOD_NOT_ALLOWED')
      const head = await service.request(ASK, { method: 'HEAD' })
      expect([head.status, head.headers.get('retry-after')]).toEqual([503, '1'])
      other[end]()
      const { status, headers } = await service.request(ASK)
      expect([status, headers.get('ratelimit')]).toEqual([
        ...[200, '"burst";r=1;t=3600, "daily";r=2;t=43200'],
      ])
      expect(await ask(service)).toBe(GOOD)
      expect(await ask(service)).toBe('429 RATE_LIMIT_EXCEEDED')
      for (const [[path, init], found] of [
        [demo, '200 192.0.0.0:80\n'],
        [temporary, GOOD],
      ] as const) {
        for (const _ of [1, 2]) expect(await ask(service, path, init)).toBe(found)
        expect(await ask(service, path, init)).toMatch(/^429 /)
      }
      await service.stop()
    },
  )

  test('the reason is logged once, the request is logged, and /readyz is 503', async () => {
    const dir = directoryOf()
    const service = await startChild(dir)
    const other = otherProcess(dir, ACCESS_FILE)
    other[begin]()
    const id = (await service.request('/api?key=demo')).headers.get('x-request-id') ?? ''
    await service.request(ASK)
    await expectUnavailable(service, '/readyz')
    expect(await ask(service, '/healthz')).toBe('200 ok\n')
    other[end]()
    expect(await ask(service, '/readyz')).toBe('200 ready\n')
    while (!service.output().includes('works again')) await Bun.sleep(5)
    await service.stop()
    const output = service.output()
    const sentences = output.split('\n').filter(line => line.includes('access.db'))
    expect(sentences).toEqual([
      expect.stringMatching(/access\.db .*(?:locked|no such table).*; answering 503/),
      expect.stringMatching(/access\.db works again$/),
    ])
    const entry = output.split('\n').find(line => line.startsWith('{') && line.includes(id))
    const key = begin === 'takeTables' ? null : 'demo' // its plan is one of the tables
    expect(JSON.parse(entry ?? '{}')).toMatchObject({ status: 503, key, records: 0 })
    expect(output).not.toMatch(/k-5f4d|temp_5f/)
  })
})

test('requests succeed while an import locks proxies.db; without its tables even cached ones get 503', async () => {
  const dir = directoryOf()
  const service = await startChild(dir)
  const other = otherProcess(dir, PROXY_FILE)
  const expectGood = async () => {
    for (const _ of [1, 2]) expect(await ask(service)).toBe(GOOD)
    expect(await ask(service, '/readyz')).toBe('200 ready\n')
  }
  other.lock()
  await expectGood()
  other.unlock()
  other.takeTables()
  for (const path of [ASK, `${ASK}&get=json&city=berlin`, '/api?key=demo', '/readyz']) {
    await expectUnavailable(service, path)
  }
  expect(await ask(service, '/healthz')).toBe('200 ok\n')
  other.giveTablesBack()
  await expectGood()
  await service.stop()
})

const SECRET = `SELECT * FROM keys at /tmp/access.db with ${KEY}`
const failing = (): never => {
  throw new TypeError(SECRET)
}

/** A service in process, of which some stores are exchanged. */
const serviceWith = (exchange: Exchange, options: ServeOptions = {}): Promise<Service> =>
  startInProcess(directoryOf(), options, exchange)

/** The statuses in the access log, and the sentences beside it without their stacks. */
function writtenBy(service: Service): { statuses: number[]; said: string[] } {
  const lines = service.output().split('\n')
  return {
    statuses: lines.filter(line => line.startsWith('{')).map(line => JSON.parse(line).status),
    said: lines.filter(line => !/^(?:\{|\s+at )/.test(line)),
  }
}

test('/readyz is 503 with the reason while the copies of a node are older than --max-lag; requests succeed', async () => {
  let lagSeconds = 60
  const service = await serviceWith(() => ({
    replication: () => ({ listVersion: 12, lagSeconds, runsJobs: false }),
  }))
  expect(await ask(service, '/readyz')).toBe('200 ready list_version=12 lag_seconds=60.0\n')
  lagSeconds = 60.1
  const { status, text } = await service.request('/readyz')
  expect(status).toBe(503)
  expect(text).toContain('"the copies of this node are older than --max-lag"')
  expect(await ask(service)).toBe(GOOD)
  await service.stop()
})

/** `api.test.ts` has all stores. */
describe('a bug is a 500 that shows nothing', () => {
  test('in a store', async () => {
    const service = await serviceWith(({ usage }) => ({
      usage: { ...usage, admit: async () => failing() },
    }))
    const answer = await service.request(ASK)
    const id = answer.headers.get('x-request-id')
    expectError(answer, 500, 'INTERNAL_ERROR')
    expect(JSON.parse(answer.text).message).toContain('the request id identifies it')
    expect(writtenBy(service)).toEqual({
      statuses: [500],
      said: [`request ${id} failed: TypeError: ${SECRET}`],
    })
    expect(service.output()).toMatch(/\n\s+at failing/)
    await service.stop()
  })
})
