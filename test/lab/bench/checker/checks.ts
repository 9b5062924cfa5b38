/**
 * Makes checks of one kind with the prober, or bare connections, in a process of its own; reads what to do as JSON from
 * its argument, and prints what it cost.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createSecureContext } from 'node:tls'
import { createProber } from '../../../../src/checker/probe.ts'
import { stopwatch, systemClock, timerLater } from '../../../../src/lib/clock.ts'
import type { Address, ProxyType } from '../../../../src/proxies/proxy.ts'
import { AUTHORITY, JUDGE_NAME, KEYS } from '../../../support/judge.ts'
import { USER_AGENT } from '../../../support/prober.ts'

export type Work = {
  judge: { port: number; tlsPort: number }
  addresses: readonly Address[]
  known: ProxyType | null
  wantsTls: boolean
  count: number
  /** Checks under way. */
  at: number
  /** Each is a bare TLS connection with the judge instead, and a request. */
  isBare?: boolean
  /** Ends when all have begun and this has passed, whatever is still under way. */
  forMs?: number
}
/** CPU and wall in microseconds a check, resident memory before, during and after in bytes. */
export type Cost = {
  cpuUs: number
  wallUs: number
  found: { [what: string]: number }
  bytes: { before: number; at: number; after: number }
  descriptorsLeft: number
}

const work: Work = JSON.parse(process.argv[2] ?? '')
const { judge, addresses, known, wantsTls, count, at } = work
const { probe, selfCheck } = createProber({
  ...{ later: timerLater, elapsedMs: stopwatch(), userAgent: USER_AGENT, clock: systemClock },
  judge: {
    plain: new URL(`http://${JUDGE_NAME}:${judge.port}`),
    tls: new URL(`https://${JUDGE_NAME}:${judge.tlsPort}`),
  },
  authorities: readFileSync(AUTHORITY, 'utf8'),
  ...{ keys: KEYS, ownAddresses: [], targets: [], allowsPrivate: true },
  resolve: async () => ['127.0.0.1'],
})
const self = await selfCheck()
if (!self.ok) throw new Error(self.problem)

/** What TLS alone costs this runtime. */
const secureContext = createSecureContext({
  ca: readFileSync(AUTHORITY),
  ecdhCurve: 'X25519:P-256',
})
const connectBare = () =>
  new Promise<{ kind: 'bare' }>((resolve, reject) => {
    const socket = connect({
      ...{ host: '127.0.0.1', port: judge.tlsPort, servername: JUDGE_NAME, secureContext },
    })
    socket.on('secureConnect', () => socket.write('GET / HTTP/1.1\r\n\r\n'))
    socket.on('data', () => socket.destroy())
    socket.on('error', reject)
    socket.on('close', () => resolve({ kind: 'bare' }))
  })

const descriptors = (): number => readdirSync('/proc/self/fd').length
const found: Cost['found'] = {}
let begun = 0

async function checkOn(): Promise<void> {
  while (begun < count) {
    const address = addresses[begun % addresses.length]
    begun += 1
    if (address === undefined) return
    const request = { address, known, named: 0, wantsSpeed: false, wantsServices: false, wantsTls }
    const result = await (work.isBare ? connectBare() : probe(request))
    const hasNoTls = 'measured' in result && result.measured.hasTls === false
    const word = 'reason' in result ? result.reason : hasNoTls ? 'without TLS' : result.kind
    found[word] = (found[word] ?? 0) + 1
  }
}

const open = descriptors()
Bun.gc(true)
const before = process.memoryUsage.rss()
const cpu = process.cpuUsage()
const elapsedMs = stopwatch()
const all = Promise.all(Array.from({ length: at }, checkOn))
if (work.forMs !== undefined) await Bun.sleep(work.forMs)
const peak = process.memoryUsage.rss()
if (work.forMs === undefined) await all
const used = process.cpuUsage(cpu)
const wallUs = (1000 * elapsedMs()) / begun
// Sockets are given back after the first.
Bun.gc(true)
await Bun.sleep(500)
Bun.gc(true)
const cost: Cost = {
  ...{ cpuUs: (used.user + used.system) / begun, wallUs, found },
  bytes: { before, at: peak, after: process.memoryUsage.rss() },
  descriptorsLeft: descriptors() - open,
}
process.stdout.write(`${JSON.stringify(cost)}\n`)
process.exit(0)
