/** A short, seeded run of the fuzzer of `make torture` against the running server, and what its judge finds. */
import { afterAll, describe, expect, test } from 'bun:test'
import { addList, T0 } from '../../../support/fixtures.ts'
import { startChild } from '../../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../../support/temporary.ts'
import { readAnswer } from '../../support/client.ts'
import { listRows, sendAll } from './fuzz.ts'
import { judge } from './judge.ts'
import { addFuzzKeys, isReflected, keysOf } from './requests.ts'

afterAll(cleanUp)

test('hostile requests get documented responses, and none holds a key', async () => {
  const seed = 20_261_120
  const dir = temporaryDirectory()
  addList(dir, listRows(T0 / 1000))
  addFuzzKeys(dir, keysOf(seed), T0)
  const server = await startChild(dir)
  const { port } = new URL(server.url)
  const result = await sendAll({ port: Number(port), seed, valid: 2_400, raw: 600 })
  await server.stop()
  expect(result.wrong).toEqual([])
  expect(result.probes).toBeGreaterThan(100)
  for (const status of ['200', '304', '400', '403', '404', '405', '429']) {
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
    ['a failure', HEAD.replace('400', '500'), json(ERROR), null, 'failure'],
    ['a failure of the HTTP layer', 'HTTP/1.1 500 Oops\r\n', '', null, '500'],
    ['nothing in its own 505', 'HTTP/1.1 505 Oops\r\n', '', null, null],
    ['ten characters of a key', HEAD, json({ ...ERROR, message: letters }), null, 'key'],
    ['them in lower case', HEAD, json({ ...ERROR, message: letters.toLowerCase() }), null, 'key'],
    ['them percent-encoded', HEAD, json({ ...ERROR, message: escaped }), null, 'key'],
    ['them in a header', `${HEAD}X: ${letters}\r\n`, json(ERROR), null, 'key'],
    ['nothing in nine', HEAD, json({ ...ERROR, message: letters.slice(1) }), null, null],
  ] as const)('%s', (_, head, body, statuses, fault) => {
    const text = `${head}Content-Length: ${body.length}\r\n\r\n${body}`
    const found = readAnswer(text, false)
    if (found === null) throw new Error('the answer is not complete')
    expect(judge(found.answer, statuses && [...statuses], false)?.match(/^\w+/)?.[0] ?? null).toBe(
      fault,
    )
  })
})
