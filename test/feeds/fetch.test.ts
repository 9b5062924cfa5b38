/**
 * Attempts at feeds (contract G1) against a server of our own that does what servers do, and what
 * they should not: the list then stays as it was, and the state says why.
 */
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { FETCH_MS_MAX, IMPORT_MS_MAX } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { refuseRedirect } from '../../src/feeds/fetch.ts'
import { importFeedInChild } from '../../src/feeds/import-feed.ts'
import type { FeedState } from '../../src/feeds/store.ts'
import { CommandError, nextTurn } from '../../src/lib/errors.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import type { ImportTx } from '../../src/proxies/store.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { type Answerer, reply, startFeedServer } from '../support/feed-server.ts'
import { createFetcher, lines } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterEach(cleanUp)
afterAll(cleanUp)

const SUCCESS = { error: '', failures: 0, lastSuccessAt: T0, nextTryAt: T0 + MINUTE_MS }

/** A server that gives this answer to `/a`, and attempts at a feed from there. */
async function feedOf(answer: Answerer) {
  const server = await startFeedServer({ '/a': answer })
  const fetcher = createFetcher()
  const fetch = (options = '', more?: Parameters<typeof fetcher.fetch>[1]): Promise<FeedState> =>
    fetcher.fetch(`${server.url}/a ${options}`, more)
  return { server, fetcher, fetch }
}

/** Nothing but the two databases is left in a data directory. */
const expectNoTraces = (dir: string): void =>
  expect(
    readdirSync(dir).filter(name => !/^(?:feeds|proxies)\.db(?:-wal|-shm)?$/.test(name)),
  ).toEqual([])

describe('a feed from a URL', () => {
  test('is imported, and its state has the time, the rows and the next try', async () => {
    const server = await startFeedServer({ '/list.txt': reply(200, {}, lines(3)) })
    const fetcher = createFetcher()
    const state = await fetcher.fetch(`${server.url}/list.txt`)
    expect(state).toMatchObject({ ...SUCCESS, source: `${server.url}/list.txt`, rows: 3 })
    expect(fetcher.rowCount()).toBe(3)
    expect(fetcher.store.list()).toMatchObject([state])
    expect(fetcher.timers.size).toBe(0)
    expectNoTraces(fetcher.dir)
  })

  test('is requested with the name of the program and its encodings', async () => {
    const { server, fetch } = await feedOf(reply(200, {}, lines(1)))
    await fetch()
    const [{ headers } = { headers: new Map() }] = server.asked
    expect(headers.get('user-agent')).toBe('proxylist/test')
    expect(headers.get('accept-encoding')).toBe('gzip, zstd')
    expect(headers.has('if-none-match') || headers.has('if-modified-since')).toBeFalse()
  })

  test.each([
    ['ETag', '"v1"', 'if-none-match'],
    ['Last-Modified', 'Fri, 20 Nov 2026 10:00:00 GMT', 'if-modified-since'],
  ])('is requested only if changed, by %s; 304 is a success', async (field, value, ask) => {
    const { server, fetcher, fetch } = await feedOf(reply(200, { [field]: value }, lines(3)))
    await fetch()
    server.answers['/a'] = reply(304)
    fetcher.pass(MINUTE_MS)
    const state = await fetch()
    expect(server.asked[1]?.headers.get(ask)).toBe(value)
    const success = { error: '', rows: 3, lastSuccessAt: T0 + MINUTE_MS }
    expect(state).toMatchObject(success)
  })

  test('is requested in full if it may have changed in the second of its Last-Modified', async () => {
    const second = 'Fri, 20 Nov 2026 10:00:00 GMT'
    const young = { 'Last-Modified': second, Date: second }
    const { server, fetcher, fetch } = await feedOf(reply(200, young, lines(3)))
    await fetch()
    server.answers['/a'] = reply(200, young, lines(4))
    expect(await fetch()).toMatchObject({ rows: 4 })
    expect(server.asked[1]?.headers.has('if-modified-since')).toBeFalse()
    expect(fetcher.rowCount()).toBe(4)
  })

  test('without validators is not imported again while its content is the same', async () => {
    const { server, fetcher, fetch } = await feedOf(reply(200, {}, lines(3)))
    await fetch()
    const { notImported } = fetcher
    expect(await fetch('', notImported)).toMatchObject({ rows: 3 })
    server.answers['/a'] = reply(200, { ETag: '"v2"' }, lines(3))
    await fetch('', notImported)
    server.answers['/a'] = reply(304)
    expect(await fetch('', notImported)).toMatchObject({ error: '', rows: 3 })
    expect(server.asked.at(-1)?.headers.get('if-none-match')).toBe('"v2"')
    server.answers['/a'] = reply(200, {}, lines(4))
    expect(await fetch()).toMatchObject({ rows: 4 })
    expect(fetcher.rowCount()).toBe(4)
  })
})

