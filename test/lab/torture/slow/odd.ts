/** Requests that are too large, pipelined, old or for another host, and their answers. */
import { connect } from 'node:net'
import { readAnswer } from '../support/answers.ts'

/** `statuses` of the first answer; 0 is none before the end. `rightBody`: its body is the list. */
type Odd = {
  name: string
  bytes: string
  statuses: readonly number[]
  rightBody?: true
}

const TOO_LARGE = [0, 400, 413, 414, 431]
const KIB = 1024
const get = (target: string, fields = 'Host: a\r\n', version = 'HTTP/1.1'): string =>
  `GET ${target} ${version}\r\n${fields}Connection: close\r\n\r\n`

/** The requests; valid ones ask for `target`. */
export function oddRequests(target: string): Odd[] {
  const sizes = [9, 16, 64, 1024]
  const right = (name: string, bytes: string): Odd => ({
    name,
    bytes,
    statuses: [200],
    rightBody: true,
  })
  return [
    ...sizes.flatMap(size => [
      {
        name: `a target of ${size} KiB`,
        bytes: get(`${target}&city=${'x'.repeat(size * KIB)}`),
        statuses: TOO_LARGE,
      },
      {
        name: `a header field of ${size} KiB`,
        bytes: get(target, `Host: a\r\nX: ${'x'.repeat(size * KIB)}\r\n`),
        statuses: TOO_LARGE,
      },
      {
        name: `a header field of ${size} KiB without an end`,
        bytes: `GET ${target} HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(size * KIB)}`,
        statuses: TOO_LARGE,
      },
    ]),
    {
      name: '1,000 header fields',
      bytes: get(target, `Host: a\r\n${'X: x\r\n'.repeat(1000)}`),
      statuses: TOO_LARGE,
    },
    {
      name: 'a method of 64 KiB',
      bytes: `${'G'.repeat(64 * KIB)} ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
      statuses: TOO_LARGE,
    },
    {
      name: 'a body of 64 KiB',
      bytes: `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n${'b'.repeat(65536)}`,
      statuses: [...TOO_LARGE, 405],
    },
    right('the same pipelined twice', get(target, 'Host: a\r\n').repeat(2)),
    {
      name: 'five pipelined on a keep-alive connection',
      bytes: `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(5),
      statuses: [0, 200],
    },
    right('HTTP/1.0 without Host', get(target, '', 'HTTP/1.0')),
    right('HTTP/1.0 with Host', get(target, 'Host: a\r\n', 'HTTP/1.0')),
    right('a wrong Host', get(target, 'Host: bank.example:443\r\n')),
    right('a Host with a query of its own', get(target, 'Host: a?key=other&type=http\r\n')),
    right('an absolute target for another host', get(`http://bank.example${target}`)),
    { name: 'HTTP/1.1 without Host', bytes: get(target, ''), statuses: [400] },
  ]
}

/** Longest silence of a connection. */
const SILENCE_MS = 5_000

/** Everything a server on `port` answers to these bytes; half-closes the connection after them. */
function exchange(port: number, bytes: string): Promise<{ text: string; isClosed: boolean }> {
  const { promise, resolve } = Promise.withResolvers<{ text: string; isClosed: boolean }>()
  let text = ''
  const socket = connect(port, '127.0.0.1', () => socket.end(bytes, 'latin1'))
  const finish = (isClosed: boolean): void => {
    socket.destroy()
    resolve({ text, isClosed })
  }
  socket.setTimeout(SILENCE_MS, () => finish(false))
  socket.on('data', piece => {
    text += piece.toString('latin1')
  })
  socket.on('error', () => finish(true)) // it may be reset while we still send
  socket.on('close', () => finish(true))
  return promise
}

/** What is wrong with the answer of the server on `port`, or `null`. */
export async function tryOdd(port: number, odd: Odd, body: string): Promise<string | null> {
  const { text, isClosed } = await exchange(port, odd.bytes)
  if (!isClosed) return `${odd.name}: no answer, not closed`
  const first = text === '' ? null : readAnswer(text, false)
  const status = first?.answer.status ?? 0
  if (!odd.statuses.includes(status)) return `${odd.name}: ${status}`
  return odd.rightBody && first?.answer.body !== body ? `${odd.name}: another body` : null
}
