/** Feeds marked `check`: their rows come to the checker in small portions, and the list stays as it is. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fetchCandidates } from '../../src/cli/commands/feeds.ts'
import { type CandidateRow, createCandidateAttempts } from '../../src/feeds/candidates.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { loadCurrentFeeds } from '../../src/feeds/feeds-file.ts'
import { type FeedState, newState } from '../../src/feeds/store.ts'
import { feedLinesIn, openFeeds } from '../../src/sqlite/feeds.ts'
import { lines } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { SOURCE } from '../support/program.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const settingsOf = (data: string) => ({
  ...{ data, database: undefined, databaseTimeout: 0 },
  ...{ geoip: [], providerService: 'the service' },
})

/** A feed of these lines, marked `check`, and attempts at it that collect its rows. */
function feedOf(text: string, options = '') {
  const dir = temporaryDirectory()
  const file = join(dir, 'raw.txt')
  writeFileSync(file, text)
  const [feed] = parseFeeds(`${file} check ${options}`, 60_000, '--feed') as [Feed]
  const batches: (readonly CandidateRow[])[] = []
  const start = (take: (rows: readonly CandidateRow[]) => number) => {
    const attempt = createCandidateAttempts(take, settingsOf(dir), SOURCE)
    return (before: FeedState) => attempt(feed, before, new AbortController().signal)
  }
  const collect = (rows: readonly CandidateRow[]): number => {
    batches.push(rows)
    return rows.length - 1 // one was there
  }
  return { dir, file, feed, batches, start, collect }
}

const NEW = newState('', T0)

test('rows say what they know, bare addresses too, and bad ones are counted', async () => {
  const text = '192.0.2.1:80\nsocks5://192.0.2.2:1080\nnonsense\n'
  const { dir, batches, start, collect } = feedOf(text)
  expect(await start(collect)(NEW)).toMatchObject({
    ...{ kind: 'imported', rows: 2, rejected: 1, changes: { added: 1, updated: 0 } },
  })
  const checkedAt = expect.any(Number)
  expect(batches).toEqual([
    [
      { ip: '192.0.2.1', port: 80, type: null, works: null, checkedAt },
      { ip: '192.0.2.2', port: 1080, type: 'socks5', works: null, checkedAt },
    ],
  ])
  expect(existsSync(join(dir, 'proxies.db'))).toBeFalse()
})

test('the type of its line, and what a table says, come with them', async () => {
  const text = 'ip,works,checked_at\n192.0.2.1:80,40,1795000000\n'
  const { batches, start, collect } = feedOf(text, 'type=socks4')
  await start(collect)(NEW)
  const said = { type: 'socks4', works: 40, checkedAt: 1_795_000_000 } as const
  expect(batches).toEqual([[{ ip: '192.0.2.1', port: 80, ...said }]])
})

test('many come in portions', async () => {
  const { batches, start, collect } = feedOf(lines(1100))
  expect(await start(collect)(NEW)).toMatchObject({ rows: 1100 })
  const sizes = batches.map(rows => rows.length)
  expect([Math.max(...sizes), sizes.reduce((a, b) => a + b)]).toEqual([500, 1100])
})

test('one that is as it was is read again by the next checker only', async () => {
  const { batches, start, collect } = feedOf('192.0.2.1:80\n')
  const attempt = start(collect)
  const result = await attempt(NEW)
  if (result.kind !== 'imported') throw new Error(result.kind)
  const known = { ...NEW, ...result }
  expect(await attempt(known)).toEqual({ kind: 'unchanged' })
  expect(batches).toHaveLength(1)
  expect(await start(collect)(known)).toMatchObject({ kind: 'imported' })
  expect(batches).toHaveLength(2)
})

test('one whose rows cannot be stored has failed, and is ended', async () => {
  const { start } = feedOf(lines(1100))
  let calls = 0
  const fail = () => {
    calls += 1
    throw new Error('the disk is full')
  }
  const error = 'the disk is full'
  expect(await start(fail)(NEW)).toEqual({ kind: 'failed', error, retryAfterMs: null })
  expect(calls).toBe(1)
})

test('the checker fetches those alone that are marked, of a file and of the console', async () => {
  const dir = temporaryDirectory()
  for (const name of ['list', 'raw', 'more']) {
    writeFileSync(join(dir, name), `192.0.2.${name.length}:80\n`)
  }
  const file = join(dir, 'feeds.conf')
  writeFileSync(file, `${dir}/list type=http\n${dir}/raw check\n`)
  writeFileSync(join(dir, 'console-feeds'), `${dir}/more check\n${dir}/gone check paused\n`)
  const settings = { ...settingsOf(dir), feed: undefined, feeds: file, feedEvery: 60_000 }
  const store = openFeeds(dir)
  onCleanUp(store.close)
  const said: string[] = []
  const taken = Promise.withResolvers<void>()
  const say = (sentence: string): void => {
    said.push(sentence)
    if (said.length === 2) taken.resolve()
  }
  const found: string[] = []
  const take = (rows: readonly CandidateRow[]): number => found.push(...rows.map(({ ip }) => ip))
  const feeds = await loadCurrentFeeds(settings, say)
  const onFailure = taken.reject
  const jobs = await fetchCandidates(
    {
      ...{ feeds, feedLines: feedLinesIn(dir), openStore: () => store },
      ...{ take, settings, clock: () => T0, say, onFailure },
    },
    SOURCE,
  )
  await taken.promise
  for (const job of jobs) job.stop()
  expect(said.sort()).toEqual([`feed ${dir}/more: 1 row`, `feed ${dir}/raw: 1 row`])
  expect(found.sort()).toEqual(['192.0.2.3', '192.0.2.4'])
  expect(store.list().map(({ source }) => source)).toEqual([`${dir}/more`, `${dir}/raw`])
})