describe('a feed from a URL is read', () => {
  test('in full when its options change, or when the list is empty', async () => {
    const { server, fetch } = await feedOf(reply(200, { ETag: '"v1"' }, lines(3)))
    await fetch()
    await fetch('type=socks5')
    const settings = { geoip: [], providerService: 'another' }
    await fetch('type=socks5', { settings })
    await fetch('type=socks5', { settings, readList: () => ({ isEmpty: true, mark: '' }) })
    expect(server.asked.map(({ headers }) => headers.has('if-none-match'))).toEqual(
      Array(4).fill(false),
    )
  })

  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ])('when it is sent as %s', async (name, compress) => {
    const { fetcher, fetch } = await feedOf(
      reply(200, { 'Content-Encoding': name }, compress(lines(300))),
    )
    expect(await fetch()).toMatchObject({ ...SUCCESS, rows: 300 })
    expect(fetcher.rowCount()).toBe(300)
  })

  test('row by row: good rows are imported, bad rows counted', async () => {
    const { fetch } = await feedOf(reply(200, {}, `${lines(3)}http://1.2.3.4:0\n`))
    expect(await fetch()).toMatchObject({
      ...SUCCESS,
      ...{ rows: 3, rejected: 1 },
      missing: '1 of 4 rows is missing (1: ip must be an IPv4 address with a port, a.b.c.d:port)',
    })
  })
})

