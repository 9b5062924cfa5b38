/** The networks that may use a key (contract G5). To other clients it is an unknown key. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { KeyChanges } from '../../src/access/key.ts'
import { nextTurn } from '../../src/lib/errors.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { ENGINES } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const KEY = 'pl_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345'
const TEMP = 'temp_ABCDEFGHIJKLMNOPQRSTUVWXYZ01234'
const IN = ['203.0.113.7', '2001:db8:5::1', '::ffff:203.0.113.9', '198.51.100.1']
const OUT = ['203.0.114.7', '2001:db9::1', '198.51.100.2', 'not an address']
const FROM = '203.0.113.0/24,2001:db8::/32,198.51.100.1'

function seeded(): { dir: string; id: string } {
  const dir = temporaryDirectory()
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
  const temporary = { key: TEMP, plan: null, expiresAt: T0 + 3_600_000 }
  const keys = [{ key: KEY, plan: 'free' }, temporary].map(key => ({ ...key, from: FROM }))
  const [id = ''] = addKeys(dir, { free: {} }, keys, T0)
  return { dir, id }
}

describe.each(ENGINES)('a key for some networks, on %s', engine => {
  const { dir, id } = seeded()
  const starting = startInProcess(dir, { engine })
  const ask = async (path: string, key: string, client: string) => {
    const headers = { authorization: `Bearer ${key}`, 'x-forwarded-for': client }
    const { status, text, headers: fields } = await (await starting).request(path, { headers })
    const kept = [...fields].filter(([name]) => name !== 'x-request-id' && name !== 'date')
    return { status, text, fields: kept }
  }
  afterAll(async () => (await starting).stop())

  test.each(['/api', '/api?sort=wrong', '/key'])('is unknown to others: %s', async path => {
    for (const [key, unknown] of [
      [KEY, 'pl_nobody'],
      [TEMP, 'temp_nobody'],
    ] as const) {
      const refused = await ask(path, unknown, '203.0.113.7')
      expect(refused.status).toBe(403)
      // Between requests that are served, whose answer is kept.
      for (const [i, client] of OUT.entries()) {
        expect(await ask(path, KEY, IN[i] ?? '')).toMatchObject({
          status: path.includes('?') ? 400 : 200,
        })
        expect(await ask(path, key, client)).toEqual(refused)
      }
    }
  })

  test('is logged with its id and the reason of a refusal', async () => {
    await ask('/api', KEY, '203.0.114.99')
    const line = (await starting)
      .output()
      .split('\n')
      .find(text => text.includes('203.0.114.99'))
    expect(JSON.parse(line ?? '')).toMatchObject({
      ...{ key: id, status: 403, client: '203.0.114.99' },
      why: 'the key is not for this client address',
    })
  })
})

test('the networks of a key change while the service runs', async () => {
  const { dir, id } = seeded()
  const service = await startInProcess(dir, {})
  const registry = openRegistry(dir)
  const statusAfter = async (changes: KeyChanges) => {
    registry.keys.set(id, changes)
    await nextTurn() // other processes' changes are looked for once a turn
    const headers = { 'x-forwarded-for': '192.0.2.44' }
    return (await service.request(`/api?key=${KEY}`, { headers })).status
  }
  expect(await statusAfter({ label: 'x' })).toBe(403)
  expect(await statusAfter({ from: '' })).toBe(200)
  expect(await statusAfter({ from: '192.0.2.0/25' })).toBe(200)
  expect(await statusAfter({ from: '192.0.2.128/25' })).toBe(403)
  registry.close()
  await service.stop()
})
