/** How a node writes the use of keys that it has counted (src/postgres/usage/key-use.ts). */
import { afterAll, describe, expect, test } from 'bun:test'
import { StoreError, UnknownOutcome } from '../../../src/lib/errors.ts'
import type { Query } from '../../../src/postgres/connection.ts'
import { createKeyUse } from '../../../src/postgres/usage/key-use.ts'
import { T0 } from '../../support/fixtures.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

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

  test('are written later, with newer ones', async () => {
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

  test('are not written again when the first result is unknown', async () => {
    note('k1', 3)
    failure = new UnknownOutcome('the connection was lost')
    await use.flush().catch(() => {})
    failure = null
    expect(await flushed()).toEqual([])
  })
})
