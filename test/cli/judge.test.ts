/** Tests of `judge` as a program: what it needs, where it listens, what it says, and how it ends. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { keysOf, readAnswer, SECRET_BYTES, type TokenKind } from '../../src/judge/protocol.ts'
import { openSecret } from '../../src/judge/secret.ts'
import { HOUR_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import {
  CERTIFICATES,
  connectPlain,
  connectSecure,
  exchange,
  mint,
  request,
} from '../support/judge.ts'
import { createClock, startProgram } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

const LISTEN = ['--listen', '127.0.0.1:0']
const TLS = [
  ...['--listen-tls', '127.0.0.1:0'],
  ...['--cert', CERTIFICATES.judge.cert, '--key', CERTIFICATES.judge.key],
]
const secretFile = (): string => join(temporaryDirectory(), 'secret')

type Judge = ReturnType<typeof startProgram>

/** The port at which a judge says that it listens. */
async function portOf(judge: Pick<Judge, 'says'>, scheme = 'http'): Promise<number> {
  const line = await judge.says(new RegExp(`listening on ${scheme}://\\S+\\n`))
  return Number(/:(\d+)\n$/.exec(line)?.[1])
}

/** What a judge answers to a token of the secret in `file`. */
async function check(
  judge: Pick<Judge, 'says'>,
  file: string,
  kind: TokenKind = 'plain',
  timeMs = T0 + 1_000,
) {
  const port = await portOf(judge, kind === 'tls' ? 'https' : 'http')
  const { keys } = await openSecret(file)
  const token = mint({ kind, size: 1_000, timeMs }, keys)
  const socket = kind === 'tls' ? connectSecure(port) : connectPlain(port)
  const response = await exchange(socket, request(token))
  return readAnswer(keys, token, response.subarray(response.indexOf('\r\n\r\n') + 4))
}

describe('a judge', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'answers with and without TLS, and ends with status 0 at %s',
    async signal => {
      const file = secretFile()
      const judge = startProgram(['judge', ...LISTEN, ...TLS, '--judge-secret', file])
      expect(await check(judge, file)).toMatchObject({ peer: '127.0.0.1', tls: false })
      expect(await check(judge, file, 'tls')).toMatchObject({ peer: '127.0.0.1', tls: true })
      await exchange(connectPlain(await portOf(judge)), request('x'))
      const [plain, secure] = [await portOf(judge), await portOf(judge, 'https')]
      judge.kill(signal)
      expect(await judge.ended).toBe(0)
      expect(judge.written).toEqual({
        stdout: '',
        stderr:
          `created a secret in ${file}: the checker needs the same file\n` +
          'its certificate: judge.example, valid until 2119-12-28T23:11:42.000Z\n' +
          `listening on http://127.0.0.1:${plain}\nlistening on https://127.0.0.1:${secure}\n` +
          'stopped: 2 checks answered, 1 request refused\n',
      })
    },
  )

  test('makes a secret that only its owner can read, and uses it again', async () => {
    const file = secretFile()
    for (const isFirst of [true, false]) {
      const judge = startProgram(['judge', ...LISTEN, '--judge-secret', file])
      expect(await check(judge, file)).toMatchObject({ form: 'origin' })
      expect(await judge.stop()).toBe(0)
      expect(judge.written.stderr.includes('created a secret')).toBe(isFirst)
    }
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file, 'utf8')).toMatch(/^[\w-]{43}\n$/)
  })

  test('keeps its own time when the clock of the machine steps', async () => {
    const file = secretFile()
    const { env, setClock } = createClock()
    const judge = startProgram(['judge', ...LISTEN, '--judge-secret', file], env)
    await portOf(judge)
    for (const ms of [T0 - HOUR_MS, T0 + HOUR_MS]) {
      setClock(ms)
      const answer = await check(judge, file)
      const times = typeof answer === 'string' ? [] : [answer.started, answer.time]
      expect(times.map(time => time >= T0 && time < T0 + HOUR_MS)).toEqual([true, true])
    }
    await judge.stop()
  })

  test('reads its own variables, not the variables of a server', async () => {
    const file = secretFile()
    const judge = startProgram(['judge'], {
      ...{ PROXYLIST_LISTEN: '127.0.0.1:1', PROXYLIST_KEY: 'secret' },
      ...{ PROXYLIST_JUDGE_LISTEN: '127.0.0.1:0', PROXYLIST_JUDGE_LISTEN_TLS: '127.0.0.1:0' },
      ...{ PROXYLIST_JUDGE_CERT: CERTIFICATES.judge.cert },
      ...{ PROXYLIST_JUDGE_KEY: CERTIFICATES.judge.key, PROXYLIST_JUDGE_SECRET: file },
    })
    expect(await check(judge, file, 'tls')).toMatchObject({ tls: true })
    await judge.stop()
  })
})

