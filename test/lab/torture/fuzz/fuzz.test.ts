/** A short, seeded run of the fuzzer of `make torture` against the running server. */
import { afterAll, describe, expect, test } from 'bun:test'
import { addList, T0 } from '../../../support/fixtures.ts'
import { startChild } from '../../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../../support/temporary.ts'
import { readAnswer } from '../../support/client.ts'
import { listRows, sendAll } from './fuzz.ts'
import { judge } from './judge.ts'
import { addFuzzKeys, isReflected, keysOf } from './keys.ts'

afterAll(cleanUp)

test('hostile requests get an answer of the contract, and none holds a key', async () => {
  const seed = 20_261_120
  const keys = keysOf(seed)
  const dir = temporaryDirectory()
  addList(dir, listRows(T0 / 1000))
  addFuzzKeys(dir, keys, T0)
  const server = await startChild(dir)
  const amounts = { grammar: 1_500, mutated: 1_000, raw: 400 }
  const port = Number(new URL(server.url).port)
  const result = await sendAll({ port, seed, client: 0, amounts })
  await server.stop()
  expect(result.examples.filter(example => !example.startsWith('slow'))).toEqual([])
  expect({ ...result.wrong, slow: 0 }).toEqual({
    fault: 0,
    shape: 0,
    key: 0,
    status: 0,
    probe: 0,
    slow: 0,
    lost: 0,
  })
  expect([result.sent, result.probes]).toEqual([amounts, expect.any(Number)])
  expect(result.probes).toBeGreaterThan(100)
  for (const status of ['200', '400', '403', '404', '405', '429']) {
    expect(result.ours).toHaveProperty(status)
  }
  expect(isReflected(server.output())).toBeFalse()
  expect(server.output()).not.toMatch(/failed/)
})

describe('the fuzzer’s judge finds', () => {
  const HEAD =
    'HTTP/1.1 400 Bad Request\r\nCache-Control: private, no-store\r\nReferrer-Policy: no-referrer\r\n' +
    'X-Content-Type-Options: nosniff\r\nX-Request-Id: r\r\n' +
    'Content-Type: application/json; charset=utf-8\r\n'
  const ERROR = {
    status: 'error',
    code: 'INVALID_PARAMETER',
    message: 'works must be an integer from 0 to 100',
    timestamp: '2026-11-20T12:00:00.000Z',
  }
  const faultOf = (head: string, body: string, statuses: number[] | null = null) => {
    const text = `${head}Content-Length: ${body.length}\r\n\r\n${body}`
    const found = readAnswer(text, false)
    if (found === null) throw new Error('the answer is not complete')
    expect(found.end).toBe(text.length)
    return judge(found.answer, statuses, false)?.fault ?? null
  }
  const json = JSON.stringify
  const letters = 'QXZJVQXZJV'
  const escaped = [...letters].map(letter => `%${letter.charCodeAt(0).toString(16)}`).join('')

  test.each([
    ['nothing in a right error', HEAD, json(ERROR), null, null],
    ['another status than expected', HEAD, json(ERROR), [200, 404], 'status'],
    ['a body that is not JSON', HEAD, 'oops', null, 'shape'],
    ['a member too much', HEAD, json({ ...ERROR, sql: 1 }), null, 'shape'],
    ['a code of another status', HEAD, json({ ...ERROR, code: 'INVALID_KEY' }), null, 'shape'],
    ['an unknown code', HEAD, json({ ...ERROR, code: 'toString' }), null, 'shape'],
    ['no message', HEAD, json({ ...ERROR, message: '' }), null, 'shape'],
    ['a time without Z', HEAD, json({ ...ERROR, timestamp: '2026-11-20' }), null, 'shape'],
    ['a header that is missing', HEAD.replace('nosniff', 'x'), json(ERROR), null, 'shape'],
    ['a failure', HEAD.replace('400', '500'), json(ERROR), null, 'fault'],
    ['a failure of the HTTP layer', 'HTTP/1.1 500 Oops\r\n', '', null, 'fault'],
    ['nothing in its own 505', 'HTTP/1.1 505 Oops\r\n', '', null, null],
    ['ten characters of a key', HEAD, json({ ...ERROR, message: letters }), null, 'key'],
    ['them in lower case', HEAD, json({ ...ERROR, message: letters.toLowerCase() }), null, 'key'],
    ['them percent-encoded', HEAD, json({ ...ERROR, message: escaped }), null, 'key'],
    ['them in a header', `${HEAD}X: ${letters}\r\n`, json(ERROR), null, 'key'],
    ['nothing in nine', HEAD, json({ ...ERROR, message: letters.slice(1) }), null, null],
  ] as const)('%s', (_, head, body, statuses, fault) => {
    expect(faultOf(head, body, statuses && [...statuses])).toBe(fault)
  })
})
