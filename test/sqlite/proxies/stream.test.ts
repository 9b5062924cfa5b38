/** Long answers (src/bulk.ts): how questions and pieces of answers share the one thread. */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { ApiError } from '../../../src/api/errors.ts'
import { createQuestions } from '../../../src/api/query.ts'
import { openList, PROXY_FILE } from '../../../src/app.ts'
import { logBytes } from '../../../src/sqlite/integrity/file-stamp.ts'
import { createBulk, LOG_BOUND } from '../../../src/sqlite/proxies/stream.ts'
import { fillList, T0 } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const PROVIDER = 'the service'
const TERMS = { countMax: null, worksDefault: null, masked: false }
const ROWS = Array.from({ length: 5_000 }, (_, n) => ({
  ip: `10.0.${n >> 8}.${n & 255}:80`,
  type: 'http',
}))

/** The thread for a list of ROWS; and a question for all of them. */
function bulkOf(waitMsMax?: number, log = LOG_BOUND) {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, ROWS)
  const failures: unknown[] = []
  const bulk = createBulk(
    { file: join(dir, PROXY_FILE), provider: PROVIDER, log },
    { look: () => {}, failed: error => void failures.push(error) },
    waitMsMax,
  )
  const question = createQuestions(PROVIDER)('/api?key=k&get=json', null).ask(TERMS)
  return {
    failures,
    /** Imports one more row; how large the log then is. */
    importRow(n: number): number {
      fillList(list, [{ ip: `10.255.0.${n}:80`, type: 'http' }])
      return logBytes(join(dir, PROXY_FILE))
    },
    ask: () => bulk.ask(question, T0, true),
    [Symbol.dispose](): void {
      bulk.close()
      list.close()
    },
  }
}

async function large(asked: ReturnType<ReturnType<typeof bulkOf>['ask']>) {
  const answer = await asked
  if (!('large' in answer)) throw new Error('the answer is not a long one')
  return answer.large
}

describe('long answers', () => {
  test('a piece waited for all the questions that came before it', async () => {
    using bulk = bulkOf()
    const reader = (await large(bulk.ask())).open(() => {}).getReader()
    const order: string[] = []
    const asked = Array.from({ length: 12 }, async (_, n) => {
      const answer = await large(bulk.ask())
      order.push(`question ${n}`)
      await answer.cancel()
    })
    const piece = reader.read().then(({ value }) => {
      expect(value?.length).toBeGreaterThan(0)
      order.push('piece')
    })
    await Promise.all([...asked, piece])
    await reader.cancel()
    expect(order.indexOf('piece')).toBeLessThanOrEqual(4)
    expect(bulk.failures).toEqual([])
  })

  test('a question that has waited too long for its turn is refused with 503', async () => {
    using bulk = bulkOf(-1)
    const refusal = await bulk.ask().catch((error: unknown) => error)
    if (!(refusal instanceof ApiError)) throw new Error('it was answered')
    expect([refusal.code, refusal.context]).toEqual(['DB_EXECUTE_FAILED', { retryAfterSeconds: 1 }])
  })

  test('questions asked at once are all answered', async () => {
    using bulk = bulkOf()
    const all = await Promise.all(Array.from({ length: 5 }, () => large(bulk.ask())))
    expect(all.map(({ records }) => records)).toEqual(all.map(() => ROWS.length))
    for (const answer of all) await answer.cancel()
  })

  test('a log that they keep from being emptied lets none begin beside another', async () => {
    using bulk = bulkOf(undefined, { bytesMax: 0, oldMs: 60_000 })
    const first = await large(bulk.ask())
    expect(bulk.importRow(1)).toBeGreaterThan(0)
    const refusal = await bulk.ask().catch((error: unknown) => error)
    if (!(refusal instanceof ApiError)) throw new Error('it was answered')
    expect([refusal.code, refusal.context]).toEqual(['DB_EXECUTE_FAILED', { retryAfterSeconds: 1 }])
    await first.cancel()
    const second = await large(bulk.ask())
    expect(second.records).toBe(ROWS.length + 1)
    await second.cancel()
    expect(bulk.failures).toEqual([])
  })

  test('one that has kept the log from being emptied for long is given up', async () => {
    using bulk = bulkOf(undefined, { bytesMax: 0, oldMs: 0 })
    const reader = (await large(bulk.ask())).open(() => {}).getReader()
    bulk.importRow(1)
    const second = await large(bulk.ask())
    expect(second.records).toBe(ROWS.length + 1)
    expect(await reader.read().catch(() => 'broken off')).toBe('broken off')
    await second.cancel()
    expect(bulk.failures).toHaveLength(1)
  })
})
