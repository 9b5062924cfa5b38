/** Tests of the protocol: without the secret, a message cannot be made, changed or used twice. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type Answer,
  isTimely,
  keysOf,
  mintToken,
  openToken,
  payloadOf,
  readAnswer,
  SECRET_BYTES,
  SELF,
  TOKEN,
  type TokenRequest,
  writeAnswer,
} from '../../src/judge/protocol.ts'
import { T0 } from '../support/fixtures.ts'

const KEYS = keysOf(new Uint8Array(SECRET_BYTES).fill(1))
const OTHER_KEYS = keysOf(new Uint8Array(SECRET_BYTES).fill(2))
const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

const mint = (request: Partial<TokenRequest> = {}, keys = KEYS): string =>
  mintToken(keys, { timeMs: T0, address: '192.0.2.1:80', kind: 'plain', size: 0, ...request })

describe('a token', () => {
  test('has 60 characters that need no escaping in a URL, and says time, kind and size', () => {
    const request = fc.record({
      timeMs: fc.integer({ min: 0, max: 2 ** 48 - 1 }),
      address: fc.constantFrom('192.0.2.1:80', '255.255.255.255:65535', SELF),
      kind: fc.constantFrom('plain' as const, 'tls' as const),
      size: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    })
    fc.assert(
      fc.property(request, ({ timeMs, address, kind, size }) => {
        const token = mint({ timeMs, address, kind, size })
        expect(token).toMatch(new RegExp(`^${TOKEN}$`))
        expect(openToken(KEYS, token)).toEqual({ timeMs, kind, size })
      }),
    )
  })

  test('is invalid with any character changed', () => {
    const token = mint({ size: 65_536 })
    const accepted = Array.from(token, (_, at) =>
      [...CHARACTERS, '+', '/', '=', ' ', 'é', '\0']
        .map(character => token.slice(0, at) + character + token.slice(at + 1))
        .filter(changed => changed !== token && openToken(KEYS, changed) !== null),
    )
    expect(accepted).toHaveLength(60)
    expect(accepted.flat()).toEqual([])
  })

  test.each([
    ['cut', (token: string) => token.slice(0, -1)],
    ['with more behind it', (token: string) => `${token}A`],
    ['with a newline behind it', (token: string) => `${token}\n`],
    ['in another alphabet', (token: string) => `+${token.slice(1)}`],
    ['empty', () => ''],
  ])('is invalid when it is %s', (_, change) => expect(openToken(KEYS, change(mint()))).toBeNull())

  test('of another secret is invalid', () =>
    expect(openToken(KEYS, mint({}, OTHER_KEYS))).toBeNull())

  test('requests a payload of 1 MiB at most', () =>
    expect(() => mint({ size: 2 ** 32 })).toThrow(RangeError))

  test.each<[string, number, number, boolean]>([
    ['of 60 s before', T0 - 60_000, T0 - 90_000, true],
    ['older than 60 s', T0 - 60_001, T0 - 90_000, false],
    ['30 s ahead', T0 + 30_000, T0 - 90_000, true],
    ['more than 30 s ahead', T0 + 30_001, T0 - 90_000, false],
    ['of the start of the judge', T0 - 5, T0 - 5, true],
    ['of before the start of the judge', T0 - 6, T0 - 5, false],
  ])('%s: %p', (_, timeMs, startedMs, isAccepted) =>
    expect(isTimely(timeMs, T0, startedMs)).toBe(isAccepted),
  )
})

const answerTo = (token: string, more: Partial<Answer> = {}): Answer => ({
  ...{ token, peer: '192.0.2.7', form: 'origin', tls: false, time: T0, started: T0 - 1000 },
  headers: [
    ['Host', 'judge.example'],
    ['X-Tést', 'a "b"'],
  ],
  ...more,
})

/** The body that the judge sends. */
const bodyOf = (token: string, keys = KEYS, answer = answerTo(token)): Buffer => {
  const size = openToken(keys, token)?.size ?? 0
  return Buffer.concat([Buffer.from(writeAnswer(keys, answer)), payloadOf(keys, token, size)])
}

