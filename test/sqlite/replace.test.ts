/** Replacing the rows of a damaged list (src/sqlite/stores.ts). */
import { afterAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addressText } from '../../src/proxies/proxy.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { type List, withList, withListToReplace } from '../../src/sqlite/stores.ts'
import { damageOf, flipLast } from '../support/damage.ts'
import { addList, fillList, NO_FILTER, T0 } from '../support/fixtures.ts'
import { endpointOf } from '../support/rows.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const clock = () => T0
const rowOf = (ip: string) => ({ ip: `${ip}:80`, type: 'http' })
const addressesIn = ({ proxies }: List): string[] =>
  proxies
    .findAll(NO_FILTER, { nowMs: T0, addressBits: 32 })
    .rows.map(row => addressText(endpointOf(row)))
    .sort()

test('a file that is not a database is replaced with its WAL when the new list is complete', async () => {
  const dir = temporaryDirectory()
  const file = join(dir, PROXY_FILE)
  for (const end of ['', '-wal']) writeFileSync(file + end, 'no database '.repeat(1_000))
  const said: string[] = []
  const replacing = { onDamage: (sentence: string) => void said.push(sentence) }
  const fail = (): never => {
    throw new Error('the source is gone')
  }
  await expect(withListToReplace(dir, clock, fail, replacing)).rejects.toThrow('is gone')
  expect(readFileSync(file, 'utf8')).toStartWith('no database')
  expect(readdirSync(dir).filter(name => !name.startsWith(PROXY_FILE))).toEqual([])
  const replace = (list: List): unknown => fillList(list, [rowOf('192.0.2.1')], 'replace')
  await withListToReplace(dir, clock, replace, replacing)
  expect(said).toEqual(Array(2).fill(expect.stringContaining('is not a database')))
  expect(await withList(dir, clock, 'read', addressesIn)).toEqual(['192.0.2.1:80'])
})

test.each([100, 20_000])(
  'a list gets new indexes when rows and indexes of %i rows disagree',
  async rows => {
    const dir = temporaryDirectory()
    addList(
      dir,
      Array.from({ length: rows }, (_, i) => rowOf(`10.0.${i >> 8}.${i & 255}`)),
    )
    const file = join(dir, PROXY_FILE)
    flipLast(file)
    expect(damageOf(file)).not.toBeNull()
    const said: string[] = []
    const replace = (list: List): unknown => fillList(list, [rowOf('192.0.2.1')], 'replace')
    await withListToReplace(dir, clock, replace, {
      onDamage: sentence => void said.push(sentence),
    })
    expect(said).toEqual([])
    expect(damageOf(file)).toBeNull()
    expect(await withList(dir, clock, 'read', addressesIn)).toEqual(['192.0.2.1:80'])
  },
)
