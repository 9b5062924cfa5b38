/** Checks of real proxies from Debian packages. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { CheckRequest } from '../../src/checker/ports.ts'
import { timerLater } from '../../src/lib/clock.ts'
import { EXIT } from '../support/fake-proxies.ts'
import { freePort, launch } from '../support/launch.ts'
import { startProber, wordOf } from '../support/prober.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

const PATH = `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin`
const IP = '127.64.200.1'

/** The file of a configuration, and the arguments that name it. */
type Start = { configuration: string; args: (file: string) => string[] }
const squid = (port: number, more = ''): Start => ({
  configuration: `http_port ${IP}:${port}
    http_access allow all
    tcp_outgoing_address ${EXIT}
    cache deny all
    access_log none
    cache_log /dev/null
    pid_filename none
    shutdown_lifetime 0 seconds
    ${more}`.replace(/^ +/gm, ''),
  args: file => ['-N', '-f', file],
})
const tinyproxy = (port: number, more = ''): Start => ({
  configuration: `Port ${port}\nListen ${IP}\nBind ${EXIT}\nTimeout 60\nLogLevel Error\n${more}`,
  args: file => ['-d', '-c', file],
})
const danted = (port: number): Start => ({
  configuration: `internal: ${IP} port = ${port}
    external: lo
    clientmethod: none
    socksmethod: none
    client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }
    socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }`,
  args: file => ['-f', file],
})
const microsocks = (port: number): Start => ({
  configuration: '',
  args: () => ['-i', IP, '-p', String(port), '-b', EXIT],
})

type Row = [
  program: string,
  how: string,
  (port: number) => Start,
  found: string,
  Partial<CheckRequest>?,
]
const ROWS: Row[] = [
  ['squid', 'as it comes', port => squid(port), 'https transparent by X-Forwarded-For'],
  ['squid', 'that hides', port => squid(port, 'via off\nforwarded_for delete'), 'https elite'],
  ['tinyproxy', 'as it comes', port => tinyproxy(port), 'https anonymous by Via'],
  ['tinyproxy', 'that hides', port => tinyproxy(port, 'DisableViaHeader Yes\n'), 'https elite'],
  // It connects from the loopback address, which is ours.
  ['danted', 'as it comes', danted, 'socks5 transparent by peer', { wantsTls: true }],
  ['danted', 'known as socks4', danted, 'socks4 transparent by peer', { known: 'socks4' }],
  ['microsocks', 'as it comes', microsocks, 'socks5 elite', { wantsTls: true }],
]

const TLS = join(ROOT, 'test/fixtures/tls')
let prober: Awaited<ReturnType<typeof startProber>>
beforeAll(async () => {
  const files = { cert: join(TLS, 'server.pem'), key: join(TLS, 'server.key') }
  prober = await startProber(
    { later: timerLater },
    { name: 'localhost', files, authority: join(TLS, 'authority.pem') },
  )
})
afterAll(cleanUp)

const listens = async (port: number): Promise<boolean> => {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({ host: IP, port })
  socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

for (const [program, how, start, found, request] of ROWS) {
  const path = Bun.which(program, { PATH })
  test.skipIf(path === null)(
    `${program} ${how}: ${found}${path ? '' : ' (not installed)'}`,
    async () => {
      const port = freePort()
      const dir = temporaryDirectory(program)
      const file = join(dir, 'configuration')
      const { configuration, args } = start(port)
      writeFileSync(file, configuration)
      chmodSync(dir, 0o755) // some give up their rights first
      const child = launch([path ?? '', ...args(file)])
      await until(() => listens(port))
      const result = await prober.check({ ip: IP, port }, request)
      await child.stop()
      expect([wordOf(result), result.attempts]).toEqual([found, expect.anything()])
      if (result.kind === 'alive') expect(result.measured.hasTls ?? true).toBeTrue()
    },
  )
}