/** A judge that does not start: its status, and what it says. */
async function refused(args: readonly string[]): Promise<readonly [number, string]> {
  const { exitCode, stdout, stderr } = await runCommand(['judge', ...args])
  expect(stdout).toBe('')
  return [exitCode, stderr]
}

describe('a judge does not start', () => {
  test('on a port that is in use: status 1', async () => {
    const file = secretFile()
    const judge = startProgram(['judge', ...LISTEN, '--judge-secret', file])
    const port = await portOf(judge)
    expect(await refused(['--listen', `127.0.0.1:${port}`, '--judge-secret', file])).toEqual([
      1,
      `proxylist: cannot listen on http://127.0.0.1:${port}: port ${port} is in use\n`,
    ])
    const tls = TLS.with(1, `127.0.0.1:${port}`)
    expect(await refused([...LISTEN, ...tls, '--judge-secret', file])).toEqual([
      1,
      expect.stringMatching(
        new RegExp(
          `^proxylist: cannot listen on https://127.0.0.1:${port}: port ${port} is in use$`,
          'm',
        ),
      ),
    ])
    await judge.stop()
  })

  const RIGHT = `${'A'.repeat(43)}\n`
  const NONE = 'is not one; name another file, which is then made'
  test.each<[string, string, number, string]>([
    [
      'that others can read',
      RIGHT,
      0o640,
      'can be read by others; make it yours alone with: chmod',
    ],
    ['that is too short', RIGHT.slice(2), 0o600, NONE],
    ['of another program', 'root:x:0:0\n', 0o644, NONE],
    ['that is empty', '', 0o600, NONE],
  ])('with a secret %s: status 2', async (_, text, mode, why) => {
    const file = secretFile()
    writeFileSync(file, text)
    chmodSync(file, mode)
    const [status, said] = await refused([...LISTEN, '--judge-secret', file])
    expect([status, said.split('\n')]).toEqual([2, [expect.any(String), '']])
    expect(said).toStartWith(`proxylist: the secret ${file} ${why}`)
  })

  test('with a secret that is a directory: status 2', async () => {
    const dir = temporaryDirectory()
    expect(await refused([...LISTEN, '--judge-secret', dir])).toEqual([
      2,
      `proxylist: the secret ${dir} cannot be read: it is a directory, not a file\n`,
    ])
  })
})

test('a secret is 32 random bytes', async () => {
  const [file, other] = [secretFile(), secretFile()]
  const [{ keys }] = await Promise.all([openSecret(file), openSecret(other)])
  const [bytes = '', others] = [file, other].map(each => readFileSync(each, 'utf8'))
  const secret = new Uint8Array(Buffer.from(bytes, 'base64url'))
  expect(secret).toHaveLength(SECRET_BYTES)
  expect(others).not.toBe(bytes)
  expect(keys).toEqual(keysOf(secret))
})

test('a secret can be read on a read-only file system', async () => {
  const file = secretFile()
  const { keys } = await openSecret(file)
  const readOnly = `/dev/fd/${openSync(file, 'r')}` // nobody, not even root, makes a file beside it
  expect(await openSecret(readOnly)).toEqual({ keys, isNew: false })
})
