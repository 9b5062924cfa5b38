/** Feeds marked `check`: the checker gets their rows in small portions, and the list stays as it was. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { attemptsWith } from '../../src/cli/commands/feeds.ts'
import { createAttempts } from '../../src/feeds/attempt.ts'
import { candidateAttempts } from '../../src/feeds/candidates.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import type { CandidateRow } from '../../src/proxies/proxy.ts'
import { typeBits } from '../../src/proxies/types.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { lines } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { SOURCE } from '../support/program.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** A feed of these lines, marked `check`; `start` is a checker, which returns a function that makes an attempt. */
function feedOf(text: string, options = '', name = 'raw.txt') {
  const data = temporaryDirectory()
  const file = join(data, name)
  writeFileSync(file, text)
  const [feed] = parseFeeds(`${file} check ${options}`, 60_000, '--feed') as [Feed]
  const settings = {
    ...{ data, database: undefined, databaseTimeout: 0 },
    ...{ geoip: [], providerService: 'the service' },
  }
  const store = openFeeds(data)
  onCleanUp(store.close)
  const batches: (readonly CandidateRow[])[] = []
  const collect = (rows: readonly CandidateRow[]): number => batches.push(rows)
  const start = (take: (rows: readonly CandidateRow[]) => number = collect) => {
    const attempts = createAttempts({
      ...attemptsWith(settings, () => T0),
      ...candidateAttempts(take, settings, SOURCE),
      openStore: () => store,
    })
    return () => attempts.run(feed, new AbortController().signal)
  }
  return { data, batches, start }
}

test('a feed gives typed rows and bare addresses, and counts bad ones', async () => {
  const text = '192.0.2.1:80\nsocks5://192.0.2.2:1080\nnonsense\n'
  const { data, batches, start } = feedOf(text)
  expect(await start()()).toMatchObject({ error: '', rows: 2, rejected: 1 })
  const checkedAt = expect.any(Number)
  expect(batches).toEqual([
    [
      { ip: '192.0.2.1', port: 80, types: 0, works: null, checkedAt },
      { ip: '192.0.2.2', port: 1080, types: typeBits(['socks5']), works: null, checkedAt },
    ],
  ])
  expect(existsSync(join(data, 'proxies.db'))).toBeFalse()
})

test('a feed gives candidates the type of its line and the values of its table', async () => {
  const text = 'ip,works,checked_at\n192.0.2.1:80,40,1795000000\n'
  const { batches, start } = feedOf(text, 'type=socks4')
  await start()()
  const said = { types: typeBits(['socks4']), works: 40, checkedAt: 1_795_000_000 } as const
  expect(batches).toEqual([[{ ip: '192.0.2.1', port: 80, ...said }]])
})

test('a feed gives many candidates in batches of 500', async () => {
  const { batches, start } = feedOf(lines(1100))
  expect(await start()()).toMatchObject({ rows: 1100 })
  const sizes = batches.map(rows => rows.length)
  expect([Math.max(...sizes), sizes.reduce((a, b) => a + b)]).toEqual([500, 1100])
})

test('an unchanged feed is read again by the next checker only', async () => {
  const { batches, start } = feedOf('192.0.2.1:80\n')
  const attempt = start()
  await attempt()
  await attempt()
  expect(batches).toHaveLength(1)
  await start()()
  expect(batches).toHaveLength(2)
})

test('a feed whose rows cannot be stored fails, and its process ends', async () => {
  const { start } = feedOf(lines(1100))
  let calls = 0
  const fail = () => {
    calls += 1
    throw new Error('the disk is full')
  }
  expect(await start(fail)()).toMatchObject({ error: 'the disk is full', failures: 1 })
  expect(calls).toBe(1)
})
