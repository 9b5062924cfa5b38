/** What an import knows of a source beside its bytes: where it comes from, and whether it may be left out. */
import { expect, test } from 'bun:test'
import { importSources, type Source } from '../../src/import/import.ts'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

const ADDRESSES = ['10.0.0.1', '100.64.0.1', '127.0.0.1', '172.16.0.1', '192.168.0.1', '192.0.2.1']
const LINES = ADDRESSES.map(ip => `http://${ip}:80\n`).join('')

test('a list on the internet cannot offer private and loopback addresses', async () => {
  const { proxies, totals } = await imported([{ ...sourceOf('f', LINES), isPublic: true }])
  expect(proxies.map(({ ip }) => ip)).toEqual(['192.0.2.1'])
  expect(totals).toMatchObject({ read: 6, rejected: 5 })
  expect(totals.missing).toBe(
    '5 of 6 rows are missing (5: ip is a private or loopback address, which a list on the internet cannot offer)',
  )
  expect((await imported([sourceOf('f', LINES)])).proxies).toHaveLength(6)
})

const FOREIGN: readonly (readonly [what: string, text: string])[] = [
  ['a README', '# Lists\n\nUpdated daily. See `http.txt`.\n'],
  ['a web page', '<!doctype html>\n<title>Lists</title>\n<p>192.0.2.9:80</p>\n'],
]

async function importWith(file: Partial<Source> & { text: string }) {
  const { text, ...more } = file
  const refused: string[] = []
  const sources = [
    { ...sourceOf('a', text), ...more },
    { ...sourceOf('b', LINES), ...more },
  ]
  const options = { format: 'auto', defaults: DEFAULTS, strict: false } as const
  const observer = {
    refused: (name: string, reason: string) => void refused.push(`${name} ${reason}`),
  }
  const { read } = await importSources(sources, options, () => {}, observer)
  return { read, refused }
}

test.each(FOREIGN)('%s in a directory of lists is named and skipped', async (_, text) => {
  const { read, refused } = await importWith({ text, isOptional: true })
  expect(read).toBe(6)
  expect(refused).toEqual([expect.stringMatching(/^a is none of the known formats/)])
})

test.each(FOREIGN)('%s that the operator names fails the import', async (_, text) => {
  await expect(importWith({ text })).rejects.toThrow(/^a: is none of the known formats/)
})

test('a truncated file in a directory of lists fails the import', async () => {
  const text = '[{"ip":"192.0.2.1:80","type":"http"},{"ip'
  await expect(importWith({ text, isOptional: true })).rejects.toThrow(/^a: is truncated/)
})
