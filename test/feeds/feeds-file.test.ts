/** The one feeds file: where it is, how a server reads it again, and how the console changes it. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Feed } from '../../src/feeds/feed.ts'
import { loadCurrentFeeds } from '../../src/feeds/feeds-file.ts'
import { lockPath } from '../../src/sqlite/database-files.ts'
import { rewriteFile } from '../../src/sqlite/feeds.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

let data = ''
let file = ''
let said: string[] = []
beforeEach(() => {
  data = temporaryDirectory()
  file = join(data, 'feeds')
  said = []
})

const load = (more: { feed?: string; feeds?: string } = {}) =>
  loadCurrentFeeds(
    {
      ...{ data, feed: more.feed, feeds: more.feeds },
      ...{ feedEvery: 60_000, providerService: '' },
    },
    sentence => void said.push(sentence),
  )
const sourcesOf = (feeds: { current(): readonly Feed[] }) =>
  feeds.current().map(({ source, from }) => `${source} ${from}`)

describe('the feeds of a server', () => {
  test('come from the data directory or the file of --feeds, and from --feed', () => {
    expect(sourcesOf(load())).toEqual([])
    writeFileSync(file, '# ours\n/a\n')
    expect(sourcesOf(load({ feed: '/b' }))).toEqual(['/b option', '/a file'])
    writeFileSync(join(data, 'other'), '/c\n')
    expect(sourcesOf(load({ feeds: join(data, 'other') }))).toEqual(['/c file'])
  })

  test('come from --feed when the file names them too', () => {
    writeFileSync(file, '/a type=http\n/b\n')
    const feeds = load({ feed: '/a' })
    expect(sourcesOf(feeds)).toEqual(['/a option', '/b file'])
    expect(feeds.current()[0]?.type).toBeUndefined()
  })

  test('change with the file, unless it has a mistake, which is reported once', async () => {
    writeFileSync(file, '/a\n')
    const feeds = load()
    const seen: string[][] = []
    feeds.onChange(all => void seen.push(all.map(({ source }) => source)))
    await feeds.reload()
    writeFileSync(file, '/a\n/b evry=5m\n')
    for (let n = 0; n < 2; n += 1) await feeds.reload()
    expect(feeds.problem()).toStartWith(`${file}:2: unknown option 'evry'`)
    expect(sourcesOf(feeds)).toEqual(['/a file'])
    expect(said).toEqual([`${feeds.problem()}; the feeds stay as they were`])
    await feeds.reload(true) // asked for
    expect(said).toHaveLength(2)
    writeFileSync(file, '/a\n/b\n')
    await feeds.reload()
    expect([feeds.problem(), seen]).toEqual([null, [['/a', '/b']]])
    expect(said.at(-1)).toBe(`${file} was read again: 2 feeds`)
    rmSync(file)
    mkdirSync(file)
    await feeds.reload()
    expect(feeds.problem()).toBe(
      `cannot read the feeds file ${file}: it is a directory, not a file`,
    )
  })
})

test('a change that cannot be applied leaves the feeds unchanged, and is retried', async () => {
  writeFileSync(file, '/a\n')
  const feeds = load()
  let isBroken = true
  feeds.onChange(() => {
    if (isBroken) throw new Error('no space left')
  })
  writeFileSync(file, '/b\n')
  await expect(feeds.reload()).rejects.toThrow('no space left')
  expect(sourcesOf(feeds)).toEqual(['/a file'])
  isBroken = false
  await feeds.reload()
  expect(sourcesOf(feeds)).toEqual(['/b file'])
})

describe('the console', () => {
  test('replaces the whole file, for its owner only', () => {
    rewriteFile(file, text => `${text}/a\n`)
    rewriteFile(file, text => `${text}/b\n`)
    expect(readFileSync(file, 'utf8')).toBe('/a\n/b\n')
    expect(readdirSync(data).sort()).toEqual(['feeds', 'feeds.lock'])
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('refuses to write while another process does, and says when it cannot write', () => {
    const release = lockPath(file, 0)
    expect(() => rewriteFile(file, () => '/a\n')).toThrow(`${file} is being changed; try again`)
    release?.()
    mkdirSync(file)
    expect(() => rewriteFile(file, () => '/a\n')).toThrow(`${file} cannot be written: `)
  })
})
