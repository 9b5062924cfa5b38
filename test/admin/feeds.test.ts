/** Tests of the console's feeds: shapes, changes, previews, refusals, secrets, and whose are whose. */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Preview, previewFeed } from '../../src/feeds/attempt.ts'
import type { Feed } from '../../src/feeds/feed.ts'
import { loadCurrentFeeds } from '../../src/feeds/feeds-file.ts'
import { FEED_LINES_FILE, FEEDS_FILE } from '../../src/sqlite/data-directory.ts'
import { feedLinesIn } from '../../src/sqlite/feeds.ts'
import { withFeeds } from '../../src/sqlite/stores.ts'
import { startConsole } from '../support/console.ts'
import { reply, startFeedServer } from '../support/feed-server.ts'
import { createFetcher, FEED_STATE, lines } from '../support/feeds.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const DELETE = { method: 'DELETE' }

const post = (json: unknown) => ({ method: 'POST', json })
const put = (json: unknown) => ({ method: 'PUT', json })

/** The console of a server that has the feed `/option`, and `/file` in its feeds file. */
async function start(more: { preview?: (signal: AbortSignal) => Promise<Preview> } = {}) {
  const dir = dataDirectory()
  const file = join(temporaryDirectory(), 'feeds.conf')
  writeFileSync(file, '/file type=http\n')
  const said: string[] = []
  const settings = {
    feed: '/option',
    feeds: file,
    feedEvery: 60_000,
    providerService: 'the service',
  }
  const feeds = await loadCurrentFeeds(settings, sentence => void said.push(sentence))
  const fetched: Feed[] = []
  const fetcher = createFetcher({ dir })
  const console = startConsole(dir, {
    feeds: {
      ...{ feeds, lines: feedLinesIn(dir) },
      isRunning: id => fetched.some(feed => feed.id === id),
      fetchNow: feed => void fetched.push(feed),
      preview: (feed, signal) =>
        more.preview?.(signal) ?? previewFeed(feed, { ...fetcher.context, signal }),
    },
  })
  const refusal = async (path: string, asking: object): Promise<string> => {
    const { status, text } = await console.ask(`/console/feeds${path}`, asking)
    return `${status} ${JSON.parse(text).message}`
  }
  const listed = async () => (await console.value('/console/feeds')).feeds
  const idOf = async (source: string): Promise<string> =>
    (await listed()).find((feed: { source: string }) => feed.source === source).id
  const add = async (json: object) => (await console.value('/console/feeds', post(json))).id
  return {
    ...console,
    dir,
    file,
    feeds,
    said,
    consoleSaid: console.said,
    printed: console.said,
    fetched,
    refusal,
    listed,
    idOf,
    add,
  }
}

const SECRET = 'https://user:SECRET@example.com/list?token=SECRET'
const SHOWN = 'https://***@example.com/list?token=***'
const OPTIONS = { format: '', type: '', 'ping-unit': '', map: '', headers: '' }

test('a file of feeds that cannot be used is no failure of the program: stderr has a sentence', async () => {
  const { ask, dir, consoleSaid } = await start()
  rmSync(join(dir, FEEDS_FILE), { force: true })
  mkdirSync(join(dir, FEEDS_FILE))
  const { status, text } = await ask('/console/feeds')
  const message = 'the data cannot be used now; stderr of the server says more'
  expect([status, JSON.parse(text)]).toMatchObject([503, { code: 'DB_EXECUTE_FAILED', message }])
  expect(consoleSaid).toEqual([
    `the console failed: ${join(dir, FEEDS_FILE)} cannot be opened or created (is the directory writable?)`,
  ])
})

