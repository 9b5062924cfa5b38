/** The console's feeds: shapes, changes of the feeds file, refusals, and secrets. */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Feed } from '../../src/feeds/feed.ts'
import { loadCurrentFeeds } from '../../src/feeds/feeds-file.ts'
import { newState } from '../../src/feeds/store.ts'
import { FEEDS_FILE } from '../../src/sqlite/data-directory.ts'
import { withFeeds } from '../../src/sqlite/stores.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { cleanUp } from '../support/temporary.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)

const DELETE = { method: 'DELETE' }

const post = (json: unknown) => ({ method: 'POST', json })
const put = (json: unknown) => ({ method: 'PUT', json })

/** The console of a server that has the feed `/option`, and `/file` in its feeds file. */
async function start({ isShared = false } = {}) {
  const dir = dataDirectory()
  const file = join(dir, 'feeds')
  writeFileSync(file, '/file type=http\n', { mode: 0o600 })
  const settings = {
    ...{ data: dir, feed: '/option', feeds: undefined },
    ...{ feedEvery: 60_000, providerService: 'the service' },
  }
  const feeds = loadCurrentFeeds(settings, () => {})
  const fetched: Feed[] = []
  const console = startConsole(dir, {
    feeds: {
      ...{ feeds, file: isShared ? null : file },
      isRunning: id => fetched.some(feed => feed.id === id),
      fetchNow: feed => void fetched.push(feed),
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
  const text = (): string => readFileSync(file, 'utf8')
  return { ...console, dir, file, feeds, fetched, refusal, listed, idOf, add, text }
}

const SECRET = 'https://user:SECRET@example.com/list?token=SECRET'
const SHOWN = 'https://***@example.com/list?token=***'
const OPTIONS = { format: '', type: '', 'ping-unit': '', map: '', headers: '' }

test('a feeds file that cannot be used is a 503 with a message on stderr', async () => {
  const { ask, dir, said } = await start()
  rmSync(join(dir, FEEDS_FILE), { force: true })
  mkdirSync(join(dir, FEEDS_FILE))
  const { status, text } = await ask('/console/feeds')
  const message = 'the data cannot be used now; stderr of the server says more'
  expect([status, JSON.parse(text)]).toMatchObject([503, { code: 'DB_EXECUTE_FAILED', message }])
  expect(said).toEqual([
    expect.stringContaining(`the console failed: ${join(dir, FEEDS_FILE)} cannot be used (`),
  ])
})

describe('a feed of the feeds file', () => {
  test('is added, and shown without its secrets, which only the file has', async () => {
    const { ask, feeds, listed, text, file } = await start()
    const json = { source: SECRET, type: 'socks5', every: '5m', map: 'IP Address=ip' }
    const answer = await ask('/console/feeds', post(json))
    expect(answer.status).toBe(201)
    const shown = {
      ...{ id: expect.stringMatching(/^[0-9a-f]{32}$/), source: SHOWN, from: 'file' },
      ...{ last_success: null, rows: null, error: null, next_try: '2026-11-20T12:00:00.000Z' },
      ...{ paused: false, running: false, stale_since: null },
      options: {
        ...{ ...OPTIONS, type: 'socks5', map: 'IP Address=ip', every: '5m' },
        ...{ replace: false, check: false, paused: false },
      },
    }
    expect(JSON.parse(answer.text)).toEqual(shown)
    expect(await listed()).toContainEqual(shown)
    expect(answer.text).not.toContain('SECRET')
    expect(text()).toBe(`/file type=http\n${SECRET} type=socks5 every=5m map="IP Address=ip"\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(feeds.current().at(-1)).toMatchObject({ source: SECRET, type: 'socks5' })
  })

  test('is changed and paused, keeps its source, and then has no next try', async () => {
    const { value, idOf, text } = await start()
    const path = `/console/feeds/${await idOf('/file')}`
    expect(await value(path, put({ type: 'socks4' }))).toMatchObject({
      options: { type: 'socks4' },
    })
    const paused = await value(path, put({ type: 'socks4', paused: true }))
    expect(paused).toMatchObject({ paused: true, next_try: null })
    expect(text()).toBe('/file type=socks4 paused\n')
    expect(await value(path, put({}))).toMatchObject({ paused: false, options: { type: '' } })
  })

  test('is removed; other lines and comments stay', async () => {
    const { value, add, listed, file, text } = await start()
    writeFileSync(file, '# ours\n/file type=http\n')
    const [one] = [await add({ source: '/one' }), await add({ source: '/two' })]
    expect(await value(`/console/feeds/${one}`, DELETE)).toEqual({})
    const sources = (await listed()).map(({ source }: { source: string }) => source)
    expect(sources).toEqual(['/file', '/option', '/two'])
    expect(text()).toBe('# ours\n/file type=http\n/two\n')
  })

  test('is seen at once if an editor or another server has added it', async () => {
    const { listed, file } = await start()
    writeFileSync(file, '# mine\n/three every=1h\n')
    expect(await listed()).toContainEqual(
      expect.objectContaining({ source: '/three', from: 'file' }),
    )
  })

  test('with a mistake is shown, and blocks changes until it is corrected', async () => {
    const { value, refusal, file } = await start()
    writeFileSync(file, '/one\n/three evry=1h\n')
    const { feeds, problem } = await value('/console/feeds')
    expect(feeds).toMatchObject([{ source: '/file' }, { source: '/option' }])
    expect(problem).toStartWith(`${file}:2: unknown option 'evry'`)
    expect(await refusal('', post({ source: '/a' }))).toBe(`409 ${problem}`)
  })
})

test('a feed that brought nothing new for over ten minutes is stale', async () => {
  const { dir, listed, add, setClock } = await start()
  const id = await add({ source: '/old' })
  await withFeeds(dir, store =>
    store.save(id, { ...newState('/old', T0), lastSuccessAt: T0 + 600_000, importedAt: T0 }),
  )
  const staleSince = async () =>
    (await listed()).find((feed: { id: string }) => feed.id === id).stale_since
  setClock(600)
  expect(await staleSince()).toBeNull()
  setClock(601)
  expect(await staleSince()).toBe('2026-11-20T12:00:00.000Z')
})

describe('fetch now', () => {
  test('works for feeds of the file and of --feed, unless one is being fetched', async () => {
    const { ask, idOf, fetched, refusal } = await start()
    for (const source of ['/option', '/file']) {
      const { status } = await ask(`/console/feeds/${await idOf(source)}/fetch`, post({}))
      expect(status).toBe(200)
    }
    expect(fetched.map(({ source }) => source)).toEqual(['/option', '/file'])
    expect(await refusal(`/${await idOf('/file')}/fetch`, post({}))).toBe(
      '409 this feed is being fetched already',
    )
    expect(await refusal('/nothing/fetch', post({}))).toBe('404 there is no such feed here')
  })
  test('refuses a feed that the checker fetches', async () => {
    const { add, fetched, refusal } = await start()
    const id = await add({ source: '/raw', check: true })
    expect(await refusal(`/${id}/fetch`, post({}))).toStartWith('409 this feed is marked check')
    expect(fetched).toEqual([])
  })
})

test('a feed keeps its header file, which the console cannot change', async () => {
  const { value, refusal, listed, file } = await start()
  writeFileSync(file, 'http://h/a headers=/etc/mine\n')
  const { id } = (await listed()).at(-1)
  const refused =
    '400 headers= is for the feeds file: the console sends no file of the server anywhere'
  expect(await refusal(`/${id}`, put({ headers: '/etc/other' }))).toBe(refused)
  const paused = await value(`/console/feeds/${id}`, put({ headers: '/etc/mine', paused: true }))
  expect(paused).toMatchObject({ options: { headers: '/etc/mine', paused: true } })
})

describe('the console refuses', () => {
  const shared = start()

  test.each([
    [{}, '400 source must be a URL or a path'],
    [{ source: 'ftp://a/b' }, '400 ftp://a/b must be an http:// or https:// URL'],
    [{ source: 'http://a/b', headers: '/h' }, /^400 headers= is for the feeds file/],
    [
      { source: 'http://a/b', 'type=http\nhttp://evil/ headers': '/h' },
      '400 a feed must not contain a double quote or a line break',
    ],
    [{ source: '/a', replace: 'yes' }, '400 replace must be true or false'],
    [{ source: '/a', evry: '5m' }, /^400 unknown option 'evry'; a feed is SOURCE/],
    [
      { source: '/a" http://evil/ "' },
      '400 a feed must not contain a double quote or a line break',
    ],
    [{ source: '/file' }, '409 this feed is there already'],
    [{ source: '/a', replace: true }, /^409 the feed \/a says replace/],
  ])('%j', async (json, message) => {
    const { refusal, listed } = await shared
    expect(await refusal('', post(json))).toMatch(message)
    expect(await listed()).toHaveLength(2)
  })

  test('to change or remove a feed of --feed', async () => {
    const { refusal, idOf } = await shared
    const option = await idOf('/option')
    const elsewhere = '409 this feed is set up by --feed; change it there'
    expect(await refusal(`/${option}`, put({ type: 'http' }))).toBe(elsewhere)
    expect(await refusal(`/${option}`, DELETE)).toBe(elsewhere)
    expect(await refusal('/none', DELETE)).toBe('404 there is no such feed here')
  })

  test('any change with a shared database, where each machine has a file', async () => {
    const { refusal, text } = await start({ isShared: true })
    const refused = '409 with a shared database, change the feeds file of every machine instead'
    expect(await refusal('', post({ source: '/a' }))).toBe(refused)
    expect(text()).toBe('/file type=http\n')
  })

  test('any change on a server with the sample list', async () => {
    const { value, short } = startConsole(dataDirectory())
    expect(await value('/console/feeds')).toEqual({ feeds: [], problem: null })
    expect(await short('/console/feeds', post({ source: '/a' }))).toBe('409 CONFLICT')
  })
})
