/**
 * Collects what needs attention (`metrics/attention.ts`) in a running service, for the console and the metrics.
 * It reads on demand, at most every ten seconds. Failures to read are reported elsewhere.
 */
import type { KeyWatch } from '../access/key-watch.ts'
import type { Registry } from '../access/ports.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import {
  type Attention,
  attentionTo,
  countedBy,
  ENDING_MS,
  type Facts,
  NAMED_KEYS,
} from '../metrics/attention.ts'
import type { Observed } from '../metrics/observed.ts'
import type { Traffic } from '../metrics/traffic.ts'
import { latestCheckMs } from '../proxies/freshness.ts'

/** How long a result is reused. */
const READ_EVERY_MS = 10 * SECOND_MS

/** Seconds between two marks of the traffic; the marks cover five minutes. */
const MARK_EVERY = 15
const MARKS = 21

/** How many refused keys get their label read; more than are shown. */
const KEYS_READ = 20

/** Seconds between two writes of the counts for `doctor`. */
const KEEP_EVERY = 60

type AttentionParts = {
  observed: Pick<Observed, 'checks' | 'space' | 'feeds' | 'clockDistanceMs' | 'nodes' | 'checker'>
  registry: Pick<Registry, 'keys'>
  watch: KeyWatch
  traffic: () => Traffic
  /** Whether a feed is paused; its failures are ignored then. */
  isPaused: (id: string) => boolean
  /** How to fill an empty list. */
  origin: string
  /** Writes the sentences about requests for `doctor`. */
  keep: (counted: { atMs: number; found: readonly string[] }) => void
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
  const { observed, registry, watch, traffic, isPaused, origin, keep, clock } = parts
  const { keys } = registry
  let marks = [requestsOf(traffic())]
  let ticks = 0
  let last: { atMs: number; found: Promise<Attention[]> } | null = null

  /** The refused keys with their labels. */
  async function readRefused(nowMs: number): Promise<Facts['refused']> {
    const shares = watch.refused(nowMs)
    if (shares.length === 0) return []
    const ids = shares.slice(0, KEYS_READ).map(({ id }) => id)
    const labels = new Map((await keys.list(nowMs, ids)).map(({ id, label }) => [id, label]))
    return shares.map(share => ({ ...share, label: labels.get(share.id) ?? '' }))
  }

  async function find(nowMs: number): Promise<Attention[]> {
    const now = requestsOf(traffic())
    const [before = now] = marks
    const requests = { all: now.all - before.all, notFound: now.notFound - before.notFound }
    const latestMs = latestCheckMs(nowMs)
    const facts: Partial<Facts>[] = await Promise.all([
      factOf('list', () => ({ ...observed.checks(latestMs), origin })),
      factOf('feeds', async () => (await observed.feeds()).filter(({ id }) => !isPaused(id))),
      factOf('refused', () => readRefused(nowMs)),
      factOf('ending', () => keys.ending(nowMs, nowMs + ENDING_MS, NAMED_KEYS)),
      factOf('disk', observed.space),
      factOf('clock', async () => ({
        distanceMs: await observed.clockDistanceMs(),
        rows: observed.checks(latestMs).ahead,
      })),
      factOf('nodes', observed.nodes),
      factOf('checker', observed.checker),
    ])
    return attentionTo(Object.assign({ requests }, ...facts), nowMs)
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
    async tick(): Promise<void> {
      ticks += 1
      if (ticks % MARK_EVERY === 0) marks = [...marks, requestsOf(traffic())].slice(-MARKS)
      if (ticks % KEEP_EVERY === 0) keep({ atMs: clock(), found: countedBy(await read()) })
    },
  }
}
