/** Pages of the list of keys, over both stores (`src/admin/key-page.ts`, `keys.ts`). */
import { afterAll, describe, expect, test as skippable } from 'bun:test'
import { keySubject } from '../../src/access/entitlements.ts'
import { hashKey, type StoredKey } from '../../src/access/key.ts'
import type { Registry } from '../../src/access/ports.ts'
import type { KeyPage } from '../../src/admin/api-types.ts'
import { keyRoutes } from '../../src/admin/keys.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import { builtIn, decideAll } from '../support/limits.ts'
import { REGISTRY_ENGINES } from '../support/registries.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** What the routes of a registry answer. */
async function ask<T>(registry: Registry, path: string, json?: object): Promise<T> {
  const pattern = path.replace(/\?.*/, '')
  const init = json && {
    ...{ method: 'POST', body: JSON.stringify(json) },
    headers: { 'content-type': 'application/json' },
  }
  const request = new Request(`http://127.0.0.1${path}`, init)
  const route = keyRoutes(registry)[pattern]?.[request.method]
  const replied = await route?.({ request, name: '', nowMs: T0 })
  return (replied?.kind === 'value' ? replied.value : null) as T
}
const pageOf = (registry: Registry, query: string) =>
  ask<KeyPage>(registry, `/console/keys?${query}`)
const idsOf = async (registry: Registry, query: string): Promise<string> =>
  (await pageOf(registry, query)).keys.map(({ id }) => id).join()

const stored = (id: string, more: Partial<StoredKey> = {}): StoredKey => ({
  ...{ id, hash: hashKey(id), prefix: 'pl_abcde', label: '', note: '', from: '', plan: 'standard' },
  ...{ createdAt: T0, expiresAt: null, revokedAt: null, oldSecrets: [], ...more },
})

/** Sends requests of a key at an instant, as far as its rule admits them. */
async function use(registry: Registry, id: string, times: number, nowMs: number): Promise<void> {
  const window = { name: 'burst', limit: 5, ms: 5000 }
  const rules = [{ subject: keySubject(id), window, daily: 34_560 }]
  await decideAll(
    registry.usage,
    Array.from({ length: times }, () => ({ rules, nowMs })),
  )
}

/** A test on new registries of every engine, with a clock that is set. */
function test(
  name: string,
  work: (registry: Registry, at: (nowMs: number) => Promise<void>) => Promise<void>,
): void {
  for (const engine of REGISTRY_ENGINES) {
    skippable.skipIf(!engine.isThere)(`${engine.name}: ${name}`, async () => {
      const installation = await engine.install()
      await installation.at(T0)
      await work(installation.open(), installation.at).finally(installation.close)
    })
  }
}

describe('the list of keys', () => {
  const KEYS = [
    stored('a', { label: 'Northwind', note: 'owes' }),
    stored('b', { label: 'crawler', plan: null, prefix: 'temp_xy', expiresAt: T0 + DAY_MS }),
    stored('c', { label: 'old laptop', revokedAt: T0 - 1 }),
    stored('d', { label: 'Ёлка', plan: 'classic', expiresAt: T0 + 1 }),
    stored('e', { label: 'ended', expiresAt: T0 }),
  ]
  const CASES = [
    ['by today’s use, most first, equal ones by id', '', 'c,a,d,b,e'],
    ['least first', 'order=asc', 'b,e,a,d,c'],
    ['by label without regard to case', 'sort=label&order=asc', 'b,e,a,c,d'],
    ['by end, without an end last', 'sort=expires&order=asc', 'e,d,b,a,c'],
    ['of one plan', 'search=classic', 'd'],
    ['temporary ones as a plan', 'search=temp', 'b'],
    ['with all words, in any member', 'search=+NORTH+active+OWES', 'a'],
    ['with a word in another alphabet', 'search=ёл', 'd'],
    ['by state, in words', 'search=revoked', 'c'],
    ['with signs that a pattern would take for others', 'search=%25', ''],
    ['without a match', 'search=nobody', ''],
  ] as const

  test('is sorted and searched', async registry => {
    await registry.keys.load(KEYS, false)
    await registry.plans.set({ ...builtIn('classic'), enabled: false })
    await use(registry, 'c', 3, T0 - 2)
    await use(registry, 'd', 2, T0 - 3)
    await use(registry, 'a', 2, T0 - 1)
    for (const [name, query, ids] of CASES) {
      const found = await pageOf(registry, query)
      expect([name, found.keys.map(({ id }) => id).join()]).toEqual([name, ids])
      expect(found).toMatchObject({ matching: found.keys.length, total: 5, page: 1 })
    }
  })

  test('has each key on one page, in any order', async registry => {
    const many = Array.from({ length: 1203 }, (_, n) => stored(`k${n}`, { label: `L${n % 7}` }))
    await registry.keys.load(many, false)
    for (const query of ['sort=label', 'sort=today&order=asc', 'sort=label&search=k1']) {
      const all: string[] = []
      const { matching } = await pageOf(registry, query)
      for (let page = 1; all.length < matching; page += 1) {
        const ids = (await idsOf(registry, `${query}&page=${page}`)).split(',')
        expect(ids.length).toBe(Math.min(50, matching - all.length))
        all.push(...ids)
      }
      const labels = all.map(id => many[Number(id.slice(1))]?.label ?? '')
      if (query.includes('label')) expect(labels).toEqual(labels.toSorted().toReversed())
      expect(new Set(all).size).toBe(matching)
    }
    const last = await pageOf(registry, 'sort=label&page=999')
    expect(last).toMatchObject({ page: 25, matching: 1203, total: 1203 })
    expect(last.keys).toHaveLength(3)
  })
})
