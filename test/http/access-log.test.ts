/**
 * The access log (src/http/access-log.ts): one line for every request, of those that were cut too,
 * with what was sent of them.
 */
import { describe, expect, test } from 'bun:test'
import type { Sent } from '../../src/api/answer.ts'
import { createAccessLog } from '../../src/http/access-log.ts'
import { plainText, type Reply } from '../../src/http/reply.ts'
import { T0 } from '../support/fixtures.ts'

function createWorld(hasLines = true) {
  const lines: string[] = []
  let looked = 0
  let elapsedMs = 0
  const say = (): void => {}
  const sink = {
    ...{ hasLines, say, sayRepeated: say, close: async () => {} },
    line: (text: string) => void lines.push(text),
  }
  const accessLog = createAccessLog(sink, () => elapsedMs)
  const log = {
    ...accessLog,
    /** Each request takes 1.23456 ms. */
    begin(request: Parameters<typeof accessLog.begin>[0]): void {
      elapsedMs = 0
      accessLog.begin(request)
      elapsedMs = 1.23456
    },
  }
  const begun = (id: string) => ({
    ...{ id, path: '/api', nowMs: T0, isHead: false, beganMs: 0, cancel: null, at: -1 },
    request: new Request('http://a/api?key=secret'),
    ip() {
      looked += 1
      return '192.0.2.9'
    },
  })
  const entries = (): unknown[] => lines.map(line => JSON.parse(line))
  return { log, begun, entries, looked: () => looked }
}

const REPLY: Reply = { ...plainText('ok'), keyId: 'abc', records: 7 }
const COMMON = {
  ...{ time: '2026-11-20T12:00:00.000Z', method: 'GET', path: '/api' },
  ...{ ms: 1.235, client: '192.0.2.9' },
}

/** A body that is sent until the test ends it. */
function createBody() {
  const { promise: sent, resolve } = Promise.withResolvers<Sent>()
  const cancel = async (): Promise<void> => resolve({ records: 3, bytes: 99, isTruncated: true })
  const body = { kind: 'stream', stream: new ReadableStream<Uint8Array>(), sent, cancel } as const
  return { body, resolve }
}

describe('the line of a request', () => {
  test('is written once, when its reply is ready', async () => {
    const { log, begun, entries, looked } = createWorld()
    const one = begun('1')
    log.begin(one)
    // The client is looked for at once: its connection may be closed later.
    expect([entries(), looked()]).toEqual([[], 1])
    log.whole(one, REPLY, 2)
    log.whole(one, { ...REPLY, status: 500 }, 2)
    await log.logUnfinished()
    expect(entries()).toEqual([
      { ...COMMON, id: '1', status: 200, key: 'abc', records: 7, bytes: 2 },
    ])
  })

  test('of a stream is written when it ends, with what was sent', async () => {
    const { log, begun, entries } = createWorld()
    const { body, resolve } = createBody()
    const one = begun('1')
    log.begin(one)
    log.stream(one, REPLY, body)
    await Promise.resolve()
    expect(entries()).toEqual([])
    resolve({ records: 7, bytes: 500, isTruncated: false })
    await Promise.resolve()
    await log.logUnfinished()
    expect(entries()).toEqual([
      { ...COMMON, id: '1', status: 200, key: 'abc', records: 7, bytes: 500 },
    ])
  })

  test('of one that is cut at the end of --grace says so: a stream, and one without a reply', async () => {
    const { log, begun, entries } = createWorld()
    const { body } = createBody()
    const [streaming, waiting] = [begun('1'), begun('2')]
    log.begin(streaming)
    log.begin(waiting)
    log.stream(streaming, REPLY, body)
    await log.logUnfinished()
    log.whole(waiting, REPLY, 2) // too late
    const cut = { ...COMMON, truncated: true }
    const found = entries().toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    expect(found).toEqual([
      { ...cut, id: '1', status: 200, key: 'abc', records: 3, bytes: 99 },
      { ...cut, id: '2', status: null, key: null, records: 0, bytes: 0 },
    ])
  })

  test('of each of many at once is written once, in whichever order they end', async () => {
    const { log, begun, entries } = createWorld()
    const all = ['1', '2', '3', '4', '5'].map(begun)
    for (const one of all) log.begin(one)
    for (const n of [1, 4, 0]) log.whole(all[n] ?? begun('none'), REPLY, 2)
    await log.logUnfinished()
    for (const one of all) log.whole(one, REPLY, 2) // too late
    const found = entries() as { id: string; status: number | null }[]
    const logged = found.map(({ id, status }) => `${id} ${status}`)
    expect(logged.slice(0, 3)).toEqual(['2 200', '5 200', '1 200'])
    expect(logged.slice(3).toSorted()).toEqual(['3 null', '4 null'])
  })

  test('is not made without a log, nor is the client looked for', async () => {
    const { log, begun, entries, looked } = createWorld(false)
    const one = begun('1')
    log.begin(one)
    log.whole(one, REPLY, 2)
    log.stream(one, REPLY, createBody().body)
    await log.logUnfinished()
    expect([entries(), looked()]).toEqual([[], 0])
  })
})
