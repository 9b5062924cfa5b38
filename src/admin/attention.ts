/**
 * Collects what needs attention (`metrics/attention.ts`) in a running service, for the console and the metrics. It
 * reads on demand, at most every ten seconds. Failures to read are reported elsewhere.
 */
import type { AnswerUse } from '../access/history.ts'
import { DEMO_KEY } from '../access/key.ts'
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
  type KeyShare,
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

/** A quarter of an hour, in seconds. */
const QUARTER = 900

/** How many refused keys get their label read; more than are shown. */
const KEYS_READ = 20

/** Seconds between two writes of the counts for `doctor`. */
const KEEP_EVERY = 60

type AttentionParts = {
  observed: Pick<Observed, 'checks' | 'space' | 'feeds' | 'clockDistanceMs' | 'nodes' | 'checker'>
  registry: Pick<Registry, 'keys'>
  watchUse: (watch: (use: AnswerUse) => void) => void
  traffic: () => Traffic
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

function count(shares: Map<string, KeyShare>, { id, requests, refused }: KeyShare): void {
  const known = shares.get(id)
  if (known === undefined) shares.set(id, { id, requests, refused })
  else
    Object.assign(known, { requests: known.requests + requests, refused: known.refused + refused })
}

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
  const { observed, registry, traffic, origin, keep, clock } = parts
  const { keys } = registry
  let marks = [requestsOf(traffic())]
  /** The requests of each key in this quarter of an hour, and in the three before it. */
  let quarter = new Map<string, KeyShare>()
  let before: (typeof quarter)[] = []
  let ticks = 0
  let last: { atMs: number; found: Promise<Attention[]> } | null = null

  parts.watchUse(({ keyId: id, refused }) => {
    if (id !== DEMO_KEY) count(quarter, { id, requests: 1, refused }) // `demo` belongs to nobody
  })

  /** The keys that a limit refused in the last hour, the most often refused first, with their labels. */
  async function readRefused(nowMs: number): Promise<Facts['refused']> {
    const hour = new Map<string, KeyShare>()
    const all = [quarter, ...before].flatMap(shares => [...shares.values()])
    for (const share of all) count(hour, share)
    const found = [...hour.values()].filter(({ refused }) => refused > 0)
    found.sort((a, b) => b.refused - a.refused)
    if (found.length === 0) return []
    const ids = found.slice(0, KEYS_READ).map(({ id }) => id)
    const labels = new Map((await keys.list(nowMs, ids)).map(({ id, label }) => [id, label]))
    return found.map(share => ({ ...share, label: labels.get(share.id) ?? '' }))
  }

  async function find(nowMs: number): Promise<Attention[]> {
    const now = requestsOf(traffic())
    const [mark = now] = marks
    const requests = { all: now.all - mark.all, notFound: now.notFound - mark.notFound }
    const latestMs = latestCheckMs(nowMs)
    const facts: Partial<Facts>[] = await Promise.all([
      factOf('list', () => ({ ...observed.checks(latestMs), origin })),
      factOf('feeds', observed.feeds),
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
      if (ticks % QUARTER === 0) [quarter, before] = [new Map(), [quarter, ...before].slice(0, 3)]
      if (ticks % KEEP_EVERY === 0) keep({ atMs: clock(), found: countedBy(await read()) })
    },
  }
}
