/** Tests of the judge: it answers each token of the checker once, and is useless to other clients. */
import { afterAll, describe, expect, test } from 'bun:test'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { type CertificateFiles, openCertificate } from '../../src/judge/certificate.ts'
import { createReplies } from '../../src/judge/judge.ts'
import {
  ANSWER_BYTES_MAX,
  type Answer,
  HEAD_BYTES_MAX,
  readAnswer,
  type TokenRequest,
} from '../../src/judge/protocol.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import {
  CERTIFICATES,
  connectPlain,
  connectSecure,
  exchange,
  JUDGE_NAME,
  KEYS,
  mint,
  received,
  request,
  startTestJudge,
  type TestJudge,
} from '../support/judge.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

const REFUSAL = 'HTTP/1.1 404 \r\n\r\n'
const TIME = /^HTTP\/1\.1 404 \r\nTime: (\d+)\r\n\r\n$/

/** The head of a response, and its body. */
function divide(response: Buffer): { head: string; body: Buffer } {
  const end = response.indexOf('\r\n\r\n') + 4
  return { head: response.toString('latin1', 0, end), body: response.subarray(end) }
}

/** Sends `bytes` to the plain listener and returns the judge's answer as text. */
const ask = async (judge: TestJudge, bytes: string, from = {}): Promise<string> =>
  String(await exchange(connectPlain(judge.port, from), bytes))

/** The answer to a request with `token`. @throws Error when there is none. */
async function answerTo(judge: TestJudge, token: string, bytes = request(token), from = {}) {
  const response = await exchange(connectPlain(judge.port, from), bytes)
  const answer = readAnswer(KEYS, token, divide(response).body)
  if (typeof answer === 'string') throw new Error(`${answer}: ${response}`)
  return answer
}

describe('a token is answered', () => {
  test.each([0, 1, 65_536, 262_144])('with a payload of %p bytes, plain and by TLS', async size => {
    const judge = await startTestJudge()
    const [type, cache] =
      size === 0
        ? ['text/html; charset=utf-8', 'no-store']
        : ['application/octet-stream', 'no-store, no-transform']
    for (const kind of ['plain', 'tls'] as const) {
      const token = mint({ kind, size })
      const socket = kind === 'tls' ? connectSecure(judge.tlsPort) : connectPlain(judge.port)
      const { head, body } = divide(await exchange(socket, request(token)))
      expect(head).toBe(
        `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n` +
          `Cache-Control: ${cache}\r\nConnection: close\r\n\r\n`,
      )
      expect(readAnswer(KEYS, token, body)).toEqual({
        ...{ token, peer: '127.0.0.1', headers: [['Host', JUDGE_NAME]], form: 'origin' },
        ...{ tls: kind === 'tls', time: T0, started: T0 },
      })
    }
  })

  test.each<[string, Answer['form']]>([
    ['', 'origin'],
    ['http://judge.example', 'absolute'],
    ['http://192.0.2.1:8080', 'absolute'],
    ['https://judge.example', 'absolute'],
  ])('by GET %p/… in %s form', async (authority, form) => {
    const judge = await startTestJudge()
    const token = mint()
    const answer = await answerTo(judge, token, request(token).replace('/', `${authority}/`))
    expect(answer.form).toBe(form)
  })

  test('with the unchanged headers: order, duplicates, case, bytes', async () => {
    const judge = await startTestJudge()
    const token = mint()
    const lines = [
      ...['host: judge.example', 'X-Forwarded-For: 192.0.2.1', 'VIA:1.1 a', 'x-b:  two  words \t'],
      ...['Via: 1.1 b', 'X-Empty:', 'X-Bytes: caf\xe9', 'X-Long: one', '\ttwo', 'no colon'],
      'X : y',
    ]
    const answer = await answerTo(
      judge,
      token,
      `GET /${token} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`,
    )
    expect(answer.headers).toEqual([
      ...[['host', 'judge.example'] as const, ['X-Forwarded-For', '192.0.2.1'] as const],
      ...[['VIA', '1.1 a'] as const, ['x-b', 'two  words'] as const, ['Via', '1.1 b'] as const],
      ...[['X-Empty', ''] as const, ['X-Bytes', 'caf\xe9'] as const],
      ...[['X-Long', 'one'] as const, ['\ttwo', ''] as const, ['no colon', ''] as const],
      ['X ', 'y'],
    ])
  })

  test('with the address of its peer, unmapped from IPv6', async () => {
    const listen = { kind: 'tcp', hostname: '::', port: 0 } as const
    const judge = await startTestJudge({ listen })
    for (const peer of ['127.0.0.1', '127.0.5.9', '::1']) {
      const token = mint()
      const from = peer === '::1' ? { host: '::1' } : { localAddress: peer }
      expect((await answerTo(judge, token, request(token), from)).peer).toBe(peer)
    }
  })

  test('with at most 96 KiB besides the payload, for any headers', () => {
    const { reply } = createReplies(KEYS, () => T0)
    for (const worst of ['"', '\xff', ':\r\n', '"\r\n', ':\n', '"\n', '\\\n']) {
      const head = `GET /${mint()} HTTP/1.1\r\n${worst.repeat(16_000 / worst.length)}`
      expect(Buffer.byteLength(reply(head, 'plain', '::1').text)).toBeLessThan(ANSWER_BYTES_MAX)
    }
  })
})