describe('redirects', () => {
  const to = (url: string, status = 302): Answerer => reply(status, { Location: url })

  test('are followed up to five times', async () => {
    const server = await startFeedServer({ '/5': reply(200, {}, lines(2)) })
    for (let n = 0; n < 5; n += 1) server.answers[`/${n}`] = to(`/${n + 1}`, 301 + (n % 3))
    const fetcher = createFetcher()
    expect(await fetcher.fetch(`${server.url}/0`)).toMatchObject({ ...SUCCESS, rows: 2 })
  })

  test('in a circle end, and the list is unchanged', async () => {
    const server = await startFeedServer({})
    server.answers['/a'] = to('/b')
    server.answers['/b'] = to('/a')
    const state = await createFetcher().fetch(`${server.url}/a`)
    expect(state.error).toBe('redirects more than 5 times')
    expect(server.asked).toHaveLength(6)
  })

  test('do not carry the secrets of the header file or the URL to another origin', async () => {
    const other = await startFeedServer({ '/b': reply(200, {}, lines(1)) })
    const server = await startFeedServer({})
    server.answers['/a'] = to('/same')
    server.answers['/same'] = to(`${other.url}/b`)
    const fetcher = createFetcher()
    const headersFile = join(fetcher.dir, '..', `headers-${process.pid}`)
    writeFileSync(headersFile, 'X-Key: SECRET\n')
    const line = `http://user:SECRET@127.0.0.1:${server.port}/a headers=${headersFile}`
    expect(await fetcher.fetch(line)).toMatchObject({ error: '', rows: 1 })
    const basic = `Basic ${btoa('user:SECRET')}`
    for (const { headers } of server.asked) {
      expect([headers.get('x-key'), headers.get('authorization')]).toEqual(['SECRET', basic])
    }
    expect(server.asked).toHaveLength(2)
    expect(JSON.stringify([...(other.asked[0]?.headers ?? [])])).not.toContain('SECRET')
    expect(other.asked[0]?.headers.has('authorization')).toBeFalse()
  })

  describe('from the internet', () => {
    /** An attempt at a feed whose name has this address now, and is on the internet as far as it is examined. */
    async function redirected(location: string, addresses: readonly string[] = []) {
      const inside = await startFeedServer({ '/': reply(200, {}, '{"SECRET":1}') })
      const server = await startFeedServer({
        '/a': to(location.replace('PORT', String(inside.port))),
      })
      const fetcher = createFetcher()
      fetcher.names.set('localhost', ['198.51.100.1'])
      fetcher.names.set('inside.example.com', ['198.51.100.2', ...addresses])
      const { error } = await fetcher.fetch(`http://localhost:${server.port}/a`)
      return { error, server, inside }
    }

    test.each([
      'http://127.0.0.1:PORT/',
      'http://2130706433:PORT/',
      'http://[::ffff:127.0.0.1]:PORT/',
      'http://169.254.169.254/latest/meta-data/',
      'http://10.0.0.1/',
      'http://[::1]:PORT/',
      'http://[fd00:ec2::254]/',
      'http://[64:ff9b::a9fe:a9fe]/',
    ])('to %s are refused, and nothing is requested there', async location => {
      const { error, inside } = await redirected(location)
      expect(error).toBe('redirects to a loopback, private or link-local address')
      expect(inside.asked).toEqual([])
    })

    test('to a name are refused when one of its addresses is internal, or it has none', async () => {
      const url = 'http://inside.example.com:PORT/'
      expect((await redirected(url, ['127.0.0.1'])).error).toBe(
        'redirects to a loopback, private or link-local address',
      )
      expect((await redirected('http://none.example.com/')).error).toBe(
        'redirects to an unknown host name',
      )
    })
  })

  test('of a feed on the internal network may lead there, at the resolved address', async () => {
    const inside = await startFeedServer({ '/b': reply(200, {}, lines(2)) })
    const { fetcher, fetch } = await feedOf(to(`http://lists.internal:${inside.port}/b`))
    fetcher.names.set('lists.internal', ['127.0.0.2', '127.0.0.1'])
    expect(await fetch()).toMatchObject({ error: '', rows: 2 })
    expect(inside.asked[0]?.headers.get('host')).toBe(`lists.internal:${inside.port}`)
  })

  test('from https to http are refused, also on the internal network', () => {
    const at = (href: string) => ({ url: new URL(href), addresses: ['10.0.0.1'] })
    const refuse = (from: string, to: string) => () => refuseRedirect(at(from), at(to))
    expect(refuse('https://a/', 'http://a/')).toThrow('redirects from https to http')
    expect(refuse('http://a/', 'https://a/')).not.toThrow()
  })

  test.each(['file:///etc/passwd', 'ftp://127.0.0.1/'])('to %p are refused', async location => {
    const { fetch } = await feedOf(to(location))
    const { error } = await fetch()
    expect(error).toBe('redirects to something other than http:// or https://')
  })
})

/** Sends these bytes and ends. */
const sent =
  (bytes: string): Answerer =>
  (_, socket) =>
    void socket.end(bytes)
const BROKEN = /closed the connection early|cannot be fetched/