describe('a feed of the console', () => {
  test('is added, with what is shown of it, and its secrets in its file alone', async () => {
    const { ask, dir, feeds, listed } = await start()
    const json = { source: SECRET, type: 'socks5', every: '5m', map: 'IP Address=ip' }
    const { status, text } = await ask('/console/feeds', post(json))
    expect(status).toBe(201)
    const shown = {
      ...{ id: expect.stringMatching(/^[0-9a-f]{32}$/), source: SHOWN, from: 'console' },
      ...{ last_success: null, rows: null, error: null, next_try: '2026-11-20T12:00:00.000Z' },
      ...{ paused: false, running: false, history: [] },
      options: {
        ...{ ...OPTIONS, type: 'socks5', map: 'IP Address=ip', every: '5m' },
        ...{ replace: false, check: false, paused: false },
      },
    }
    expect(JSON.parse(text)).toEqual(shown)
    expect(await listed()).toContainEqual(shown)
    expect(text).not.toContain('SECRET')
    const file = join(dir, FEED_LINES_FILE)
    expect(readFileSync(file, 'utf8')).toBe(`${SECRET} type=socks5 every=5m map="IP Address=ip"\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(feeds.current().at(-1)).toMatchObject({ source: SECRET, type: 'socks5' })
  })

  test('is changed, keeping its source, and paused, which leaves it no next try', async () => {
    const { value, add, dir } = await start()
    const id = await add({ source: SECRET, type: 'http' })
    const path = `/console/feeds/${id}`
    expect(await value(path, put({ type: 'socks4' }))).toMatchObject({
      options: { type: 'socks4' },
    })
    const paused = await value(path, put({ type: 'socks4', paused: true }))
    expect(paused).toMatchObject({ paused: true, next_try: null })
    const text = readFileSync(join(dir, FEED_LINES_FILE), 'utf8')
    expect(text).toBe(`${SECRET} type=socks4 paused\n`)
    expect(await value(path, put({}))).toMatchObject({ paused: false, options: { type: '' } })
  })

  test('is what adding and changing it answer, whatever others were fetched', async () => {
    const { value, dir } = await start()
    await withFeeds(dir, store => store.keepOnly([{ id: 'a', shown: '/earlier' }], T0))
    const added = await value('/console/feeds', post({ source: '/later' }))
    const changed = await value(`/console/feeds/${added.id}`, put({ type: 'socks4' }))
    expect([added, changed]).toMatchObject([{ source: '/later' }, { source: '/later' }])
  })

  test('is removed, alone', async () => {
    const { value, add, listed, dir } = await start()
    const [one] = [await add({ source: '/one' }), await add({ source: '/two' })]
    expect(await value(`/console/feeds/${one}`, DELETE)).toEqual({})
    const sources = (await listed()).map(({ source }: { source: string }) => source)
    expect(sources).toEqual(['/file', '/option', '/two'])
    expect(readFileSync(join(dir, FEED_LINES_FILE), 'utf8')).toBe('/two\n')
  })

  test('of another server, or of an editor, is seen at once', async () => {
    const { listed, dir } = await start()
    writeFileSync(join(dir, FEED_LINES_FILE), '# mine\n/three every=1h\n')
    expect(await listed()).toContainEqual(
      expect.objectContaining({ source: '/three', from: 'console' }),
    )
  })

  test('that a file has with a mistake is left out with all others, and said', async () => {
    const { value, said, dir } = await start()
    writeFileSync(join(dir, FEED_LINES_FILE), '/one\n/three evry=1h\n')
    const { feeds, problem } = await value('/console/feeds')
    expect(feeds).toHaveLength(2)
    expect(problem).toMatch(/^console-feeds:2: unknown option 'evry'.*are left out$/)
    expect(said).toEqual([problem])
  })

  test('that settings name, too, is theirs', async () => {
    const { listed, dir } = await start()
    writeFileSync(join(dir, FEED_LINES_FILE), '/option type=http\n')
    expect(await listed()).toMatchObject([
      { from: 'file' },
      { from: 'option', options: { type: '' } },
    ])
  })
})

test('a feed says what its last fetches brought', async () => {
  const { dir, idOf, listed } = await start()
  const id = await idOf('/file')
  await withFeeds(dir, store => store.save(id, { ...FEED_STATE, source: '/file' }))
  expect((await listed())[0]).toMatchObject({
    ...{ source: '/file', last_success: '2026-11-20T12:00:00.000Z', rows: 3, error: 'x' },
    history: [
      { at: '2026-11-20T12:00:00.000Z', times: 1, rows: null, error: 'x' },
      {
        ...{ at: '2026-11-20T11:59:59.999Z', times: 1, error: '' },
        rows: { usable: 3, added: 2, updated: 1, rejected: 1 },
      },
    ],
  })
})

test('a feed that this server does not fetch is shown without a place', async () => {
  const { dir, listed } = await start()
  await withFeeds(dir, store => store.keepOnly([{ id: 'a', shown: '/elsewhere' }], T0))
  expect(await listed()).toContainEqual(
    expect.objectContaining({ source: '/elsewhere', from: null, options: null }),
  )
})

describe('fetch now', () => {
  test('is for feeds of every place, and not for one that is being fetched', async () => {
    const { ask, idOf, add, fetched, refusal } = await start()
    await add({ source: '/mine' })
    for (const source of ['/option', '/file', '/mine']) {
      const { status } = await ask(`/console/feeds/${await idOf(source)}/fetch`, post({}))
      expect(status).toBe(200)
    }
    expect(fetched.map(({ source }) => source)).toEqual(['/option', '/file', '/mine'])
    expect(await refusal(`/${await idOf('/mine')}/fetch`, post({}))).toBe(
      '409 this feed is being fetched already',
    )
    expect(await refusal('/nothing/fetch', post({}))).toBe('404 there is no such feed here')
  })
  test('is not for one that the checker fetches', async () => {
    const { add, fetched, refusal } = await start()
    const id = await add({ source: '/raw', check: true })
    expect(await refusal(`/${id}/fetch`, post({}))).toStartWith('409 this feed is marked check')
    expect(fetched).toEqual([])
  })
})

describe('a preview', () => {
  test('is ten rows as they would be imported, and changes nothing', async () => {
    const server = await startFeedServer({ '/a': reply(200, {}, `${lines(12)}nonsense\n`) })
    const { value, listed, dir } = await start()
    const before = await listed()
    const source = `${server.url}/a?token=SECRET`
    const found = await value('/console/feeds/preview', post({ source }))
    expect(found).toMatchObject({ rows: 12, rejected: 1, error: null })
    expect(found.first).toHaveLength(10)
    expect(found.first[0]).toEqual({
      ...{ address: '198.51.100.0:80', type: 'http', anon: '', country: '', city: '', works: null },
      ...{ ping_ms: null, checked: '2026-11-20T12:00:00.000Z' },
    })
    expect(found.messages).toEqual([expect.stringMatching(/^line 13: |token=\*\*\*:13: /)])
    expect(JSON.stringify(found)).not.toContain('SECRET')
    expect(await listed()).toEqual(before)
    expect(await Bun.file(join(dir, FEED_LINES_FILE)).exists()).toBeFalse()
  })

  test('of a feed that is there needs its id alone, and has the options that are given', async () => {
    const server = await startFeedServer({ '/a': reply(200, {}, '192.0.2.1:80\n') })
    const { value, add } = await start()
    const id = await add({ source: `${server.url}/a?token=SECRET` })
    const preview = (more: object) => value('/console/feeds/preview', post({ id, ...more }))
    expect(await preview({})).toMatchObject({ rows: 0, error: expect.stringContaining('type') })
    expect(await preview({ type: 'socks4' })).toMatchObject({ first: [{ type: 'socks4' }] })
    expect(await preview({ check: true })).toMatchObject({ first: [{ type: '' }] })
    const both = { check: true, type: 'socks4' }
    expect(await preview(both)).toMatchObject({ first: [{ type: 'socks4' }] })
  })

  test('says why a fetch would fail, by the rules of redirects and addresses', async () => {
    const server = await startFeedServer({ '/a': reply(302, { Location: 'http://nowhere.test/' }) })
    const { value } = await start()
    const of = async (source: string) =>
      (await value('/console/feeds/preview', post({ source }))).error
    expect(await of(`${server.url}/a`)).toBe('redirects to a name that is not known')
    expect(await of('/dev/null')).toContain('it is not a regular file')
    expect(await of(`${server.url}/b`)).toBe('answers with status 404')
  })

  test('is one of two at most', async () => {
    const { promise, resolve } = Promise.withResolvers<Preview>()
    const { ask, refusal } = await start({ preview: () => promise })
    const asked = [1, 2].map(() => ask('/console/feeds/preview', post({ source: '/a' })))
    const third = await refusal('/preview', post({ source: '/a' }))
    expect(third).toBe('409 other previews are under way; try again')
    resolve({ kind: 'failed', error: 'x', retryAfterMs: null })
    for (const { status } of await Promise.all(asked)) expect(status).toBe(200)
  })

  test('whose client leaves says nothing on stderr, and makes room for another', async () => {
    const failing = Promise.withResolvers<Preview>()
    const { ask, printed } = await start({
      preview(signal) {
        signal.addEventListener('abort', () => failing.reject(signal.reason))
        return failing.promise
      },
    })
    const controller = new AbortController()
    const left = [1, 2].map(() =>
      ask('/console/feeds/preview', { ...post({ source: '/a' }), signal: controller.signal }),
    )
    await new Promise(setImmediate)
    controller.abort()
    for (const { status } of await Promise.all(left)) expect(status).toBe(409)
    expect(printed).toEqual([])
    // The failure of one whose client is still there is said.
    expect((await ask('/console/feeds/preview', post({ source: '/a' }))).status).toBe(500)
    expect(printed).toHaveLength(1)
  })
})

test('a feed keeps the file of headers that its line has, and gets no other', async () => {
  const server = await startFeedServer({ '/a': reply(200, {}, lines(1)) })
  const { value, refusal, listed, dir } = await start()
  const [source, mine, other] = [`${server.url}/a`, join(dir, 'mine'), join(dir, 'other')]
  for (const file of [mine, other]) writeFileSync(file, `X-Of: ${file}\n`, { mode: 0o600 })
  writeFileSync(join(dir, FEED_LINES_FILE), `${source} headers=${mine}\n`)
  const { id } = (await listed()).at(-1)
  const refused =
    '400 headers= is for the feeds file: the console sends no file of the server anywhere'
  expect(await refusal('/preview', post({ source, headers: mine }))).toBe(refused)
  expect(await refusal('/preview', post({ id, headers: other }))).toBe(refused)
  expect(await refusal(`/${id}`, put({ headers: other }))).toBe(refused)
  expect(server.asked).toEqual([])
  await value('/console/feeds/preview', post({ id, headers: mine }))
  expect(server.asked.map(({ headers }) => headers.get('x-of'))).toEqual([mine])
  const paused = await value(`/console/feeds/${id}`, put({ headers: mine, paused: true }))
  expect(paused).toMatchObject({ options: { headers: mine, paused: true } })
})

describe('is refused:', () => {
  const shared = start()

  test.each([
    [{}, '400 source must be a URL or a path'],
    [{ source: 'ftp://a/b' }, '400 ftp://a/b must be an http:// or https:// URL'],
    [{ source: '/a', type: 'x' }, '400 type must be http, https, socks4, socks5'],
    [{ source: '/a', every: '5' }, '400 every must be a duration from 1s to 7d, such as 60s'],
    [{ source: '/a', map: '1=nothing' }, /^400 feed \/a: map/],
    [{ source: '/a', headers: '/h' }, '400 headers= is for URLs; a path has no headers'],
    [{ source: 'http://a/b', headers: '/h' }, /^400 headers= is for the feeds file/],
    [
      { source: 'http://a/b', 'type=http\nhttp://evil/ headers': '/h' },
      '400 nothing of a feed may have a double quote or a line break',
    ],
    [{ source: '/a', replace: 'yes' }, '400 replace must be true or false'],
    [{ source: '/a', type: 1 }, '400 type must be a string'],
    [{ source: '/a', evry: '5m' }, /^400 unknown option 'evry'; a feed is SOURCE/],
    [{ source: `/${'a'.repeat(9000)}` }, '400 the line of a feed may have at most 8192 characters'],
    [
      { source: '/a" http://evil/ "' },
      '400 nothing of a feed may have a double quote or a line break',
    ],
    [{ source: '/file' }, '409 this feed is there already'],
    [{ source: '/a', replace: true }, /^409 the feed \/a says replace/],
  ])('%j', async (json, message) => {
    const { refusal, listed } = await shared
    expect(await refusal('', post(json))).toMatch(message)
    expect(await listed()).toHaveLength(2)
  })

  test('changing or removing one that settings have', async () => {
    const { refusal, idOf } = await shared
    const [option, file] = [await idOf('/option'), await idOf('/file')]
    const elsewhere = '409 this feed is set up by --feed; change it there'
    expect(await refusal(`/${option}`, put({ type: 'http' }))).toBe(elsewhere)
    expect(await refusal(`/${option}`, DELETE)).toBe(elsewhere)
    expect(await refusal(`/${file}`, DELETE)).toBe(
      '409 this feed is set up in the feeds file; change it there',
    )
    expect(await refusal('/none', DELETE)).toBe('404 there is no such feed here')
  })

  test('any change on a server with the sample list', async () => {
    const { value, short } = startConsole(dataDirectory())
    expect(await value('/console/feeds')).toEqual({ feeds: [], problem: null })
    expect(await short('/console/feeds', post({ source: '/a' }))).toBe('409 CONFLICT')
    expect(await short('/console/feeds/preview', post({ source: '/a' }))).toBe('409 CONFLICT')
  })
})

test('of two feeds that cannot stand together, and of a feed added twice, one is refused, also where another server adds the other', async () => {
  const dir = dataDirectory()
  const lines = feedLinesIn(dir)
  const settings = { feed: undefined, feeds: undefined, feedEvery: 60_000, providerService: '' }
  let meanwhile = ''
  /** Another server adds a line when this one has read the lines that its change is checked by. */
  const readLines = (): string => {
    const text = lines.readLines()
    if (meanwhile !== '') lines.replaceLines(text, `${text}${meanwhile}`)
    meanwhile = ''
    return text
  }
  const feeds = await loadCurrentFeeds(settings, () => {})
  const { ask } = startConsole(dir, {
    feeds: {
      ...{ feeds, lines: { ...lines, readLines }, isRunning: () => false, fetchNow() {} },
      preview: () => Promise.reject(new Error('none was asked for')),
    },
  })
  for (const [source, line, message] of [
    ['/a', '/b replace\n', 'replace is for an only feed'],
    ['/c', '/c\n', 'this feed is there already'],
  ] as const) {
    lines.replaceLines(lines.readLines(), '')
    meanwhile = line
    const { status, text } = await ask('/console/feeds', post({ source }))
    expect([status, JSON.parse(text).message]).toEqual([409, expect.stringContaining(message)])
    expect(lines.readLines()).toBe(line)
  }
})