/** Requests with a valid token that are refused all the same. */
const REFUSED: readonly (readonly [what: string, bytes: (token: string) => string])[] = [
  ...['HEAD', 'POST', 'PUT', 'OPTIONS', 'get', 'PRI'].map(
    method => [method, (token: string) => request(token).replace('GET', method)] as const,
  ),
  ['CONNECT', () => 'CONNECT judge.example:443 HTTP/1.1\r\nHost: judge.example:443\r\n\r\n'],
  ['a space before the method', token => ` ${request(token)}`],
  ['a query', token => request(token).replace(' HTTP', '?x HTTP')],
  ['a longer path', token => request(token).replace(' HTTP', '/ HTTP')],
  ['a path before it', token => request(token).replace('/', '/judge/')],
  ['another scheme', token => request(token).replace('/', 'ftp://judge.example/')],
  ['HTTP/2', token => request(token).replace('1.1', '2.0')],
  ['HTTP/0.9', token => `GET /${token}\r\n\r\n`],
  ['no version', token => request(token).replace('HTTP/1.1', '')],
  ['a NUL in a header', token => request(token, 'X: \0\r\n')],
  ['a control character in a header', token => request(token, 'X: \x1b[2J\r\n')],
  ['a cut token', token => request(token.slice(1))],
  ['no token', () => request('')],
  ['another path', () => request('favicon.ico')],
]

