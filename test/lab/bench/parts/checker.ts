/**
 * What checks of proxies cost (contract H): processor time beside proxy-verifier, the memory of many that hang, and
 * what 100,000 leave behind. What requests notice of a checker is measured in `latency.ts`.
 */
import { join } from 'node:path'
import type { Address, ProxyType } from '../../../../src/proxies/proxy.ts'
import { launch, succeed } from '../../../support/launch.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import { nodeBaseline } from '../baselines/baselines.ts'
import type { Cost, Work } from '../checker/checks.ts'
import type { Workspace } from '../workspace.ts'

const CHECKS = 10_000
const MIXED = 100_000
const HANGING = 10_000
const AT_ONCE = 64
/** All connections are there by then, and none has hung for too long. */
const HANGING_MS = 4_000
const DEADLINE = { deadlineSeconds: 900 }
const FOLDER = join(import.meta.dir, '../checker')

const PLAIN_US_MAX = 200
const TLS_US_MAX = 700
const RIVAL_TIMES = 3
const HANGING_BYTES_MAX = 120e6
const GROWTH_BYTES_MAX = 25e6

export type World = Pick<Work, 'judge'> & {
  /** The port of a proxy of any type at each address of 127.0.0.0/8. */
  everywhere: number
  rival: string
  proxies: { [kind: string]: readonly Address[] }
}

/** Starts judge and proxies, which are elsewhere in reality, below the rest; they end with the part. */
export async function startWorld(): Promise<World> {
  const world = launch(['nice', '-n', '10', process.execPath, join(FOLDER, 'world.ts')])
  while (!world.written.stdout.endsWith('\n')) {
    if (!world.isRunning()) throw new Error(`the proxies ended: ${world.written.stderr}`)
    await Bun.sleep(20)
  }
  return JSON.parse(world.written.stdout)
}

type Rest = Partial<Work> & Pick<Work, 'addresses'>

async function costOf({ judge }: World, rest: Rest): Promise<Cost> {
  const standard = { known: null, wantsTls: false, count: CHECKS, at: AT_ONCE }
  const work: Work = { judge, ...standard, ...rest }
  const command = [process.execPath, join(FOLDER, 'checks.ts'), JSON.stringify(work)]
  return JSON.parse(await succeed(command, DEADLINE))
}

const foundText = (found: Cost['found']): string =>
  Object.entries(found)
    .map(([what, n]) => `${count(n)} ${what}`)
    .join(', ')

/** CPU time in microseconds a check: `[ours, theirs]`, medians of alternating rounds; theirs may be why not. */
async function beside(world: World, rounds: number): Promise<[number, number | string]> {
  const addresses = world.proxies.http ?? []
  const command = await nodeBaseline('proxy-verifier.mjs')
  const [ours, theirs]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round += 1) {
    const { cpuUs, found } = await costOf(world, { addresses, known: 'http' })
    if (found.alive !== CHECKS) throw new Error(foundText(found))
    ours.push(cpuUs)
    if (typeof command === 'string') continue
    const input = { addresses, at: AT_ONCE, testUrl: world.rival, count: CHECKS / 5 }
    const rival = JSON.parse(await succeed([...command, JSON.stringify(input)], DEADLINE))
    if (rival.found.dead) throw new Error(`proxy-verifier: ${foundText(rival.found)}`)
    theirs.push(rival.cpuUs)
  }
  return [median(ours), typeof command === 'string' ? command : median(theirs)]
}

async function costs(world: World, rounds: number): Promise<Row[]> {
  const [ours, theirs] = await beside(world, rounds)
  const times = typeof theirs === 'string' ? null : theirs / ours
  const [tls, bare]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round += 1) {
    const known: ProxyType = 'https'
    const work = { addresses: world.proxies.https ?? [], known, wantsTls: true, count: CHECKS / 5 }
    const { cpuUs, found } = await costOf(world, work)
    if (found.alive !== CHECKS / 5) throw new Error(foundText(found))
    tls.push(cpuUs)
    bare.push((await costOf(world, { ...work, isBare: true })).cpuUs)
  }
  return [
    {
      case: `a check of a living http proxy, ${AT_ONCE} under way`,
      this: `${shown(ours)} µs of CPU`,
      that: typeof theirs === 'string' ? theirs : `proxy-verifier: ${shown(theirs)} µs`,
      figure: times === null ? '' : `${shown(times)} times less`,
      target: `≤ ${PLAIN_US_MAX} µs, ≥ ${RIVAL_TIMES} times less`,
      holds: ours <= PLAIN_US_MAX && (times === null || times >= RIVAL_TIMES),
    },
    {
      case: 'a check of a living https proxy, plain and with TLS',
      this: `${shown(median(tls))} µs of CPU`,
      that: `a bare TLS connection: ${shown(median(bare))} µs`,
      figure: `${shown(median(tls) - median(bare))} µs more`,
      target: `≤ ${TLS_US_MAX} µs`,
      holds: median(tls) <= TLS_US_MAX,
    },
  ]
}

async function hanging(world: World): Promise<Row> {
  const { bytes } = await costOf(world, {
    ...{ addresses: world.proxies.hangs ?? [], count: HANGING, at: HANGING, forMs: HANGING_MS },
  })
  return {
    case: `${count(HANGING)} proxies that hang, under way at once`,
    this: megabytes(bytes.at),
    that: `before: ${megabytes(bytes.before)}`,
    figure: `${shown((bytes.at - bytes.before) / HANGING / 1000)} kB each`,
    target: `≤ ${megabytes(HANGING_BYTES_MAX)}`,
    holds: bytes.at <= HANGING_BYTES_MAX,
  }
}

async function mixed(world: World): Promise<Row> {
  const kinds = ['http', 'https', 'socks5', 'liar', 'closes', 'nobody']
  const addresses = kinds.flatMap(kind => (world.proxies[kind] ?? []).slice(0, 6))
  const { bytes, descriptorsLeft, found } = await costOf(world, { addresses, count: MIXED })
  const grown = bytes.after - bytes.before
  return {
    case: `${count(MIXED)} checks of proxies, liars and nobody`,
    this: `${megabytes(grown)} more, ${descriptorsLeft} descriptors left open`,
    that: '',
    figure: foundText(found),
    target: `≤ ${megabytes(GROWTH_BYTES_MAX)}, none`,
    holds: grown <= GROWTH_BYTES_MAX && descriptorsLeft <= 0,
  }
}

export async function checker({ options: { rounds } }: Workspace): Promise<Row[]> {
  const world = await startWorld()
  return [...(await costs(world, rounds)), await hanging(world), await mixed(world)]
}