/** Feeds that fail, and what their state then says. */
const FAULTS: { [name: string]: readonly [answer: Answerer, error: string | RegExp] } = {
  'a 404': [reply(404), 'answers with status 404'],
  'an unrequested 304': [reply(304), 'answers with status 304'],
  'an empty answer': [reply(200), 'holds no proxy'],
  'a web page': [reply(200, {}, '<!doctype html><p>busy'), /is none of the known formats/],
  'masked addresses': [
    reply(200, {}, 'http://192.0.0.0:80\nhttp://198.51.0.0:8080\n'),
    'every address ends in .0.0, so they are masked, as the key demo shows them; ' +
      'download the list with your own key; nothing was imported',
  ],
  'less than it announced': [
    sent(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n${lines(3)}`),
    'closed the connection early',
  ],
  'a chunked answer that breaks off': [
    sent(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n${lines(2)}`),
    BROKEN,
  ],
  'something that is not HTTP': [sent('hello\r\n\r\n'), BROKEN],
  'gzip that is damaged': [
    reply(200, { 'Content-Encoding': 'gzip' }, gzipSync(lines(300)).fill(0, 100, 200)),
    /damaged or truncated gzip/,
  ],
  'zstd that breaks off': [
    reply(200, { 'Content-Encoding': 'zstd' }, zstdCompressSync(lines(300)).subarray(0, 200)),
    /./,
  ],
  'more bytes than are read': [reply(200, {}, 'x'.repeat(2 ** 20 + 1)), 'is larger than 1 MiB'],
  'an endless stream': [
    (_, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      const more = Buffer.from('# more\n'.repeat(10_000))
      const write = (): void => {
        while (!socket.destroyed && socket.write(more)) {}
      }
      socket.on('drain', write)
      write()
    },
    'is larger than 1 MiB',
  ],
  'a billion empty lines, compressed': [
    reply(200, { 'Content-Encoding': 'zstd' }, zstdCompressSync(Buffer.alloc(3 * 2 ** 20, '\n'))),
    /is larger than 1 MiB decompressed/,
  ],
}

describe.each(Object.entries(FAULTS))('%s', (_, [answer, error]) => {
  test('keeps the list, is reported, and is retried with growing delays', async () => {
    const server = await startFeedServer({ '/a': reply(200, {}, lines(3)) })
    const fetcher = createFetcher()
    const source = `http://user:SECRET@127.0.0.1:${server.port}/a?key=SECRET`
    const before = await fetcher.fetch(source)
    server.answers['/a'] = answer
    const states: FeedState[] = []
    for (let n = 0; n < 3; n += 1) states.push(await fetcher.fetch(source))
    for (const state of states) {
      error instanceof RegExp ? expect(state.error).toMatch(error) : expect(state.error).toBe(error)
      expect(state.error).not.toMatch(/SECRET|nothing was imported; |\n/)
      expect(state).toMatchObject({ lastSuccessAt: T0, rows: 3, validators: before.validators })
    }
    expect(states.map(({ nextTryAt }) => (nextTryAt - T0) / MINUTE_MS)).toEqual([0.5, 1, 1])
    expect(fetcher.rowCount()).toBe(3)
    expectNoTraces(fetcher.dir)
    server.answers['/a'] = reply(200, {}, lines(4))
    expect(await fetcher.fetch(source)).toMatchObject({ ...SUCCESS, rows: 4, failures: 0 })
  })
})

const UNUSABLE = (share: string, reason: string): string =>
  `no row is usable, ${share} because ${reason}; nothing was imported`
const LINE = "in the feed's line"
/** What a feed holds that needs an option of its line, what is said without it, and rows with it. */
const HINTED: readonly (readonly [
  what: string,
  text: string,
  error: string,
  option: string,
  rows: number,
  first?: string,
])[] = [
  [
    'addresses without a type',
    '192.0.2.1:1080\n192.0.2.2:1080\n',
    UNUSABLE('2 of 2', `type is required: http, https, socks4, socks5 (or give type= ${LINE})`),
    ...(['type=socks5', 2] as const),
  ],
  [
    'a mapped column that it does not have',
    'ip,type\n192.0.2.1:80,http\n',
    `map= ${LINE}: no column or member is called 'Where'; nothing was imported`,
    ...(['map=ip=ip', 1, 'map=Where=ip'] as const),
  ],
]

test.each(HINTED)(
  'a feed of %s says why nothing was imported, and an option of its line fixes it',
  async (_, text, error, option, rows, first = '') => {
    const { fetcher, fetch } = await feedOf(reply(200, { ETag: '"v1"' }, text))
    const state = await fetch(first)
    expect(state).toMatchObject({ error, failures: 1 })
    expect(await fetch(option)).toMatchObject({ ...SUCCESS, rows })
    expect(fetcher.rowCount()).toBe(rows)
  },
)

