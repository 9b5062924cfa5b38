/**
 * Holds the archive of a backup as it is read: what was packed is extracted, and an archive that is
 * truncated, damaged or holds something else is refused.
 */
import { afterAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { writeTar } from '../../../src/sqlite/move/tar.ts'
import { ArchiveError, extractTar } from '../../../src/sqlite/move/untar.ts'
import { T0 } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const entries = fc.uniqueArray(
  fc.tuple(fc.stringMatching(/^[a-z]{1,9}\.db$/), fc.uint8Array({ maxLength: 2000 })),
  { maxLength: 4, selector: ([name]) => name },
)
async function* inChunks(bytes: Uint8Array, sizes: readonly number[]) {
  for (let at = 0, n = 0; at < bytes.length; n += 1) {
    const size = sizes[n % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}
async function pack(files: readonly (readonly [string, Uint8Array])[]): Promise<Uint8Array> {
  const dir = temporaryDirectory()
  for (const [name, bytes] of files) writeFileSync(join(dir, name), bytes)
  const chunks: Uint8Array[] = []
  const list = files.map(([name]) => ({
    ...{ file: join(dir, name), name, mode: 0o600, uid: 1, gid: 1 },
  }))
  const total = await writeTar(
    async chunk => void chunks.push(chunk),
    list,
    T0 / 1000,
    () => {},
  )
  expect(total).toBe(Buffer.concat(chunks).length)
  return Buffer.concat(chunks)
}

test('an archive is extracted as it was packed, whatever the sizes of files and chunks', async () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(entries, sizes, async (files, chunkSizes) => {
      const dir = temporaryDirectory()
      const archive = await pack(files)
      let read = 0
      const names = await extractTar(
        inChunks(archive, chunkSizes),
        name => join(dir, name),
        bytes => {
          read += bytes
        },
      )
      expect(names).toEqual(files.map(([name]) => name))
      for (const [name, bytes] of files) {
        expect(readFileSync(join(dir, name)).equals(Buffer.from(bytes))).toBeTrue()
      }
      expect(read).toBe(files.reduce((sum, [, bytes]) => sum + bytes.length, 0))
    }),
    { numRuns: 50 },
  )
})

test('an archive that is cut anywhere before its end mark is refused', async () => {
  const archive = await pack([['a.db', new Uint8Array(700).fill(7)]])
  for (let end = 0; end < archive.length - 1023; end += 37) {
    const dir = temporaryDirectory()
    const extracting = extractTar(
      inChunks(archive.subarray(0, end), [100]),
      name => join(dir, name),
      () => {},
    )
    expect(await extracting.catch(error => error)).toBeInstanceOf(ArchiveError)
  }
})

test('an archive with a bad header, or the same file twice, is refused', async () => {
  const archive = await pack([
    ['a.db', new Uint8Array(700)],
    ['b.db', new Uint8Array(1)],
  ])
  const content = Buffer.from(archive)
  content[512 + 9] = 9
  const second = Buffer.from(archive)
  second[512 + 1024 + 20] = 9
  const twice = Buffer.concat([archive.subarray(0, 512 + 1024), archive])
  for (const [bytes, says] of [
    [second, 'is damaged'],
    [content, 'is damaged'],
    [twice, "is not a backup of proxylist: it holds 'a.db'"],
  ] as const) {
    const dir = temporaryDirectory()
    const extracting = extractTar(
      inChunks(bytes, [512]),
      name => join(dir, name),
      () => {},
    )
    expect(await extracting.catch(String)).toBe(`Error: ${says}`)
  }
})
