/** Needs of attention: the bound of each reason, its sentence and its link. */
import { describe, expect, test } from 'bun:test'
import type { CheckerStatus } from '../../src/checker/ports.ts'
import { attentionTo, type Facts, REASONS } from '../../src/metrics/attention.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { T0 } from '../support/fixtures.ts'

const S0 = T0 / 1000
const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

const list = { rows: 9, newest: S0 - 10, ahead: 0, origin: 'fill it' }
const clock = { rows: 0, distanceMs: 0 }
const feedOf = (source: string, error: string, nextTryAt = T0 + 1) => ({ source, error, nextTryAt })
const node = { node: 'n1', address: '10.0.0.1:80', lagSeconds: 0, silentSeconds: 0 }
const checkerOf = (more: Partial<CheckerStatus>): Partial<Facts> => ({
  checker: { ...CHECKER_STATUS, ...more },
})

type Case = readonly [
  reason: string,
  facts: Partial<Facts>,
  /** Sentences, each with where it leads. */
  said: readonly string[],
]
const CASES: readonly Case[] = [
  ['list_empty', { list }, []],
  [
    'list_empty',
    { list: { ...list, rows: 0, newest: null } },
    ['the list is empty; fill it → #import'],
  ],
  ['list_stale', { list: { ...list, newest: S0 - 600 } }, []],
  [
    'list_stale',
    { list: { ...list, newest: S0 - 601 } },
    ['no proxy was checked in the last 10 minutes, the newest 10 minutes ago → #feeds'],
  ],
  [
    'list_stale',
    { list: { ...list, newest: null, ahead: 9 } },
    ['no proxy was checked in the last 10 minutes, as all checks lie in the future → #feeds'],
  ],
  ['not_found', { requests: { all: 0, notFound: 0 } }, []],
  ['not_found', { requests: { all: 100, notFound: 20 } }, []],
  [
    'not_found',
    { requests: { all: 1000, notFound: 201 } },
    [
      '201 of 1,000 requests in the last five minutes (20%) found nothing: 404 PROXIES_NOT_FOUND → #log?code=PROXIES_NOT_FOUND',
    ],
  ],
  ['feed_failing', { feeds: [feedOf('/a', '')] }, []],
  // Nobody has tried it since it was due: a server had it once.
  ['feed_failing', { feeds: [feedOf('/a', 'gone', T0 - 3_600_001)] }, []],
  ['feed_failing', { feeds: [feedOf('/a', ''), feedOf('/b', 'gone')] }, ['feed /b: gone → #feeds']],
  ['key_refused', { refused: { keys: [], total: 0 } }, []],
  [
    'key_refused',
    { refused: { keys: [{ id: 'k1', label: 'acme', requests: 1200, refused: 70 }], total: 1 } },
    ['key acme (k1) has reached a limit today: 70 requests refused, 1,200 admitted → #keys/k1'],
  ],
  ['key_expiring', { ending: { keys: [], total: 0 } }, []],
  [
    'key_expiring',
    {
      ending: {
        keys: ['a', 'b', 'c'].map(id => ({ id, label: '', expiresAt: T0 + DAY_MS })),
        total: 2003,
      },
    },
    [
      ...['a', 'b', 'c'].map(id => `key ${id} ends on 2026-11-21 → #keys/${id}`),
      'and 2,000 more keys → #keys',
    ],
  ],
  ['disk', { disk: { freeBytes: 68e6, neededBytes: 68e6, freeInodes: null } }, []],
  [
    'disk',
    { disk: { freeBytes: 67e6, neededBytes: 68e6, freeInodes: null } },
    ['67 MB are free on the disk; an import may take 68 MB → #overview'],
  ],
  ['disk', { disk: { freeBytes: 68e6, neededBytes: 68e6, freeInodes: 16 } }, []],
  [
    'disk',
    { disk: { freeBytes: 68e6, neededBytes: 68e6, freeInodes: 15 } },
    ['the disk has 15 free inodes; remove files that nobody needs → #overview'],
  ],
  ['clock', { clock: { ...clock, distanceMs: -60_000 } }, []],
  [
    'clock',
    { clock: { rows: 1, distanceMs: -60_100 } },
    [
      'this machine’s clock is 60.1 s behind the database’s; set both by NTP → #overview',
      'the last checks of 1 proxy lie in the future: they count as fresh until then; import them again, or the whole list with: proxylist import --replace FILE → #import',
    ],
  ],
  [
    'node_lag',
    {
      nodes: [
        { ...node, lagSeconds: 60 },
        { ...node, silentSeconds: 5 },
      ],
    },
    [],
  ],
  [
    'node_lag',
    { nodes: [{ ...node, lagSeconds: 61 }] },
    ['n1 (10.0.0.1:80) lags by 61 s; its stderr says why → #overview'],
  ],
  [
    'node_lag',
    { nodes: [{ ...node, lagSeconds: 6, silentSeconds: 6 }] },
    ['n1 (10.0.0.1:80) was last seen 6 s ago: it was killed, or answers 503 → #overview'],
  ],
  ['checker', checkerOf({ coverage: 0.8 }), []],
  ['checker', checkerOf({ coverage: null }), []],
  ['checker', checkerOf({ at: T0 - MINUTE_MS }), []],
  // Who was alive before the start is found within ten minutes; nobody expects one that ran a day ago.
  ['checker', checkerOf({ coverage: 0, startedMs: T0 - 10 * MINUTE_MS + 1 }), []],
  ['checker', checkerOf({ at: T0 - DAY_MS - 1, coverage: 0 }), []],
  ['checker', checkerOf({ at: T0 - 3_600_000, once: true }), []],
  [
    'checker',
    checkerOf({ coverage: 0.799 }),
    ['only 79% of the living were found alive within ten minutes → #overview'],
  ],
  [
    'checker',
    checkerOf({ coverage: 0.5, neededRate: 1200 }),
    [
      'only 50% of the living were found alive within ten minutes; a --rate of 1,200/s would find them → #overview',
    ],
  ],
  [
    'checker',
    checkerOf({ at: T0 - 2 * 3_600_000, judgeProblem: { sentence: '', sinceMs: 0 } }),
    ['the checker has said nothing for 2 hours; its stderr says why; start it again → #overview'],
  ],
  [
    'checker',
    checkerOf({
      coverage: 0,
      judgeProblem: { sentence: 'the judge does not answer', sinceMs: T0 - 300_000 },
    }),
    ['the judge does not answer, for 5 minutes; nothing is checked meanwhile → #overview'],
  ],
]

describe('attention', () => {
  test.each(CASES)('to %s, with the facts %j', (reason, facts, said) => {
    expect(attentionTo(facts, T0)).toEqual(
      said.map(each => {
        const [sentence, link] = each.split(' → ')
        return { reason, sentence, link } as never
      }),
    )
  })

  test('has a case that appears and one that does not, for each reason', () => {
    const told = (some: boolean) =>
      new Set(CASES.filter(([, , { length }]) => length > 0 === some).map(([reason]) => reason))
    expect([...told(true)].sort()).toEqual([...REASONS].sort())
    expect([...told(false)].sort()).toEqual([...REASONS].sort())
  })

  test('is empty while nothing is known', () => expect(attentionTo({}, T0)).toEqual([]))

  test('has the order of the table, in any order of the facts', () => {
    const facts = Object.assign({}, ...CASES.map(([, each]) => each))
    const order = attentionTo(facts, T0).map(({ reason }) => REASONS.indexOf(reason))
    expect(order.length).toBeGreaterThan(1)
    expect(order).toEqual(order.toSorted((a, b) => a - b))
  })
})
