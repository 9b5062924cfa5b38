/**
 * What it costs to read the use of keys from a database (customers, the console and `stats` ask for it within
 * `--database-timeout`), and how buffered use is written.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { StoreError, UnknownOutcome } from '../../../src/lib/errors.ts'
import { type Connection, openConnection, type Query } from '../../../src/postgres/connection.ts'
import { createKeyUse } from '../../../src/postgres/usage/key-use.ts'
import { T0 } from '../../support/fixtures.ts'
import { emptyDatabase, HAS_POSTGRES, migratedDatabase } from '../../support/postgres.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

const KEYS = 4_000
const TODAY = 20_000
const ASKED = Array.from({ length: 50 }, (_, i) => `k${i * 80}`)

type Node = { 'Relation Name'?: string; 'Index Cond'?: string; Plans?: Node[] }

/** A node of a plan, and all below it. */
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** A connection to a database in which each key was used on each of ten days. */
async function openFilled(): Promise<Connection> {
  const { connection: database } = await migratedDatabase()
  await database.query(
    `insert into proxylist.keys (id, hash, prefix, label, note, plan, created_at, version)
     select 'k' || i, sha256(i::text::bytea), '', '', '', 'standard', 0, 1
     from generate_series(0, ${KEYS - 1}) i`,
  )
  await database.query(
    `insert into proxylist.days select day, 'k' || i, 3, 30, 1, '{1,2}'
     from generate_series(${TODAY - 9}, ${TODAY}) day, generate_series(0, ${KEYS - 1}) i`,
  )
  await database.query('vacuum analyze')
  return database
}

describe.skipIf(!HAS_POSTGRES)('the use of keys', () => {
  test('of some does not read the days of all', async () => {
    const { query } = await openFilled()
    let plan: Node = {}
    const explained: Query = async <R extends object>(...[text, values]: Parameters<Query>) => {
      const [row] = await query<{ 'QUERY PLAN': { Plan: Node }[] }>(
        `explain (format json) ${text}`,
        values,
      )
      plan = row?.['QUERY PLAN'][0]?.Plan ?? {}
      return query<R>(text, values)
    }
    const uses = await createKeyUse(explained).history(ASKED, TODAY - 4, TODAY)
    const day = { requests: 3, records: 30, refused: 1, hours: [1, 2] }
    const days = [4, 3, 2, 1, 0].map(before => ({ day: TODAY - before, ...day }))
    expect(uses).toEqual(ASKED.map(() => ({ lastSeenMs: null, days })))
    const reads = nodesOf(plan).filter(node => node['Relation Name'] === 'days')
    // Before PostgreSQL 18, a range of days has all entries of the index on these days read.
    const byKey = /^\(\(day = \S+\) AND \(key_id = /
    expect(reads.map(node => node['Index Cond'])).toEqual([expect.stringMatching(byKey)])
  })

  test('is not compiled first, whatever the server is set to', async () => {
    const { query } = openConnection({ url: await emptyDatabase(), timeoutMs: 2_000, name: 'test' })
    expect(await query<{ jit: string }>('show jit')).toEqual([{ jit: 'off' }])
  })
})

describe('records and refusals that cannot be written', () => {
  const written: string[][] = []
  let failure: Error | null = null
  const query: Query = async (_, values = []) => {
    if (failure !== null) throw failure
    written.push(values.map(String))
    return []
  }
  const use = createKeyUse(query)
  const note = (keyId: string, records: number): void =>
    use.note({ keyId, records, refused: 0, nowMs: T0 })
  const flushed = async (): Promise<string[]> => {
    await use.flush()
    const rows: { id: string; records: number }[] = JSON.parse(written.splice(0)[0]?.[0] ?? '[]')
    return rows.map(({ id, records }) => `${id} ${records}`)
  }

  test('are written later, with those that came meanwhile', async () => {
    note('k1', 3)
    failure = new StoreError('away')
    const failing = use.flush()
    note('k1', 4)
    note('k2', 5)
    expect(failing).rejects.toThrow('away')
    await failing.catch(() => {})
    failure = null
    expect(await flushed()).toEqual(['k1 7', 'k2 5'])
    expect(await flushed()).toEqual([])
  })

  test('are not written again where nobody knows whether they were', async () => {
    note('k1', 3)
    failure = new UnknownOutcome('the connection was lost')
    await use.flush().catch(() => {})
    failure = null
    expect(await flushed()).toEqual([])
  })
})
