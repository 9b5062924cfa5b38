/**
 * What checks of proxies cost (contract H): processor time beside proxy-verifier, the memory of many that hang, and
 * what 100,000 leave behind. What requests notice of a checker is measured in `latency.ts`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createProber } from '../../../../src/checker/probe.ts'
import { stopwatch, systemClock, timerLater } from '../../../../src/lib/clock.ts'
import type { Address, ProxyType } from '../../../../src/proxies/proxy.ts'
import { AUTHORITY, JUDGE_NAME, KEYS } from '../../../support/judge.ts'
import { succeed } from '../../../support/launch.ts'
import { USER_AGENT } from '../../../support/prober.ts'
import { script } from '../../support/script.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import { nodeBaseline } from '../baselines/baselines.ts'
import type { Workspace } from '../workspace.ts'
import { startWorld, type World } from './world.ts'

const CHECKS = 10_000
const MIXED = 100_000
const HANGING = 10_000
const AT_ONCE = 64
/** All connections are there by then, and none has hung for too long. */
const HANGING_MS = 4_000
const DEADLINE_SECONDS = 900

const PLAIN_US_MAX = 200
const TLS_US_MAX = 700
const RIVAL_TIMES = 3
const HANGING_BYTES_MAX = 120e6
const GROWTH_BYTES_MAX = 25e6

type Work = Pick<World, 'judge'> & {
  addresses: readonly Address[]
  known: ProxyType | null
  wantsTls: boolean
  count: number
  /** Checks under way. */
  at: number
  /** Ends when all have begun and this has passed, whatever is still under way. */
  forMs?: number
}

const descriptors = (): number => readdirSync('/proc/self/fd').length

/** Makes checks with the prober; gives CPU in microseconds a check, memory in bytes, and what was found. */
async function check(work: Work) {
  const { judge, addresses, known, wantsTls, at, forMs } = work
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
  const found: { [what: string]: number } = {}
  let begun = 0
  async function checkOn(): Promise<void> {
    while (begun < work.count) {
      const address = addresses[begun % addresses.length]
      begun += 1
      if (address === undefined) return
      const request = {
        address,
        known,
        named: 0,
        wantsSpeed: false,
        wantsServices: false,
        wantsTls,
      }
      const result = await probe(request)
      const hasNoTls = 'measured' in result && result.measured.hasTls === false
      const word = 'reason' in result ? result.reason : hasNoTls ? 'without TLS' : result.kind
      found[word] = (found[word] ?? 0) + 1
    }
  }
  const open = descriptors()
  Bun.gc(true)
  const beforeBytes = process.memoryUsage.rss()
  const cpu = process.cpuUsage()
  const all = Promise.all(Array.from({ length: at }, checkOn))
  await (forMs === undefined ? all : Bun.sleep(forMs))
  const atBytes = process.memoryUsage.rss()
  const used = process.cpuUsage(cpu)
  // Sockets are given back after the first.
  Bun.gc(true)
  await Bun.sleep(500)
  Bun.gc(true)
  return {
    ...{ cpuUs: (used.user + used.system) / begun, found, beforeBytes, atBytes },
    ...{ afterBytes: process.memoryUsage.rss(), descriptorsLeft: descriptors() - open },
  }
}

function costOf({ judge }: World, rest: Partial<Work> & Pick<Work, 'addresses'>) {
  const standard = { judge, known: null, wantsTls: false, count: CHECKS, at: AT_ONCE }
  return startCheck({ ...standard, ...rest }, DEADLINE_SECONDS).result
}

const foundText = (found: { [what: string]: number }): string =>
  Object.entries(found)
    .map(([what, n]) => `${count(n)} ${what}`)
    .join(', ')

/** CPU of checks of the living, beside proxy-verifier in turn, and of those with TLS. */
async function costs(world: World, rounds: number): Promise<Row[]> {
  const rival = await nodeBaseline('proxy-verifier.mjs')
  const times: { [what: string]: number[] } = { plain: [], rival: [], tls: [] }
  const run = async (what: string, rest: Parameters<typeof costOf>[1]): Promise<void> => {
    const { cpuUs, found } = await costOf(world, rest)
    if (found.alive !== (rest.count ?? CHECKS)) throw new Error(foundText(found))
    times[what]?.push(cpuUs)
  }
  const addresses = world.proxies.http ?? []
  for (let round = 0; round < rounds; round += 1) {
    await run('plain', { addresses, known: 'http' })
    if (typeof rival !== 'string') {
      const input = { addresses, at: AT_ONCE, testUrl: world.rival, count: CHECKS / 5 }
      const options = { deadlineSeconds: DEADLINE_SECONDS }
      times.rival?.push(JSON.parse(await succeed([...rival, JSON.stringify(input)], options)).cpuUs)
    }
    const https = { addresses: world.proxies.https ?? [], known: 'https' as const, wantsTls: true }
    await run('tls', { ...https, count: CHECKS / 5 })
  }
  const us = (what: string): number => median(times[what] ?? [])
  const ratio = us('rival') / us('plain')
  return [
    {
      case: `a check of a living http proxy, ${AT_ONCE} under way`,
      this: `${shown(us('plain'))} µs of CPU`,
      that: typeof rival === 'string' ? rival : `proxy-verifier: ${shown(us('rival'))} µs`,
      figure: typeof rival === 'string' ? '' : `${shown(ratio)} times less`,
      target: `≤ ${PLAIN_US_MAX} µs, ≥ ${RIVAL_TIMES} times less`,
      holds: us('plain') <= PLAIN_US_MAX && !(ratio < RIVAL_TIMES),
    },
    {
      case: 'a check of a living https proxy, plain and with TLS',
      this: `${shown(us('tls'))} µs of CPU`,
      that: '',
      figure: '',
      target: `≤ ${TLS_US_MAX} µs`,
      holds: us('tls') <= TLS_US_MAX,
    },
  ]
}

async function hanging(world: World): Promise<Row> {
  const addresses = world.proxies.hangs ?? []
  const work = { addresses, count: HANGING, at: HANGING, forMs: HANGING_MS }
  const { atBytes, beforeBytes } = await costOf(world, work)
  return {
    case: `${count(HANGING)} proxies that hang, under way at once`,
    this: megabytes(atBytes),
    that: `before: ${megabytes(beforeBytes)}`,
    figure: `${shown((atBytes - beforeBytes) / HANGING / 1000)} kB each`,
    target: `≤ ${megabytes(HANGING_BYTES_MAX)}`,
    holds: atBytes <= HANGING_BYTES_MAX,
  }
}

async function mixed(world: World): Promise<Row> {
  const kinds = ['http', 'https', 'socks5', 'liar', 'closes', 'nobody']
  const addresses = kinds.flatMap(kind => (world.proxies[kind] ?? []).slice(0, 6))
  const cost = await costOf(world, { addresses, count: MIXED })
  const grown = cost.afterBytes - cost.beforeBytes
  return {
    case: `${count(MIXED)} checks of proxies, liars and nobody`,
    this: `${megabytes(grown)} more, ${cost.descriptorsLeft} descriptors left open`,
    that: '',
    figure: foundText(cost.found),
    target: `≤ ${megabytes(GROWTH_BYTES_MAX)}, none`,
    holds: grown <= GROWTH_BYTES_MAX && cost.descriptorsLeft <= 0,
  }
}

export async function checker({ options: { rounds } }: Workspace): Promise<Row[]> {
  const world = await startWorld()
  return [...(await costs(world, rounds)), await hanging(world), await mixed(world)]
}

const startCheck = script(import.meta, check)
