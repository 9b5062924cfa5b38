/** The access log (src/http/access-log.ts): one line for each request, with what was sent of it. */
import { describe, expect, test } from 'bun:test'
import type { Sent } from '../../src/api/answer.ts'
import { createAccessLog } from '../../src/http/access-log.ts'
import { plainText, type Reply } from '../../src/http/reply.ts'
import { T0 } from '../support/fixtures.ts'

function createWorld(hasLines = true) {
  const lines: string[] = []
  const say = (): void => {}
  const sink = {
    ...{ hasLines, say, sayRepeated: say, close: async () => {} },
    line: (text: string) => void lines.push(text),
  }
  const log = createAccessLog(sink, () => 1.23456)
  const begun = (id: string) => ({
    ...{ id, path: '/api', nowMs: T0, beganMs: 0, ip: () => '192.0.2.9' },
    request: new Request('http://a/api?key=secret'),
  })
  const entries = (): unknown[] => lines.map(line => JSON.parse(line))
  return { log, begun, entries }
}

const REPLY: Reply = { ...plainText('ok'), keyId: 'abc', records: 7 }
const COMMON = {
  ...{ time: '2026-11-20T12:00:00.000Z', method: 'GET', path: '/api' },
  ...{ ms: 1.235, client: '192.0.2.9' },
}

/** A body that is sent until the test ends it. */
function createBody() {
  const { promise: sent, resolve } = Promise.withResolvers<Sent>()
  const body = { kind: 'stream', stream: new ReadableStream<Uint8Array>(), sent } as const
  return { body, resolve }
}

describe('the line of a request', () => {
  test('is written when its reply is ready', () => {
    const { log, begun, entries } = createWorld()
    log.whole(begun('1'), REPLY, 2)
    expect(entries()).toEqual([
      { ...COMMON, id: '1', status: 200, key: 'abc', records: 7, bytes: 2 },
    ])
  })

  test.each([
    [false, {}],
    [true, { truncated: true }],
  ])(
    'of a stream is written when it ends, with what was sent; truncated: %p',
    async (isTruncated, more) => {
      const { log, begun, entries } = createWorld()
      const { body, resolve } = createBody()
      log.stream(begun('1'), REPLY, body)
      await Promise.resolve()
      expect(entries()).toEqual([])
      resolve({ records: 5, bytes: 500, isTruncated })
      await Promise.resolve()
      expect(entries()).toEqual([
        { ...COMMON, id: '1', status: 200, key: 'abc', records: 5, bytes: 500, ...more },
      ])
    },
  )

  test('is not made without a log', async () => {
    const { log, begun, entries } = createWorld(false)
    const { body, resolve } = createBody()
    log.whole(begun('1'), REPLY, 2)
    log.stream(begun('2'), REPLY, body)
    resolve({ records: 5, bytes: 500, isTruncated: false })
    await Promise.resolve()
    expect(entries()).toEqual([])
  })
})
