/** The access log: the line of a request, and that it is written once. */
import { afterAll, expect, test } from 'bun:test'
import type { AnswerStream, Sent } from '../../src/api/answer.ts'
import { ASK, dataDirectory, T0 } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const COMMON = {
  time: new Date(T0).toISOString(),
  method: 'GET',
  path: '/api',
  client: '127.0.0.1',
}
const entriesOf = (service: { output(): string }): unknown[] =>
  service
    .output()
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

test('a request is one line, with the id of its key and without the key', async () => {
  const service = await startInProcess(dataDirectory(), {})
  const { headers, bytes } = await service.request(ASK)
  await service.request('/api?key=pl_nobody', { method: 'HEAD' })
  await service.request('/pl_mistyped')
  const own = { id: headers.get('x-request-id'), key: expect.stringMatching(/^[a-z\d]{8}$/) }
  expect(entriesOf(service)).toEqual([
    { ...COMMON, ...own, status: 200, records: 1, bytes: bytes.length, ms: expect.any(Number) },
    expect.objectContaining({ ...COMMON, method: 'HEAD', status: 403, key: null, bytes: 0 }),
    expect.objectContaining({ ...COMMON, path: '(unknown)', status: 404, key: null }),
  ])
})

test.each([
  [false, {}],
  [true, { truncated: true }],
])('a stream is logged when it ends, with the records and bytes that were sent', async (...of) => {
  const [isTruncated, more] = of
  const opened = Promise.withResolvers<(sent: Sent) => void>()
  const stream: AnswerStream = {
    ...{ kind: 'stream', totals: null, cancel: async () => {} },
    open(onEnd) {
      opened.resolve(onEnd)
      return new ReadableStream({ start: controller => controller.close() })
    },
  }
  const service = await startInProcess(dataDirectory(), {}, ({ proxies }) => ({
    proxies: { ...proxies, find: () => 'must-stream' },
    streamer: { ...NO_STREAMER, stream: async () => stream },
  }))
  await service.request(ASK)
  expect(entriesOf(service)).toEqual([])
  const end = await opened.promise
  end({ records: 7, bytes: 500, isTruncated })
  await Promise.resolve()
  const entry = { ...COMMON, status: 200, records: 7, bytes: 500, ...more }
  expect(entriesOf(service)).toEqual([expect.objectContaining(entry)])
})