describe('a server that asks to wait', () => {
  test.each([
    [429, '120', 2],
    [503, '7200', 60],
  ])(
    'with %d and Retry-After: %s gets the next request after %d minutes',
    async (status, wait, minutes) => {
      const { fetch } = await feedOf(reply(status, { 'Retry-After': wait }))
      const { error, nextTryAt } = await fetch()
      expect((nextTryAt - T0) / MINUTE_MS).toBe(minutes)
      expect(error).toStartWith(`answers with status ${status}`)
    },
  )
})

describe('a slow feed', () => {
  test.each([
    ['does not answer', ''],
    ['sends a byte now and then', 'HTTP/1.1 200 OK\r\n\r\nh'],
  ])('of a server that %s times out after 60 s', async (_, sent) => {
    const asked = Promise.withResolvers<void>()
    const closed = Promise.withResolvers<void>()
    const server = await startFeedServer({
      '/a'(_, socket) {
        socket.write(sent)
        socket.on('close', closed.resolve)
        asked.resolve()
      },
    })
    const fetcher = createFetcher()
    const fetched = fetcher.fetch(`${server.url}/a`)
    await asked.promise
    const [[fire, ms] = [() => {}, 0]] = fetcher.timers
    expect(ms).toBe(FETCH_MS_MAX)
    fire()
    expect((await fetched).error).toBe('takes longer than 60 s')
    await closed.promise
  })

  test('locks the list for five minutes at most', async () => {
    const { fetch, timers, importLines, rowCount, dir } = createFetcher()
    await Bun.write(join(dir, 'list.txt'), lines(3))
    const wrap = (importTx: ImportTx): ImportTx => ({
      ...importTx,
      async lock() {
        await importTx.lock()
        for (const [fire, ms] of timers) if (ms === IMPORT_MS_MAX) fire()
      },
    })
    const { error } = await fetch(join(dir, 'list.txt'), { wrap })
    expect(error).toBe('takes longer than 5 minutes to import')
    await importLines(lines(1)) // it is locked no more
    expect([rowCount(), timers.size]).toEqual([1, 0])
  })

  test('ends with its import process when that hangs', async () => {
    const [feed] = parseFeeds('/dev/null', MINUTE_MS, '--feed') as [Feed]
    const settings = {
      ...{ data: '', database: undefined, databaseTimeout: 0 },
      ...{ geoip: [], providerService: '' },
    }
    const task = { feed, sent: { atMs: T0, isPublic: false }, rowsBefore: null, settings }
    const program = ['sh', '-c', 'exec cat']
    const deadline = new AbortController()
    const ended = importFeedInChild(task, null, deadline.signal, { program })
    deadline.abort(new Error('takes too long'))
    await expect(ended).rejects.toThrow('takes too long')
  })

  test('is abandoned at once when the program ends', async () => {
    const asked = Promise.withResolvers<void>()
    const { fetcher, fetch } = await feedOf(() => asked.resolve())
    const fetched = fetch()
    await asked.promise
    fetcher.controller.abort(new Error('interrupted'))
    expect(fetched).rejects.toThrow('interrupted')
    await fetched.catch(() => {})
    expect(fetcher.store.list()).toEqual([])
  })
})

describe('a single feed that replaces', () => {
  test('removes rows that it no longer has', async () => {
    const { server, fetcher, fetch } = await feedOf(reply(200, {}, lines(300)))
    await fetch('replace')
    server.answers['/a'] = reply(200, {}, lines(200, 100))
    expect(await fetch('replace')).toMatchObject({ rows: 200, error: '' })
    expect(fetcher.rowCount()).toBe(200)
  })

  test.each([
    ['a tenth of the list', lines(30), /^would shrink the list from 300 rows to 30$/],
    ['one row again and again', lines(1).repeat(300), /^would shrink the list from 300 rows to 1$/],
    ['an empty list', '[]', /^holds no proxy$/],
  ])('keeps the list unchanged when it has %s', async (_, body, error) => {
    const { server, fetcher, fetch } = await feedOf(reply(200, {}, lines(300)))
    await fetch('replace')
    server.answers['/a'] = reply(200, {}, body)
    const state = await fetch('replace')
    expect(state.error).toMatch(error)
    expect(fetcher.rowCount()).toBe(300)
  })
})

