/** Tests of `judge` as a program: what it needs, where it listens, what it says, and how it ends. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
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
import { createClock, proxylist, startProgram } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

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
    'answers, plain and by TLS, says little, and ends with status 0 at %s',
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

  test('makes a secret for its owner only, and uses it again', async () => {
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

  test('has a clock that does not step with that of its machine', async () => {
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

  test('is set by variables of its own, not by those of a server', async () => {
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
  const { exitCode, stdout, stderr } = await proxylist(['judge', ...args])
  expect(stdout).toBe('')
  return [exitCode, stderr]
}

describe('a judge does not start', () => {
  test('at a port that is in use: status 1', async () => {
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

  const [cert, key] = [CERTIFICATES.judge.cert, CERTIFICATES.judge.key]
  const [, LISTEN_TLS = ''] = TLS
  test.each<[string, readonly string[], string]>([
    [
      'without a secret',
      [],
      '--judge-secret FILE is required: judge and check share it; it is created if it does not exist',
    ],
    [
      'with --listen-tls alone',
      ['--judge-secret', '/none', '--listen-tls', LISTEN_TLS],
      '--listen-tls requires --cert FILE and --key FILE',
    ],
    [
      'without a key',
      ['--judge-secret', '/none', '--listen-tls', LISTEN_TLS, '--cert', cert],
      '--listen-tls requires --cert FILE and --key FILE',
    ],
    [
      'with a certificate for nothing',
      ['--judge-secret', '/none', '--cert', cert, '--key', key],
      '--cert and --key require --listen-tls',
    ],
    [
      'with the key of another certificate',
      ['--judge-secret', '/none', ...TLS.with(5, CERTIFICATES.renewed.key)],
      `${CERTIFICATES.renewed.key} is not the private key of ${cert}, in PEM without a password`,
    ],
    [
      'with a secret in no directory',
      ['--judge-secret', '/none/secret'],
      'the secret /none/secret cannot be created: no such file or directory',
    ],
    ['on a unix socket', ['--listen', 'unix:/tmp/x'], '--listen must be HOST:PORT or :PORT'],
  ])('%s: status 2', async (_, args, why) =>
    expect(await refused([...LISTEN, ...args])).toEqual([2, `proxylist: ${why}\n`]),
  )

  test('with a certificate that is not there, perhaps not yet: status 1', async () => {
    const args = [...LISTEN, '--judge-secret', '/none', ...TLS.with(3, '/none.pem')]
    const says = 'proxylist: cannot read /none.pem: no such file or directory\n'
    expect(await refused(args)).toEqual([1, says])
  })

  const RIGHT = `${'A'.repeat(43)}\n`
  test.each<[string, (file: string) => void, string]>([
    [
      'that its group can read',
      file => {
        writeFileSync(file, RIGHT)
        chmodSync(file, 0o640)
      },
      'can be read by others; make it yours alone with: chmod 600 FILE',
    ],
    [
      'that is too short',
      file => writeFileSync(file, RIGHT.slice(2), { mode: 0o600 }),
      'is not one; name another file, which is then made',
    ],
    [
      'of another program, which others can read',
      file => writeFileSync(file, 'root:x:0:0\n', { mode: 0o644 }),
      'is not one; name another file, which is then made',
    ],
    [
      'that is empty',
      file => writeFileSync(file, '', { mode: 0o600 }),
      'is not one; name another file, which is then made',
    ],
    [
      'that is a directory',
      file => mkdirSync(file),
      'cannot be read: it is a directory, not a file',
    ],
  ])('with a secret %s: status 2', async (_, make, why) => {
    const file = secretFile()
    make(file)
    expect(await refused([...LISTEN, '--judge-secret', file])).toEqual([
      2,
      `proxylist: the secret ${file} ${why.replace('FILE', file)}\n`,
    ])
  })
})

test('a secret is 32 random bytes', async () => {
  const [one, other] = [secretFile(), secretFile()]
  await Promise.all([openSecret(one), openSecret(other)])
  const [bytes, others] = [one, other].map(file =>
    Buffer.from(readFileSync(file, 'utf8'), 'base64url'),
  )
  expect([bytes?.length, others?.length]).toEqual([SECRET_BYTES, SECRET_BYTES])
  expect(bytes).not.toEqual(others)
  expect((await openSecret(one)).keys).toEqual(keysOf(new Uint8Array(bytes ?? [])))
})

test('a secret is read where no file can be made, as in a mount that is read-only', async () => {
  const file = secretFile()
  const { keys } = await openSecret(file)
  const readOnly = `/dev/fd/${openSync(file, 'r')}` // nobody, not even root, makes a file beside it
  expect(await openSecret(readOnly)).toEqual({ keys, isNew: false })
})
