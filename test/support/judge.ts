/** A judge in process on free ports of loopback, its clock and timers moved by hand, and raw requests to it. */
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { openCertificate } from '../../src/judge/certificate.ts'
import { type JudgeOptions, startJudge } from '../../src/judge/judge.ts'
import {
  keysOf,
  mintToken,
  SECRET_BYTES,
  SELF,
  type TokenRequest,
} from '../../src/judge/protocol.ts'
import { T0 } from './fixtures.ts'
import { ROOT } from './program.ts'
import { onCleanUp } from './temporary.ts'

export const SECRET = new Uint8Array(SECRET_BYTES).fill(7)
export const KEYS = keysOf(SECRET)

/** The name of the judge in its certificates, which `AUTHORITY` has signed. */
export const JUDGE_NAME = 'judge.example'
const pem = (name: string): string => join(ROOT, 'test/fixtures/tls', name)
const pair = (name: string) => ({ cert: pem(`${name}.pem`), key: pem(`${name}.key`) })
export const AUTHORITY = pem('judge-authority.pem')
/** Two certificates of the judge, one of another name, a self-signed one, and an expired one. */
export const CERTIFICATES = {
  ...{ judge: pair('judge'), renewed: pair('judge-renewed') },
  ...{ otherName: pair('judge-other-name'), selfSigned: pair('judge-middle') },
  ended: pair('judge-ended'),
}

/** A token that is valid at T0, for the judge itself on its plain listener unless said otherwise. */
export const mint = (request: Partial<TokenRequest> = {}, keys = KEYS): string =>
  mintToken(keys, { timeMs: T0, address: SELF, kind: 'plain', size: 0, ...request })

/** Starts a judge at T0; `run` runs the timers of an interval. `cleanUp` stops it. */
export async function startTestJudge(
  options: Partial<JudgeOptions> = {},
  files = CERTIFICATES.judge,
) {
  let now = T0
  const said: string[] = []
  const say = (sentence: string): void => void said.push(sentence)
  const repeated = new Set<{ run: () => void; ms: number }>()
  const listen = { kind: 'tcp', hostname: '127.0.0.1', port: 0 } as const
  const judge = await startJudge({
    ...{ keys: KEYS, clock: () => now, listen },
    every(run, ms) {
      const each = { run, ms }
      repeated.add(each)
      return () => repeated.delete(each)
    },
    tls: { listen, certificate: await openCertificate(files, say) },
    ...options,
  })
  onCleanUp(judge.stop)
  return {
    ...{ ...judge, said, repeated },
    port: judge.where.port,
    tlsPort: judge.whereTls?.port ?? 0,
    setNow(ms: number): void {
      now = ms
    },
    run(ms: number): void {
      for (const each of repeated) if (each.ms === ms) each.run()
    },
  }
}

export type TestJudge = Awaited<ReturnType<typeof startTestJudge>>

/** The request of a check, as its bytes. */
export const request = (token: string, more = ''): string =>
  `GET /${token} HTTP/1.1\r\nHost: ${JUDGE_NAME}\r\n${more}\r\n`

type From = { localAddress?: string; host?: string }

export const connectPlain = (port: number, from: From = {}): Socket =>
  connect({ host: '127.0.0.1', port, ...from })
export const connectSecure = (port: number): Socket =>
  connectTls({
    ...{ host: '127.0.0.1', port, servername: JUDGE_NAME },
    ca: readFileSync(AUTHORITY, 'utf8'),
  })

/** All bytes that a socket receives until it closes. */
export function received(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  const { promise, resolve } = Promise.withResolvers<Buffer>()
  socket
    .on('data', (chunk: Buffer) => chunks.push(chunk))
    .on('error', () => {})
    .on('close', () => resolve(Buffer.concat(chunks)))
  return promise
}

/** All that a listener answers to these bytes, until it closes. */
export function exchange(socket: Socket, bytes: string | Uint8Array): Promise<Buffer> {
  socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  return received(socket)
}