describe('an answer', () => {
  test.each([0, 1, 65_536])('with a payload of %p bytes is read as it was written', size => {
    const token = mint({ size })
    const body = bodyOf(token)
    expect(readAnswer(KEYS, token, body)).toEqual(answerTo(token))
    const head = Buffer.byteLength(writeAnswer(KEYS, answerTo(token)))
    if (size > 0) expect(body.length).toBe(head + size)
    else expect(body.toString()).toEndWith('</body></html>\n')
  })

  const token = mint({ size: 100 })
  const body = bodyOf(token)
  const [line = '', signature = ''] = body.toString('latin1').split('\n')
  const after = body.subarray(line.length + signature.length + 2)
  const page = (...parts: (string | Uint8Array)[]): Buffer =>
    Buffer.concat(parts.map(part => Buffer.from(part as string, 'latin1')))

  test.each<[string, Uint8Array, ReturnType<typeof readAnswer>]>([
    ['nothing', page(), 'not the judge'],
    ['a page', page('<html>\n<body>welcome</body>\n</html>\n'), 'not the judge'],
    ['a page before it', page('<script src=x></script>\n', body), 'not the judge'],
    ['JSON without a signature', page(line, '\n'), 'not the judge'],
    ['a signature cut short', page(line, '\n', signature.slice(1), '\n', after), 'not the judge'],
    ['one line with all', page(line, ' ', signature, ' ', after), 'not the judge'],
    ['another peer', page(line.replace('2.7', '2.8'), '\n', signature, '\n', after), 'forged'],
    ['a space more', page(line, ' \n', signature, '\n', after), 'forged'],
    ['a made up signature', page(line, '\n', 'A'.repeat(43), '\n', after), 'forged'],
    ['the signature of another secret', bodyOf(token, OTHER_KEYS), 'forged'],
    ['nothing but a signature', page('\n', signature, '\n'), 'forged'],
    ['the answer to another check', bodyOf(mint({ size: 100 })), 'replayed'],
    [
      'the payload of another check',
      page(line, '\n', signature, '\n', bodyOf(mint({ size: 100 })).subarray(-100)),
      'altered',
    ],
    ['no payload', page(line, '\n', signature, '\n'), 'altered'],
    ['a payload cut short', body.subarray(0, -1), 'altered'],
    ['a script behind it', page(body, '<script>'), 'altered'],
  ])('is invalid: %s', (_, sent, reason) =>
    expect(readAnswer(KEYS, token, Buffer.from(sent))).toBe(reason),
  )

  test.each([
    ['a script in its page', '</body>', '<script src=//ads.example></script></body>'],
    ['a page in capitals', '<body>', '<BODY>'],
    ['a page without its last newline', '</html>\n', '</html>'],
  ])('is altered: %s', (_, part, other) => {
    const asked = mint({ size: 0 })
    const sent = bodyOf(asked).toString('latin1').replace(part, other)
    expect(readAnswer(KEYS, asked, Buffer.from(sent, 'latin1'))).toBe('altered')
  })

  test('is invalid with any byte changed', () => {
    const accepted = Array.from(body, (byte, at) => {
      const changed = Buffer.from(body)
      changed[at] = byte ^ 1
      return readAnswer(KEYS, token, changed)
    }).filter(read => typeof read !== 'string')
    expect(accepted).toEqual([])
  })

  test('has a payload of any size that follows from its token alone', () => {
    const whole = payloadOf(KEYS, token, 1000)
    expect(payloadOf(KEYS, token, 100)).toEqual(whole.subarray(0, 100))
    expect(payloadOf(KEYS, mint(), 1000)).not.toEqual(whole)
    expect(payloadOf(OTHER_KEYS, token, 1000)).not.toEqual(whole)
  })
})
