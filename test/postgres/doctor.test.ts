/** The findings of `doctor` for each fact of a shared database. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { Result } from '../../src/lib/findings.ts'
import {
  examineDatabase,
  judgeClock,
  judgeDurability,
  judgeNodes,
  judgeStandbys,
} from '../../src/postgres/doctor.ts'
import { T0 } from '../support/fixtures.ts'
import { emptyDatabase, HAS_POSTGRES } from '../support/postgres.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

type State = 'ok' | 'note' | 'wrong'
const stateOf = ({ ok, note }: Result): State => (ok ? (note ? 'note' : 'ok') : 'wrong')

const node = {
  ...{ node: 'n1', address: '10.0.0.11:8080', version: 12 },
  ...{ lagSeconds: 0.4, seenMs: T0, silentSeconds: 0.3 },
}

type Case = readonly [what: string, result: Result, state: State, found: string | RegExp]
const CASES: readonly Case[] = [
  ['durable commits', judgeDurability('on'), 'ok', /before an answer leaves$/],
  [
    'a session that lost its setting',
    judgeDurability('off'),
    'wrong',
    'synchronous_commit is off although nodes set it: is a pooler in between?',
  ],
  [
    'no standby',
    judgeStandbys({ names: '', connected: 0, synchronous: 0 }),
    'note',
    'there is no standby: the service ends with this server',
  ],
  [
    'a standby that no commit waits for',
    judgeStandbys({ names: '', connected: 1, synchronous: 0 }),
    'note',
    /^1 standby connected, none synchronous: a failover loses the admissions/,
  ],
  [
    'a synchronous standby that is away',
    judgeStandbys({ names: 'db2', connected: 0, synchronous: 0 }),
    'wrong',
    /^synchronous_standby_names is 'db2' and no such standby is connected: every commit waits/,
  ],
  [
    'a standby of another name',
    judgeStandbys({ names: 'db2', connected: 1, synchronous: 0 }),
    'wrong',
    /no such standby is connected/,
  ],
  [
    'a synchronous standby',
    judgeStandbys({ names: 'db2', connected: 2, synchronous: 1 }),
    'ok',
    "a commit waits for 'db2': 2 standbys connected",
  ],
  [
    'a role that does not see which standbys are synchronous',
    judgeStandbys({ names: 'db2', connected: 1, synchronous: null }),
    'ok',
    "a commit waits for 'db2': 1 standby connected",
  ],
  [
    'a clock that is a little ahead',
    judgeClock(1500),
    'ok',
    'this machine’s clock is 1.5 s ahead of the database’s',
  ],
  [
    'a clock that is far behind',
    judgeClock(-90_000),
    'wrong',
    'this machine’s clock is 90.0 s behind the database’s; set both by NTP',
  ],
  ['no node', judgeNodes([]), 'note', /^no node has served/],
  [
    'nodes that follow',
    judgeNodes([node, { ...node, node: 'n2' }]),
    'ok',
    '2 nodes with version 12 of the list',
  ],
  [
    'a node that cannot copy the list',
    judgeNodes([node, { ...node, node: 'n2', version: 11, lagSeconds: 1_200 }]),
    'wrong',
    'n2 (10.0.0.11:8080) lags by 1,200 s; its stderr says why',
  ],
  [
    'a node that was killed, or cannot use the database',
    judgeNodes([node, { ...node, node: 'n2', silentSeconds: 60.2, lagSeconds: 61 }]),
    'note',
    'n2 (10.0.0.11:8080) was last seen 60 s ago: it was killed, or answers 503',
  ],
]

describe('doctor says of a shared database with', () => {
  test.each(CASES)('%s', (_, result, state, found) => {
    expect(stateOf(result)).toBe(state)
    if (typeof found === 'string') expect(result.found).toBe(found)
    else expect(result.found).toMatch(found)
  })
})

async function examined(url: string) {
  const { signal } = new AbortController()
  return examineDatabase({ url, timeoutMs: 20_000 }, () => T0, signal)
}

test.skipIf(!HAS_POSTGRES)('doctor examines a server before it has a schema, too', async () => {
  const url = await emptyDatabase()
  const findings = await examined(url)
  expect(findings.map(({ check }) => check)).toEqual([
    ...['database', 'durability', 'standbys', 'sessions', 'clock'],
  ])
})
