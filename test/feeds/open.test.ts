/** Opened sources of feeds leave files of others alone. */
import { afterAll, expect, test } from 'bun:test'
import { closeSync, fstatSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { openFeed } from '../../src/feeds/fetch.ts'
import { reply, startFeedServer } from '../support/feed-server.ts'
import { lines } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const TEXT = lines(10_000)

/** A feed of `TEXT` from a URL, opened. */
async function open() {
  const server = await startFeedServer({ '/a': reply(200, {}, TEXT) })
  const [feed] = parseFeeds(`${server.url}/a`, 60_000, '--feed')
  const { signal } = new AbortController()
  const context = {
    dir: temporaryDirectory(),
    userAgent: 'x',
    nowMs: T0,
    bytesMax: 2 ** 20,
    signal,
  }
  const opened = await openFeed(feed as Feed, null, context)
  if (opened.kind !== 'changed') throw new Error('it has not changed')
  return opened
}

test('an import that ends before its source closes no file but that', async () => {
  const { sources, close } = await open()
  const reading = sources[0]?.bytes[Symbol.asyncIterator]()
  await reading?.next()
  void reading?.return?.()
  close()
  const fd = openSync(import.meta.path, 'r') // has the number of the one that was closed
  for (let n = 0; n < 10; n += 1) await readFile(import.meta.path) // by threads, as what is asynchronous
  expect(fstatSync(fd).isFile()).toBeTrue()
  closeSync(fd)
})
