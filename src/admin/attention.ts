/** Reads the facts of `metrics/attention.ts` in a running server, at most every ten seconds. */
import type { Registry } from '../access/ports.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Attention, attentionTo, type Facts, keyFacts } from '../metrics/attention.ts'
import type { Observed } from '../metrics/observed.ts'
import type { Traffic } from '../metrics/traffic.ts'
import { latestCheckMs } from '../proxies/freshness.ts'

/** How long a result is reused. */
const READ_EVERY_MS = 10 * SECOND_MS

/** Seconds between two snapshots of the request counters; the snapshots cover five minutes. */
const SNAPSHOT_EVERY = 15
const SNAPSHOTS = 21

type AttentionParts = {
  observed: Pick<Observed, 'checks' | 'space' | 'feeds' | 'clockDistanceMs' | 'nodes' | 'checker'>
  registry: Pick<Registry, 'keys'>
  traffic: () => Traffic
  /** How to fill an empty list. */
  origin: string
  clock: Clock
}

const requestsOf = ({ ok, notFound, refused, failed, rejected }: Traffic): Facts['requests'] => ({
  all: ok + notFound + refused + failed + rejected,
  notFound,
})

/** One fact, or none when reading it fails. */
const factOf = <F extends keyof Facts>(
  fact: F,
  read: () => Awaitable<Facts[F] | null>,
): Promise<Partial<Facts>> =>
  Promise.try(read).then(
    value => (value === null ? {} : { [fact]: value }),
    () => ({}),
  )

/** Call `tick` every second. */
export function createAttention(parts: AttentionParts) {
  const { observed, registry, traffic, origin, clock } = parts
  const { keys } = registry
  let snapshots = [requestsOf(traffic())]
  let ticks = 0
  let last: { atMs: number; found: Promise<Attention[]> } | null = null

  async function find(nowMs: number): Promise<Attention[]> {
    const now = requestsOf(traffic())
    const [first = now] = snapshots
    const requests = { all: now.all - first.all, notFound: now.notFound - first.notFound }
    const latestMs = latestCheckMs(nowMs)
    const list = factOf('list', () => ({ ...observed.checks(latestMs), origin }))
    const facts: Partial<Facts>[] = await Promise.all([
      list,
      // An empty list finds nothing: that is one reason, not two.
      factOf('requests', async () => ((await list).list?.rows === 0 ? null : requests)),
      factOf('feeds', observed.feeds),
      factOf('refused', () => keyFacts.refused(keys, nowMs)),
      factOf('ending', () => keyFacts.ending(keys, nowMs)),
      factOf('disk', observed.space),
      factOf('clock', async () => ({
        distanceMs: await observed.clockDistanceMs(),
        rows: observed.checks(latestMs).ahead,
      })),
      factOf('nodes', observed.nodes),
      factOf('checker', observed.checker),
    ])
    return attentionTo(Object.assign({}, ...facts), nowMs)
  }

  /** Never rejects. */
  function read(): Promise<Attention[]> {
    const atMs = clock()
    if (last === null || Math.abs(atMs - last.atMs) >= READ_EVERY_MS) {
      last = { atMs, found: find(atMs) }
    }
    return last.found
  }

  return {
    read,
    tick(): void {
      ticks += 1
      if (ticks % SNAPSHOT_EVERY === 0)
        snapshots = [...snapshots, requestsOf(traffic())].slice(-SNAPSHOTS)
    },
  }
}
