/** The archive of a backup: what tar(1) lists of it, and what an archive of 0.1.0 holds besides. Others: restore.test.ts. */
import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { extractArchive, writeArchive } from '../../src/sqlite/archive.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

async function pack(files: readonly (readonly [string, Uint8Array])[], nowMs = T0) {
  const dir = temporaryDirectory()
  for (const [name, bytes] of files) writeFileSync(join(dir, name), bytes)
  const chunks: Uint8Array[] = []
  const named = files.map(([name]) => ({ file: join(dir, name), name }))
  await writeArchive(
    async chunk => void chunks.push(chunk),
    named,
    nowMs,
    () => {},
  )
  return Buffer.concat(chunks)
}

test('tar(1) lists an archive with owner 0, mode 600 and its time, also after 2038', async () => {
  const file = join(temporaryDirectory(), 'a.tar')
  writeFileSync(file, await pack([['proxies.db', new Uint8Array(5)]], Date.UTC(2040, 0, 1)))
  const { stdout } = Bun.spawnSync(['tar', '--numeric-owner', '--utc', '-tvf', file], {
    env: { ...process.env, LC_ALL: 'C' },
  })
  expect(stdout.toString()).toMatch(/^-rw------- 0\/0 +5 2040-01-01 00:00 proxies\.db\n$/)
})

test('checksums in an archive of proxylist 0.1.0 are skipped', async () => {
  const files = ['a.db', 'SHA256SUMS', 'b.db'].map(name => [name, new Uint8Array(9)] as const)
  async function* bytes() {
    yield await pack(files)
  }
  const target = (name: string): string => join(temporaryDirectory(), name)
  expect(await extractArchive(bytes(), target, () => {})).toEqual(['a.db', 'b.db'])
})
