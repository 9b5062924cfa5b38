/** The time of a response (spec 2.2, 2.3) is when it is sent, which may be long after the request. */
import { afterAll, expect, test } from 'bun:test'
import type { AnswerStreamer } from '../../src/api/answer.ts'
import { ApiError } from '../../src/api/errors.ts'
import { ASK, dataDirectory, T0, type TestRow } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [{ ip: '192.0.2.1:80', type: 'http' }]
const LIMITS = { burst: { requests: 3, seconds: 60 } }
const WAITED_SECONDS = 20
const SENT_AT = new Date(T0 + WAITED_SECONDS * 1000).toISOString()

/** A service in which every answer takes so long to find. */
async function slowService(found: AnswerStreamer['stream']) {
  const service = await startInProcess(dataDirectory(ROWS, LIMITS), {}, ({ proxies }) => ({
    proxies: { ...proxies, find: () => 'must-stream' },
    streamer: {
      ...NO_STREAMER,
      async stream(...query) {
        await null
        service.setClock(WAITED_SECONDS)
        return found(...query)
      },
    },
  }))
  return service
}

test('a refusal after 20 s in the queue has that time, in its limits too (B9), also with HEAD', async () => {
  const service = await slowService(async () => {
    throw new ApiError('RATE_LIMIT_EXCEEDED', 'it has waited', { retryAfterSeconds: 1 })
  })
  const { status, text, headers } = await service.request(ASK)
  expect([status, JSON.parse(text).timestamp]).toEqual([429, SENT_AT])
  expect(headers.get('ratelimit')).toBe('"burst";r=3;t=0')
  service.setClock(0)
  const head = await service.request(ASK, { method: 'HEAD' })
  expect(head.headers.get('date')).toBe(new Date(SENT_AT).toUTCString())
})

test('the envelope of an answer that waited has its sending time', async () => {
  const chunks = ['{"timestamp":"', '"}'].map(text => Buffer.from(text))
  const service = await slowService(async () => ({
    ...{ kind: 'rendered', oldestSeconds: T0 / 1000 },
    answer: { kind: 'answer', records: 1, subnets: [1], chunks },
  }))
  const { text } = await service.request(`${ASK}&get=json&wrap=1`)
  expect(JSON.parse(text)).toEqual({ timestamp: SENT_AT })
})
