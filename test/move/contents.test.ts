/** What a move compares, value by value, and what it says of it (src/move/contents.ts, contract I5). */
import { describe, expect, test } from 'bun:test'
import {
  type Contents,
  type Counts,
  describeCounts,
  isNothing,
  PARTS,
  type Part,
  VALUES,
} from '../../src/move/contents.ts'

/** A row of each part, in which no value is missing. */
const ROWS: { readonly [P in Part]: Contents[P] } = {
  plans: {
    ...{ name: 'p', burst: { requests: 1, seconds: 2 }, daily: 3, subnets: 4, clients: 5 },
    ...{ count: 6, downloads: 7, enabled: true },
  },
  keys: {
    ...{
      id: 'k',
      hash: Uint8Array.of(1),
      prefix: 'pl_',
      label: 'l',
      note: 'n',
      plan: 'p',
      createdAt: 1,
    },
    ...{ expiresAt: 2, revokedAt: 3, oldSecrets: [{ hash: Uint8Array.of(2), expiresAt: 4 }] },
  },
  seen: { keyId: 'k', lastSeenMs: 1 },
  usage: { kind: 'key', id: 'k', admissions: [1, 2], latestMs: 2, day: 0, requests: 2 },
  networks: {
    subject: { kind: 'key', id: 'k' },
    set: 'served',
    day: 1,
    networks: ['10.1', '10.2'],
  },
  days: { keyId: 'k', day: 1, requests: 2, records: 3, refused: 4, hours: [1, 1] },
  cities: { id: 1, name: 'n', nameEn: 'e' },
  proxies: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 'o'],
  feeds: {
    ...{ id: 'f', source: 's', lastSuccessAt: 1, rows: 2, rejected: 3, error: 'e', failures: 4 },
    ...{ nextTryAt: 5, attempts: 6, options: 'o', missing: 'r' },
    history: [{ at: 1, times: 2, rows: null, error: 'e' }],
    validators: { etag: 't', lastModified: 'm', digest: 'd' },
  },
  feedLines: '/a every=5m',
}

/** Another number, flag or text. */
function otherThan(value: unknown): unknown {
  if (typeof value === 'number') return value + 100
  return typeof value === 'boolean' ? !value : `${value}!`
}

/** Every value that differs from the given one in a single place. */
function changesOf(value: unknown): unknown[] {
  if (value instanceof Uint8Array) return [Uint8Array.of(...value, 0)]
  if (Array.isArray(value)) {
    return value.flatMap((each, i) => changesOf(each).map(changed => value.with(i, changed)))
  }
  if (typeof value !== 'object' || value === null) return [otherThan(value)]
  return Object.entries(value).flatMap(([name, each]) =>
    changesOf(each).map(changed => ({ ...value, [name]: changed })),
  )
}

function textOf<P extends Part>(part: P, row: unknown): string {
  return JSON.stringify(VALUES[part](row as Contents[P])) // a changed row of this very part
}

describe('what two stores are compared by', () => {
  test.each(PARTS)('has every value of a row: %s', part => {
    const changed = changesOf(ROWS[part]).map(row => textOf(part, row))
    expect(changed.length).toBeGreaterThan(0)
    expect(changed).not.toContain(textOf(part, ROWS[part]))
  })
})

describe('a store', () => {
  const NONE = Object.fromEntries(PARTS.map(part => [part, 0])) as Counts // as PARTS has all

  test('holds nothing when it holds names of cities at most', () => {
    expect(isNothing({ ...NONE, cities: 9 })).toBeTrue()
    const others = PARTS.filter(part => part !== 'cities' && part !== 'seen')
    for (const part of others)
      expect([part, isNothing({ ...NONE, [part]: 1 })]).toEqual([part, false])
  })

  test('is described by what operators know', () => {
    const one = Object.fromEntries(PARTS.map(part => [part, 1])) as Counts
    expect(describeCounts(one)).toBe(
      '1 key, 1 plan, 1 subject, 1 set of networks, 1 day of use, 1 proxy, 1 feed, 1 feed of the console',
    )
    const many = Object.fromEntries(PARTS.map(part => [part, 1_200])) as Counts
    expect(describeCounts(many, part => part !== 'proxies')).toBe(
      '1,200 keys, 1,200 plans, 1,200 subjects, 1,200 sets of networks, 1,200 days of use, 1,200 feeds, 1,200 feeds of the console',
    )
  })
})