test('content that is imported again keeps the time of its first import, so its rows do not look fresh', async () => {
  const fetcher = createFetcher()
  const file = join(fetcher.dir, '1.txt')
  const newestOf = () => {
    const list = openList(fetcher.dir)
    const { newest } = list.proxies.checks()
    list.close()
    return newest
  }
  writeFileSync(file, lines(3))
  const { importedAt } = await fetcher.fetch(file)
  fetcher.pass(60 * MINUTE_MS)
  await fetcher.importLines(lines(1, 100))
  expect(newestOf()).toBe(T0 / 1000 + 3600)
  expect(await fetcher.fetch(file)).toMatchObject({
    importedAt,
    lastSuccessAt: T0 + 60 * MINUTE_MS,
  })
  writeFileSync(file, lines(2))
  fetcher.pass(MINUTE_MS)
  expect(await fetcher.fetch(file)).toMatchObject({ importedAt: T0 + 61 * MINUTE_MS })
  expect(newestOf()).toBe(T0 / 1000 + 3660)
})

describe('after an import by another process', () => {
  test('a feed that has not changed is imported again, once', async () => {
    const { fetcher, fetch } = await feedOf(reply(200, { ETag: '"v1"' }, lines(3)))
    const file = join(fetcher.dir, 'a.txt')
    writeFileSync(file, lines(2, 100))
    await fetch()
    await fetcher.fetch(file)
    await fetcher.importLines(lines(1, 50), 'replace')
    expect(fetcher.rowCount()).toBe(1)
    await fetch()
    await fetcher.fetch(file)
    expect(fetcher.rowCount()).toBe(6)
    await fetch('', fetcher.notImported)
    await fetcher.fetch(file, fetcher.notImported)
  })
})

