/** The judge: it answers each token of the checker once, says what it saw, and is of no use to anybody else. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readAnswer } from '../../src/checker/protocol.ts'
import { T0 } from '../support/fixtures.ts'
import {
  connectPlain,
  connectSecure,
  exchange,
  JUDGE_NAME,
  KEYS,
  mint,
  request,
  startTestJudge,
} from '../support/judge.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** The head of a response, and its body. */
function divide(response: Buffer): { head: string; body: Buffer } {
  const end = response.indexOf('\r\n\r\n') + 4
  return { head: response.toString('latin1', 0, end), body: response.subarray(end) }
}

describe('a token is answered', () => {
  test.each([0, 1, 65_536, 262_144])('with a payload of %p bytes, plain and by TLS', async size => {
    const judge = await startTestJudge()
    for (const kind of ['plain', 'tls'] as const) {
      const token = mint({ kind, size })
      const socket = kind === 'tls' ? connectSecure(judge.tlsPort) : connectPlain(judge.port)
      const { head, body } = divide(await exchange(socket, request(token)))
      expect(head).toBe(
        `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\n` +
          'Cache-Control: no-store, no-transform\r\nConnection: close\r\n\r\n',
      )
      expect(readAnswer(KEYS, token, body)).toEqual({
        ...{ token, peer: '127.0.0.1', headers: [['Host', JUDGE_NAME]], form: 'origin' },
        ...{ tls: kind === 'tls', time: T0, started: T0 },
      })
    }
  })
})
