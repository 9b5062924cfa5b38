/** Tests of single connections: handshakes, ends, local failures; and of the HTTP parser. */
import { afterEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Call, CONNECT_MS_MAX, dial, FIRST_BYTE_MS_MAX } from '../../src/checker/dial.ts'
import {
  createResponseReader,
  done,
  type HttpResponse,
  MORE,
  type ParseResult,
  type Reader,
} from '../../src/checker/response.ts'
import { type Behaviour, startProxy } from '../support/fake-proxies.ts'
import { handTimers } from '../support/prober.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'
import { HANGING } from './proxy-behaviours.ts'

afterEach(cleanUp)

const destination = { host: 'judge.example', ip: '192.0.2.200', port: 8080 }
const DEADLINE_MS = 15_000
const CALL = { type: 'http', destination, tls: null } as const
/** Sends hello, and reads until `end`. */
const helloUntil = (end: string) => () => ({ request: 'hello', reader: readerUntil(end) })
/** Reads until `end`. */
function readerUntil(end: string): Reader<string> {
  let text = ''
  return {
    push(bytes) {
      text += bytes.toString('latin1')
      return text.endsWith(end) ? done(text) : MORE
    },
    end: () => done(`${text} and the end`),
  }
}

/** Dials a new proxy, with manual timers. */
async function dialNew(behave: Behaviour, more: Partial<Call<string>> = {}) {
  const timers = handTimers()
  const proxy = await startProxy(behave)
  const call: Call<string> = { ...CALL, to: proxy, open: helloUntil('.'), ...more }
  const context = { later: timers.later, elapsedMs: () => 0, userAgent: 'agent/1' }
  return { timers, dialed: dial(call, context, DEADLINE_MS) }
}

const bytesOf = (...parts: (string | number | number[])[]): Buffer =>
  Buffer.concat(parts.map(part => Buffer.from(typeof part === 'number' ? [part] : part)))
const IP = [192, 0, 2, 200]
const PORT = [8080 >> 8, 8080 & 255]
const SOCKS5_DONE = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]

describe('a handshake', () => {
  const connect =
    'CONNECT judge.example:8080 HTTP/1.1\r\nHost: judge.example:8080\r\nUser-Agent: agent/1\r\n\r\n'
  const rows: [Call<string>['type'], asked: Buffer[], answers: Buffer[]][] = [
    ['none', [], []],
    ['http', [], []],
    ['https', [bytesOf(connect)], [bytesOf('HTTP/1.0 200 OK\r\nX: y\r\n\r\n')]],
    ['socks4', [bytesOf(4, 1, PORT, IP, 0)], [bytesOf(0, 90, 0, 0, 0, 0, 0, 0)]],
    [
      'socks5',
      [bytesOf(5, 1, 0), bytesOf(5, 1, 0, 1, IP, PORT)],
      [bytesOf(5, 0), bytesOf(SOCKS5_DONE)],
    ],
  ]

  test.each(rows)(
    'of %s is sent byte for byte, and the reply may come in any pieces',
    async (type, asked, answers) => {
      for (const size of [1, 1000]) {
        const expected = [...asked, bytesOf('hello')]
        let parsed = Buffer.alloc(0)
        const behave: Behaviour = client => {
          const left = [...answers, bytesOf('world.')]
          client.on('data', async bytes => {
            parsed = Buffer.concat([parsed, bytesOf(bytes as Buffer as never)])
            if (parsed.length < (expected[0]?.length ?? 0)) return
            expect(parsed).toEqual(expected.shift() as never)
            parsed = Buffer.alloc(0)
            const answer = left.shift() ?? Buffer.alloc(0)
            for (let at = 0; at < answer.length; at += size) {
              client.write(answer.subarray(at, at + size))
              await new Promise(resolve => setImmediate(resolve))
            }
          })
        }
        const { dialed, timers } = await dialNew(behave, { type })
        const firstByte = (answers[0] ?? bytesOf('w'))[0]
        expect(await dialed).toMatchObject({
          kind: 'done',
          value: 'world.',
          isConnected: true,
          firstByte,
        } as never)
        expect(expected).toEqual([])
        expect(timers.size()).toBe(0)
      }
    },
  )

  test('may arrive with the greeting of the server, which is parsed, then answered', async () => {
    let said = ''
    const answers = [bytesOf(5, 0), bytesOf(SOCKS5_DONE, 'ready.')]
    const behave: Behaviour = client =>
      void client.on('data', bytes => {
        const answer = answers.shift()
        if (answer) client.write(answer)
        else said += bytes
      })
    const { dialed } = await dialNew(behave, {
      ...{ type: 'socks5', closingMessage: 'bye' },
      open: () => ({ request: '', reader: readerUntil('.') }),
    })
    expect(await dialed).toMatchObject({ kind: 'done', value: 'ready.' })
    await until(() => said === 'bye')
  })
})