describe('a feed from a path', () => {
  test('is read when its file has changed', async () => {
    const fetcher = createFetcher()
    const file = join(fetcher.dir, '..', `feed-${process.pid}-a.txt`)
    writeFileSync(file, lines(2))
    expect(await fetcher.fetch(file)).toMatchObject({ ...SUCCESS, rows: 2 })
    const { notImported } = fetcher
    await fetcher.fetch(file, notImported)
    utimesSync(file, 1, 1)
    expect(await fetcher.fetch(file)).toMatchObject({ rows: 2 })
    writeFileSync(file, lines(3))
    expect(await fetcher.fetch(file)).toMatchObject({ rows: 3 })
  })

  test('may be a directory: its files are one import, without hidden files and folders', async () => {
    const fetcher = createFetcher()
    const dir = join(fetcher.dir, 'lists')
    mkdirSync(join(dir, 'folder'), { recursive: true })
    writeFileSync(join(dir, 'a.txt'), lines(2))
    writeFileSync(join(dir, 'b.csv'), 'ip,type\n192.0.2.1:80,http\n')
    writeFileSync(join(dir, '.hidden'), 'not a list')
    expect(await fetcher.fetch(dir)).toMatchObject({ ...SUCCESS, rows: 3 })
    writeFileSync(join(dir, 'c.txt'), lines(1, 9))
    expect(await fetcher.fetch(dir)).toMatchObject({ rows: 4 })
  })

  test.each([
    ['that is missing', 'no-such-file', /^cannot be read \(no such file or directory\)$/],
    ['that is a device', '/dev/null', /^cannot be read \(it is not a regular file\)$/],
    ['that is not a list', 'proxies.db', /is not text|is not UTF-8/],
  ])('%s is reported', async (_, name, error) => {
    const fetcher = createFetcher()
    const file = resolve(fetcher.dir, name)
    if (name === 'proxies.db') writeFileSync(join(fetcher.dir, 'x'), '\0\0')
    const state = await fetcher.fetch(name === 'proxies.db' ? join(fetcher.dir, 'x') : file)
    expect(state.error).toMatch(error)
  })

  test('that is a named pipe, or has one as a header file or database of places, fails at once', async () => {
    const fetcher = createFetcher()
    const pipe = join(fetcher.dir, 'pipe')
    Bun.spawnSync(['mkfifo', pipe])
    expect((await fetcher.fetch(pipe)).error).toBe('cannot be read (it is not a regular file)')
    expect((await fetcher.fetch(`http://127.0.0.1:1/a headers=${pipe}`)).error).toBe(
      `cannot read the header file ${pipe}: it is not a regular file`,
    )
    const file = join(fetcher.dir, 'a.txt')
    writeFileSync(file, lines(2))
    expect((await fetcher.fetch(file, { geoip: [pipe] })).error).toBe(
      `cannot read ${pipe}: it is not a regular file`,
    )
  })

  const unreadable: readonly (readonly [what: string, make: (path: string) => unknown])[] = [
    ['a named pipe', path => Bun.spawnSync(['mkfifo', path])],
    ['a link that leads nowhere', path => symlinkSync('nowhere', path)],
  ]
  test.each(unreadable)(
    'that is a directory with %s in it skips and reports that',
    async (_, make) => {
      const fetcher = createFetcher()
      const dir = join(fetcher.dir, 'lists')
      mkdirSync(dir)
      writeFileSync(join(dir, 'a.txt'), lines(2))
      make(join(dir, 'b'))
      const state = await fetcher.fetch(dir)
      expect(state).toMatchObject({ ...SUCCESS, rows: 2, rejected: 1 })
      expect(state.missing).toBe(`${join(dir, 'b')} is not a regular file, and is skipped`)
    },
  )

  test('has its header file read at each attempt', async () => {
    const server = await startFeedServer({ '/a': reply(200, {}, lines(1)) })
    const fetcher = createFetcher()
    const file = join(fetcher.dir, 'headers')
    const line = `${server.url}/a headers=${file}`
    expect((await fetcher.fetch(line)).error).toBe(
      `cannot read the header file ${file}: no such file or directory`,
    )
    writeFileSync(file, 'SECRET\n')
    expect((await fetcher.fetch(line)).error).toBe(
      `${file}:1: must be a header such as Authorization: Bearer KEY`,
    )
    writeFileSync(file, 'Authorization: Bearer pl_1\n')
    chmodSync(file, 0o600)
    expect(await fetcher.fetch(line)).toMatchObject({ error: '', rows: 1 })
    expect(server.asked[0]?.headers.get('authorization')).toBe('Bearer pl_1')
  })
})

test('attempts at one feed do not overlap, and one import runs at a time', async () => {
  const server = await startFeedServer({ '/a': reply(200, {}, lines(1)) })
  const { dir, attemptsWith, controller } = createFetcher()
  const [one, two] = parseFeeds(`${server.url}/a ${dir}/list.txt`, MINUTE_MS, '') as [Feed, Feed]
  writeFileSync(join(dir, 'list.txt'), lines(1))
  const imports: PromiseWithResolvers<never>[] = []
  const { run } = attemptsWith({
    importFeed() {
      const running = Promise.withResolvers<never>()
      imports.push(running)
      return running.promise
    },
  })
  const states = [one, two, one].map(feed => run(feed, controller.signal))
  for (let n = 1; n <= 3; n += 1) {
    await until(() => imports.length === n)
    for (let turn = 0; turn < 50; turn += 1) await nextTurn()
    expect(imports).toHaveLength(n)
    imports[n - 1]?.reject(new CommandError('x'))
  }
  expect((await Promise.all(states)).map(({ error }) => error)).toEqual(['x', 'x', 'x'])
  expect(server.asked).toHaveLength(2)
})