describe('a refusal', () => {
  test.each(REFUSED)(
    'of %s is smaller than its request, and leaves the token unused',
    async (_, bytes) => {
      const judge = await startTestJudge()
      const token = mint()
      expect(await ask(judge, bytes(token))).toBe(REFUSAL)
      expect(bytes(token).length).toBeGreaterThan(REFUSAL.length)
      await answerTo(judge, token)
      expect(judge.counts()).toMatchObject({ answered: 1, refused: 1 })
    },
  )

  test('of garbage is empty', async () => {
    const judge = await startTestJudge()
    for (const bytes of ['\r\n\r\n', '\n\n', 'GET /\r\n\r\n', `${'x'.repeat(13)}\r\n\r\n`]) {
      expect([bytes, await ask(judge, bytes)]).toEqual([bytes, ''])
    }
    expect(await ask(judge, `${'x'.repeat(14)}\r\n\r\n`)).toBe(REFUSAL)
  })

  test('of bytes that are not TLS on the TLS listener is silent', async () => {
    const judge = await startTestJudge()
    const token = mint({ kind: 'tls' })
    for (const bytes of [
      request(token),
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc',
      '\0'.repeat(500),
    ]) {
      const socket = connectPlain(judge.tlsPort)
      const got = exchange(socket, bytes)
      socket.end()
      expect(String(await got)).not.toContain('HTTP')
    }
    const { body } = divide(await exchange(connectSecure(judge.tlsPort), request(token)))
    expect(readAnswer(KEYS, token, body)).toMatchObject({ tls: true })
    await until(() => judge.counts().open === 0)
  })

  test.each<[string, Partial<TokenRequest>, number]>([
    ['older than 60 s', { timeMs: T0 + 9_999 }, T0 + 70_000],
    ['more than 30 s ahead', { timeMs: T0 + 30_001 }, T0],
    ['minted before the judge began', { timeMs: T0 - 1 }, T0],
    ['of a checker whose clock is an hour off', { timeMs: T0 - HOUR_MS }, T0],
  ])('of a token %s has the time, and is smaller than any such request', async (_, late, now) => {
    const judge = await startTestJudge()
    judge.setNow(now)
    const token = mint(late)
    const [refusal, time = ''] = TIME.exec(await ask(judge, request(token))) ?? []
    expect(Number(time)).toBe(now)
    expect(refusal?.length).toBeLessThan(`GET /${token} HTTP/1.0\n\n`.length)
    // By that time, the next token is right.
    await answerTo(judge, mint({ timeMs: now }))
  })

  test('of a token for the other listener leaves it valid there', async () => {
    const judge = await startTestJudge()
    const [plain, secure] = [mint({ kind: 'plain' }), mint({ kind: 'tls' })]
    expect(await ask(judge, request(secure))).toBe(REFUSAL)
    const refused = await exchange(connectSecure(judge.tlsPort), request(plain))
    expect(String(refused)).toBe(REFUSAL)
    await answerTo(judge, plain)
    const { body } = divide(await exchange(connectSecure(judge.tlsPort), request(secure)))
    expect(readAnswer(KEYS, secure, body)).toMatchObject({ tls: true })
  })

  test('of a used token is repeated, even for 1,000 addresses', async () => {
    const judge = await startTestJudge()
    const token = mint()
    await answerTo(judge, token, request(token), { localAddress: '127.0.5.1' })
    for (let i = 0; i < 1_000; i += 1) {
      const localAddress = `127.0.${6 + (i >> 8)}.${i & 255 || 1}`
      const answer = await ask(judge, request(token), { localAddress })
      expect([i, answer]).toEqual([i, REFUSAL])
    }
    expect(judge.counts()).toMatchObject({ answered: 1, refused: 1_000 })
  })

  test('of a used token lasts until the token expires, then the judge forgets it', () => {
    let now = T0
    const { reply, remembered } = createReplies(KEYS, () => now)
    const token = mint({ timeMs: T0 + 30_000 })
    const head = (text: string): string => `GET /${text} HTTP/1.1`
    expect(reply(head(token), 'plain', '::1').kind).toBe('answer')
    now = T0 + 90_000
    expect(reply(head(token), 'plain', '::1').text).toBe(REFUSAL)
    now += 1
    expect(reply(head(token), 'plain', '::1').text).toMatch(/Time/)
    expect(reply(head(mint({ timeMs: now })), 'plain', '::1').kind).toBe('answer')
    expect(remembered()).toBe(1)
  })

  test('is never larger than the request', () => {
    const { reply } = createReplies(KEYS, () => T0)
    const words = ['GET /', mint({ timeMs: 1 }), ' HTTP/1.1', '\r\n', 'Host: a', 'x', '\0', '/']
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...words), { maxLength: 12 }), parts => {
        const head = parts.join('')
        const { text } = reply(head, 'plain', '::1')
        // A request that is shorter than a refusal gets none, see above.
        expect(text === REFUSAL || text.length < head.length + 2).toBeTrue()
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('a head', () => {
  const headOf = (bytes: number, token: string): string => {
    const short = request(token, 'X: \r\n')
    return short.replace('X: ', `X: ${'x'.repeat(bytes - short.length)}`)
  }

  test('of 16 KiB is read; a larger one closes its connection without a response', async () => {
    const judge = await startTestJudge()
    const token = mint()
    for (const bytes of [headOf(HEAD_BYTES_MAX + 1, token), 'x'.repeat(HEAD_BYTES_MAX + 1)]) {
      expect(await ask(judge, bytes)).toBe('')
    }
    await answerTo(judge, token, headOf(HEAD_BYTES_MAX, token))
    expect(judge.counts()).toMatchObject({ answered: 1, refused: 2 })
  })

  test('that takes longer than 10 s closes its connection without a response', async () => {
    const judge = await startTestJudge()
    const token = mint()
    const slow = connectPlain(judge.port)
    const got = exchange(slow, 'GET / HTTP/1.1\r\n')
    const secure = connectPlain(judge.tlsPort) // its handshake does not even begin
    const silent = received(secure)
    await until(() => judge.counts().open === 2)
    judge.setNow(T0 + 9_999)
    const later = connectPlain(judge.port)
    const answer = exchange(later, request(token).slice(0, -2))
    await until(() => judge.counts().open === 3)
    judge.run(SECOND_MS)
    expect(judge.counts().open).toBe(3)
    judge.setNow(T0 + 10_000)
    judge.run(SECOND_MS)
    expect([String(await got), String(await silent)]).toEqual(['', ''])
    later.write('\r\n')
    expect(readAnswer(KEYS, token, divide(await answer).body)).toMatchObject({ token })
    expect(judge.counts()).toMatchObject({ answered: 1, refused: 0 })
  })
})

test('an answer times out after 30 s', async () => {
  const judge = await startTestJudge()
  const socket = connectPlain(judge.port)
  socket.write(request(mint({ size: 1024 * 1024 })))
  socket.on('error', () => {}).pause()
  await until(() => judge.counts().answered === 1)
  judge.setNow(T0 + 29_999)
  judge.run(SECOND_MS)
  expect(judge.counts().open).toBe(1)
  judge.setNow(T0 + 30_000)
  judge.run(SECOND_MS)
  expect(judge.counts().open).toBe(0)
  socket.destroy()
})

test('a connection over the limit is closed, and the others are served', async () => {
  const judge = await startTestJudge({ connectionsMax: 1 })
  const token = mint({ size: 1024 * 1024 })
  const socket = connectPlain(judge.port)
  socket.write(request(token))
  socket.pause()
  await until(() => judge.counts().answered === 1)
  expect(await ask(judge, request(mint()))).toBe('')
  const answer = received(socket)
  socket.resume()
  expect(readAnswer(KEYS, token, divide(await answer).body)).toMatchObject({ token })
})

describe('the certificate', () => {
  /** Copies of a pair that can be changed. */
  function copied({ cert, key }: CertificateFiles = CERTIFICATES.judge) {
    const dir = temporaryDirectory()
    const files = { cert: join(dir, 'cert.pem'), key: join(dir, 'key.pem') }
    const use = (other: CertificateFiles): void => {
      copyFileSync(other.cert, files.cert)
      copyFileSync(other.key, files.key)
    }
    use({ cert, key })
    return { files, use }
  }

  /** The serial number of the certificate with which the judge answers; they are 2, 3 and 4. */
  async function serialAt(judge: TestJudge): Promise<number> {
    const socket = connectSecure(judge.tlsPort)
    if (!(socket instanceof TLSSocket)) throw new Error('it is not secure')
    const closed = received(socket)
    await new Promise(resolve => socket.once('secureConnect', resolve))
    const serial = Number.parseInt(socket.getPeerCertificate().serialNumber, 16)
    socket.destroy()
    await closed
    return serial
  }

  test('is read again within a minute of a change, with a message', async () => {
    const { files, use } = copied()
    const judge = await startTestJudge({}, files)
    expect(await serialAt(judge)).toBe(2)
    use(CERTIFICATES.renewed)
    const intervals = [...judge.repeated].map(({ ms }) => ms)
    expect(intervals.filter(ms => ms <= MINUTE_MS / 2)).toContain(30_000)
    judge.run(30_000)
    await until(() => judge.said.length > 0)
    expect(judge.said).toEqual([
      'the certificate has changed: judge.example, valid until 2119-12-28T23:11:42.000Z',
    ])
    expect(await serialAt(judge)).toBe(3)
  })

  test.each<[string, (files: CertificateFiles) => void, string]>([
    ['gone', ({ cert }) => rmSync(cert), 'cannot read CERT: no such file or directory'],
    [
      'not a certificate',
      ({ cert }) => writeFileSync(cert, 'x'),
      'CERT is not a certificate in PEM',
    ],
    [
      'without a private key',
      ({ key }) => writeFileSync(key, ''),
      'KEY is not the private key of CERT, in PEM without a password',
    ],
    [
      'with the key of another one',
      ({ key }) => copyFileSync(CERTIFICATES.renewed.key, key),
      'KEY is not the private key of CERT, in PEM without a password',
    ],
  ])('stays when the new one is %s, with one message', async (_, spoil, why) => {
    const { files, use } = copied()
    const said: string[] = []
    const certificate = await openCertificate(files, sentence => said.push(sentence))
    const before = certificate.context()
    spoil(files)
    await certificate.refresh()
    await certificate.refresh()
    const shown = why.replace('CERT', files.cert).replace('KEY', files.key)
    const named = shown.replace('CERT', files.cert)
    expect(said).toEqual([
      `${named}; still using judge.example, valid until 2119-12-28T23:11:42.000Z`,
    ])
    expect(certificate.context()).toBe(before)
    use(CERTIFICATES.renewed)
    await certificate.refresh()
    expect(said.slice(1)).toEqual([
      'the certificate has changed: judge.example, valid until 2119-12-28T23:11:42.000Z',
    ])
    expect(certificate.context()).not.toBe(before)
  })
})

describe('a judge', () => {
  test('closes its connections, ports and timers when it stops', async () => {
    const judge = await startTestJudge()
    const socket = connectPlain(judge.port)
    const closed = received(socket)
    await until(() => judge.counts().open === 1)
    judge.stop()
    expect(String(await closed)).toBe('')
    expect(judge.repeated.size).toBe(0)
    const again = await startTestJudge({ listen: judge.where })
    expect(again.port).toBe(judge.port)
    await answerTo(again, mint())
  })

  test('refuses older tokens after a restart', async () => {
    const judge = await startTestJudge({ clock: () => T0 + 1 })
    expect(await ask(judge, request(mint()))).toMatch(TIME)
  })

  test('does not start when a port is in use', async () => {
    const one = await startTestJudge()
    const listen = { ...one.where, port: one.tlsPort }
    expect(startTestJudge({ listen })).rejects.toThrow(
      `cannot listen on http://127.0.0.1:${listen.port}: port ${listen.port} is in use`,
    )
  })
})