describe('a connection', () => {
  test.each(HANGING)('that hangs %s times out', async (_, behave, type) => {
    const { dialed, timers } = await dialNew(behave, {
      type,
      open: () => ({ request: 'hello', reader: createTextReader() }),
    })
    await until(() => !timers.has(CONNECT_MS_MAX))
    // Once an answer has begun, only the deadline ends it.
    timers.pass(timers.has(FIRST_BYTE_MS_MAX) ? FIRST_BYTE_MS_MAX : DEADLINE_MS)
    expect(await dialed).toMatchObject({ kind: 'failed', reason: 'no answer' })
    expect(timers.size()).toBe(0)
  })

  test('times out', async () => {
    const { dialed, timers } = await dialNew(() => {})
    timers.pass(CONNECT_MS_MAX)
    expect(await dialed).toMatchObject({ kind: 'failed', reason: 'timeout', isConnected: false })
    expect(timers.size()).toBe(0)
  })

  test('fails locally when the descriptor table is full', async () => {
    const program = `
      import { openSync } from 'node:fs'
      import { dial } from './src/checker/dial.ts'
      const call = { to: { ip: '127.0.0.1', port: 1 }, type: 'http', destination: {}, tls: null, open: () => ({ request: 'x', reader: {} }) }
      const context = { later: () => () => {}, elapsedMs: () => 0, userAgent: '' }
      const ask = async () => console.log((await dial(call, context, ${DEADLINE_MS})).kind)
      await ask()
      try { for (;;) openSync('/dev/null', 'r') } catch {}
      await ask()`
    const command = ['sh', '-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, program]
    const { stdout } = Bun.spawnSync(command, { cwd: join(ROOT) })
    expect(`${stdout}`).toBe('failed\nlocalFailure\n')
  })
})

/** A response, with the text of its body. */
function createTextReader(bodyMax = 1_000_000): Reader<string> {
  const reader = createResponseReader(bodyMax, true)
  const textOf = (parsed: ParseResult<HttpResponse>): ParseResult<string> =>
    parsed.kind === 'done' ? done(`${parsed.value.status} ${parsed.value.body}`) : parsed
  return { push: bytes => textOf(reader.push(bytes)), end: () => textOf(reader.end()) }
}

describe('a response', () => {
  /** Reads parts, then the end of the connection. Returns the text, or the reason of the failure. */
  function readAs(parts: readonly Uint8Array[], bodyMax?: number): string {
    const reader = createTextReader(bodyMax)
    const [first] = parts
      .map(part => reader.push(Buffer.from(part)))
      .filter(parsed => parsed.kind !== 'more')
    const parsed = first ?? reader.end()
    return parsed.kind === 'done' ? parsed.value : parsed.kind === 'failed' ? parsed.reason : 'more'
  }

  const head = (fields: string): string => `HTTP/1.1 200 OK\r\n${fields}\r\n`
  const chunked = head('Transfer-Encoding: chunked\r\n')

  test('is the same in any chunks, and with any framing', () => {
    const body = fc.string({ minLength: 1, maxLength: 200, unit: 'binary-ascii' })
    const cut = fc.integer({ min: 1, max: 20 })
    fc.assert(
      fc.property(body, cut, cut, (text, chunk, part) => {
        const chunks = text.match(new RegExp(`[^]{1,${chunk}}`, 'g')) ?? []
        const lines = chunks.map(each => `${each.length.toString(16)}\r\n${each}\r\n`).join('')
        const forms = [
          head('') + text,
          head(`Content-Length: ${text.length}\r\n`) + text,
          `${chunked}${lines}0\r\n\r\n`,
        ]
        for (const form of forms) {
          const parts = form.match(new RegExp(`[^]{1,${part}}`, 'g')) ?? []
          expect(readAs(parts.map(each => Buffer.from(each, 'latin1')))).toBe(`200 ${text}`)
        }
      }),
    )
  })

  test.each([
    ['HTTP/1.1 404 \r\n\r\n', '404 '],
    ['HTTP/1.1 404\r\n\r\n', '404 '],
    ['HTTP/1.0 204 None\r\nContent-Length: 5\r\n\r\n', '204 '],
    [`${head('content-length: 2\r\n')}ok`, '200 ok'],
    [`${head('Content-Length:2\r\nContent-Length: 3\r\n')}ok`, '200 ok'],
    [`${head('Content-Length: -2\r\n')}ok`, '200 ok'],
    [`${chunked}2;a=b\r\nok\r\n0\r\nTrailer: x\r\n\r\n`, '200 ok'],
    [`${head('Content-Length: 2\r\n')}ok!`, 'too long'],
    [`${head('Content-Length: 2\r\n')}o`, 'closed'],
    [`${chunked}2\r\no`, 'closed'],
    [`${chunked}${'z'.repeat(300)}`, 'altered'],
    ['HTTP/1.1 200 OK\r\n', 'closed'],
    ['', 'closed'],
    [`HTTP/1.1 200 OK\r\nX: ${'y'.repeat(17_000)}`, 'too long'],
    [head(`X: ${'y'.repeat(17_000)}\r\n`), 'too long'],
    ['HTTP/2 200\r\n\r\n', 'not a proxy'],
    ['HTTP/1.1 20 OK\r\n\r\n', 'not a proxy'],
    ['\r\nHTTP/1.1 200 OK\r\n\r\n', 'not a proxy'],
    ['h', 'not a proxy'],
  ])('%j: %s', (text, found) => expect(readAs([Buffer.from(text)])).toBe(found))

  test.each([head(''), head('Content-Length: 99\r\n'), `${chunked}63\r\n`])(
    '%j is cut at the maximum of bytes',
    start => {
      const reader = createResponseReader(10, true)
      const parsed = reader.push(Buffer.from(start + 'x'.repeat(99)))
      expect(parsed).toMatchObject({ kind: 'done', value: { body: Buffer.from('xxxxxxxxxxx') } })
    },
  )
})
