/** A backup archive is extracted as it was packed, by us and by tar(1); a truncated or foreign one is refused. */
import { afterAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { extractArchive, writeArchive } from '../../src/sqlite/archive.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

async function* inChunks(bytes: Uint8Array, sizes: readonly number[]) {
  for (let at = 0, n = 0; at < bytes.length; n += 1) {
    const size = sizes[n % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}
async function pack(files: readonly (readonly [string, Uint8Array])[], nowMs = T0) {
  const dir = temporaryDirectory()
  for (const [name, bytes] of files) writeFileSync(join(dir, name), bytes)
  const chunks: Uint8Array[] = []
  let written = 0
  const total = await writeArchive(
    async chunk => void chunks.push(chunk),
    files.map(([name]) => ({ file: join(dir, name), name })),
    nowMs,
    bytes => {
      written += bytes
    },
  )
  const archive = Buffer.concat(chunks)
  expect([total, written]).toEqual([archive.length, archive.length])
  return archive
}
const extract = (bytes: Uint8Array, sizes: readonly number[], dir = temporaryDirectory()) =>
  extractArchive(
    inChunks(bytes, sizes),
    name => join(dir, name),
    () => {},
  )

test('an archive is extracted as it was packed, for all sizes of files and chunks', async () => {
  const entries = fc.uniqueArray(
    fc.tuple(fc.stringMatching(/^[a-z]{1,9}\.db$/), fc.uint8Array({ maxLength: 2000 })),
    { maxLength: 4, selector: ([name]) => name },
  )
  const sizes = fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(entries, sizes, async (files, chunkSizes) => {
      const dir = temporaryDirectory()
      const names = await extract(await pack(files), chunkSizes, dir)
      expect(names).toEqual(files.map(([name]) => name))
      for (const [name, bytes] of files) {
        expect(readFileSync(join(dir, name)).equals(Buffer.from(bytes))).toBeTrue()
      }
    }),
    { numRuns: 50 },
  )
})

test('tar(1) lists it: owner 0, readable by it only, with the time, after 2038 too', async () => {
  const file = join(temporaryDirectory(), 'a.tar')
  writeFileSync(file, await pack([['proxies.db', new Uint8Array(5)]], Date.UTC(2040, 0, 1)))
  const { stdout } = Bun.spawnSync(['tar', '--numeric-owner', '--utc', '-tvf', file], {
    env: { ...process.env, LC_ALL: 'C' },
  })
  expect(stdout.toString()).toMatch(/^-rw------- 0\/0 +5 2040-01-01 00:00 proxies\.db\n$/)
})

test('checksums in an archive of proxylist 0.1.0 are skipped', async () => {
  const files = ['a.db', 'SHA256SUMS', 'b.db'].map(name => [name, new Uint8Array(9)] as const)
  expect(await extract(await pack(files), [512])).toEqual(['a.db', 'b.db'])
})
