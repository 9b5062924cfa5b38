/**
 * What needs the operator's attention (contract G3), decided from what was read of an installation: a row
 * for each reason. Console, metrics and `doctor` say it from here, in the same words.
 */
import type { EndingKey } from '../access/key.ts'
import type { KeyShare } from '../access/key-watch.ts'
import type { Registry, SomeKeys } from '../access/ports.ts'
import type { CheckerStatus } from '../checker/ports.ts'
import { describeFailure, type FeedState, isForgotten } from '../feeds/store.ts'
import { counted, several, spanOf } from '../lib/counted.ts'
import { finding, type Result } from '../lib/findings.ts'
import { DAY_MS, formatDay, MINUTE_MS, SECOND_MS, utcDay } from '../lib/time.ts'
import {
  describeFresh,
  isStale,
  type ListChecks,
  RECENT_MS,
  type Tally,
} from '../proxies/freshness.ts'

/** A node as all machines see it, by the clock of their database. */
export type NodeReport = {
  node: string
  address: string
  /** Seconds since its copies were last known to be the newest, and since it last said so. */
  lagSeconds: number
  silentSeconds: number
}

/** Space on the disk of the data directory, and what an import may take of it; `null`: inodes are not counted. */
export type Space = { freeBytes: number; neededBytes: number; freeInodes: number | null }

/** What was read; what is left out is not known, and needs no attention. */
export type Facts = {
  /** `origin` says how to fill a list that is empty. */
  list: ListChecks & { origin: string }
  /** Requests of the last five minutes, and those of them that found nothing. */
  requests: { all: number; notFound: number }
  feeds: readonly Pick<FeedState, 'source' | 'error' | 'nextTryAt'>[]
  /** Keys that limits have refused within an hour, those refused most often first. */
  refused: readonly (KeyShare & { label: string })[]
  /** The keys that end next. */
  ending: SomeKeys<EndingKey>
  disk: Space
  /** Rows checked in the future, and how far this machine's clock is ahead of the database's. */
  clock: { rows: number; distanceMs: number }
  nodes: readonly NodeReport[]
  checker: CheckerStatus
}

/** Where a link leads that has no better place. */
const OVERVIEW = '#overview'
type Cause = string | { sentence: string; link: string }
type Row = {
  /** Where the console shows the cause, unless the cause says so. */
  link: string
  find(facts: Partial<Facts>, nowMs: number): readonly Cause[]
}

/** A row that judges one of the facts. */
const row = <F extends keyof Facts>(
  fact: F,
  link: string,
  find: (known: Facts[F], nowMs: number) => readonly Cause[],
): Row => ({
  link,
  find: (facts, nowMs) => {
    const known = facts[fact]
    return known === undefined ? [] : find(known, nowMs)
  },
})

const percent = (share: number): string => `${counted(Math.floor(share * 100))}%`

/** Keys that a reason names; of more it says how many. */
export const NAMED_KEYS = 3
/** Keys that end within this time are said to. */
export const ENDING_MS = 7 * DAY_MS

type Named = { id: string; label: string }

/** What is said of keys, each with a link to its page. */
function ofKeys<K extends Named>(
  keys: readonly K[],
  say: (key: K) => string,
  total = keys.length,
): Cause[] {
  const causes: Cause[] = keys.slice(0, NAMED_KEYS).map(key => ({
    sentence: `key ${key.label === '' ? key.id : `${key.label} (${key.id})`} ${say(key)}`,
    link: `#keys/${key.id}`,
  }))
  const more = total - causes.length
  return more > 0 ? [...causes, `and ${several(more, 'more key')}`] : causes
}

const shareOf = ({ requests, refused }: KeyShare): number => refused / requests

/** A node that has said nothing for so long has ended, or answers 503 (contract I3). */
export const SILENT_SECONDS_MAX = 5
/** Copying a large import takes longer than seconds, and one of a million rows not a minute. */
const LAG_SECONDS_MAX = 60

/** From here on, `time` of a query is wrong by a tenth of its default. */
const DISTANCE_MS_MAX = MINUTE_MS

export const describeDistance = (distanceMs: number): string =>
  `this machine’s clock is ${(Math.abs(distanceMs) / SECOND_MS).toFixed(1)} s ` +
  `${distanceMs > 0 ? 'ahead of' : 'behind'} the database’s`

/** For what SQLite keeps beside each database, and the next state of one. */
const INODES_MIN = 16

const megabytes = (bytes: number): string => `${counted(Math.ceil(bytes / 1e6))} MB`
export const describeSpace = ({ freeBytes, neededBytes }: Space): string =>
  `${megabytes(freeBytes)} are free on the disk; an import may take ${megabytes(neededBytes)}`
function spaceProblems(space: Space): string[] {
  const { freeBytes, neededBytes, freeInodes } = space
  if (freeBytes < neededBytes) return [describeSpace(space)]
  if (freeInodes === null || freeInodes >= INODES_MIN) return []
  return [`the disk has ${several(freeInodes, 'free inode')}: remove files that nobody needs`]
}

/** A checker writes its status every second. One that has not for a day is not meant to run. */
const CHECKER_SILENT_MS = MINUTE_MS
const COVERAGE_MIN = 0.8
/** After a start, those that were alive before have to be found again. */
const CHECKER_STARTED_MS = 10 * MINUTE_MS

function checkerProblems(status: CheckerStatus, nowMs: number): string[] {
  const { at, startedMs, once, judgeProblem, coverage, neededRate } = status
  const since = (ms: number): string => spanOf(Math.max(0, nowMs - ms) / SECOND_MS)
  if (once || nowMs - at > DAY_MS) return []
  if (nowMs - at > CHECKER_SILENT_MS) {
    return [`the checker has said nothing for ${since(at)}: its stderr says why; start it again`]
  }
  if (judgeProblem !== null) {
    const { sentence, sinceMs } = judgeProblem
    return [`${sentence}, for ${since(sinceMs)}; nothing is checked meanwhile`]
  }
  if (coverage === null || coverage >= COVERAGE_MIN || at - startedMs < CHECKER_STARTED_MS)
    return []
  const rate = neededRate === null ? '' : `; a --rate of ${counted(neededRate)}/s would find them`
  return [`only ${percent(coverage)} of the living were found alive within ten minutes${rate}`]
}

const ROWS = {
  list_empty: row('list', '#import', ({ rows, origin }) =>
    rows === 0 ? [`the list is empty; ${origin}`] : [],
  ),
  list_stale: row('list', '#feeds', (list, nowMs) => {
    if (list.rows === 0 || !isStale(list, nowMs)) return []
    const { newest } = list
    const last =
      newest === null
        ? 'as all checks lie in the future'
        : `the newest ${spanOf(nowMs / SECOND_MS - newest)} ago`
    return [`no proxy was checked in the last ${spanOf(RECENT_MS / SECOND_MS)}, ${last}`]
  }),
  not_found: row('requests', '#log?code=PROXIES_NOT_FOUND', ({ all, notFound }) =>
    notFound > all * 0.2
      ? [
          `${counted(notFound)} of ${several(all, 'request')} in the last five minutes ` +
            `(${percent(notFound / all)}) found nothing: 404 PROXIES_NOT_FOUND`,
        ]
      : [],
  ),
  feed_failing: row('feeds', '#feeds', (feeds, nowMs) =>
    feeds.filter(feed => feed.error !== '' && !isForgotten(feed, nowMs)).map(describeFailure),
  ),
  key_refused: row('refused', '#keys', keys =>
    ofKeys(
      keys.filter(key => shareOf(key) > 0.05),
      key =>
        `was refused ${counted(key.refused)} of ${several(key.requests, 'request')} in the last hour ` +
        `(${percent(shareOf(key))}) by a limit`,
    ),
  ),
  key_expiring: row('ending', '#keys', ({ keys, total }) =>
    ofKeys(keys, ({ expiresAt }) => `ends on ${formatDay(utcDay(expiresAt))}`, total),
  ),
  disk: row('disk', OVERVIEW, spaceProblems),
  clock: row('clock', OVERVIEW, ({ rows, distanceMs }) => [
    ...(Math.abs(distanceMs) > DISTANCE_MS_MAX
      ? [`${describeDistance(distanceMs)}: set both by NTP`]
      : []),
    ...(rows === 0
      ? []
      : [
          {
            sentence:
              `the last checks of ${several(rows, 'proxy', 'proxies')} lie in the future: they count as fresh ` +
              'until then; import them again, or the whole list with: proxylist import --replace FILE',
            link: '#import',
          },
        ]),
  ]),
  node_lag: row('nodes', OVERVIEW, nodes =>
    nodes.flatMap(({ node, address, lagSeconds, silentSeconds }) => {
      const name = `${node} (${address})`
      if (silentSeconds > SILENT_SECONDS_MAX) {
        const ago = `${counted(Math.round(silentSeconds))} s ago`
        return [`${name} was last seen ${ago}: it was killed, or answers 503`]
      }
      if (lagSeconds <= LAG_SECONDS_MAX) return []
      return [`${name} lags by ${counted(Math.round(lagSeconds))} s: its stderr says why`]
    }),
  ),
  checker: row('checker', OVERVIEW, checkerProblems),
} satisfies { [reason: string]: Row }

type Reason = keyof typeof ROWS
export const REASONS = Object.keys(ROWS) as Reason[] // of the table itself

/** Something that needs attention, and the fragment of the console where its cause is. */
export type Attention = { reason: Reason; sentence: string; link: string }

/** All that needs attention, in the order of the table. */
export const attentionTo = (facts: Partial<Facts>, nowMs: number): Attention[] =>
  REASONS.flatMap(reason => {
    const { link, find } = ROWS[reason]
    return find(facts, nowMs).map(cause => ({
      reason,
      ...(typeof cause === 'string' ? { sentence: cause, link } : cause),
    }))
  })

/** Reasons that only a running server knows: it counts requests. */
const COUNTED: ReadonlySet<Reason> = new Set(['not_found', 'key_refused'])

/** What a server has counted, for `doctor`. */
export const countedBy = (found: readonly Attention[]): string[] =>
  found.filter(({ reason }) => COUNTED.has(reason)).map(({ sentence }) => sentence)

/** The sentences alone, for `doctor`. */
export const sentencesOn = (facts: Partial<Facts>, nowMs: number): string[] =>
  attentionTo(facts, nowMs).map(({ sentence }) => sentence)

export const judgeChecks = (tally: Tally, origin: string, nowMs: number): Result =>
  finding(sentencesOn({ list: { ...tally, origin } }, nowMs), describeFresh(tally, nowMs))

export function judgeChecker(status: CheckerStatus | null, nowMs: number): Result {
  if (status === null) return finding([], 'no checker has run')
  const { living, down, raw } = status.queues
  const queues = `${counted(living)} living, ${counted(down)} down, ${counted(raw)} never alive`
  return finding(sentencesOn({ checker: status }, nowMs), queues)
}

/** Which keys end soon: that is allowed, and their customers may need something. */
export async function judgeKeys(keys: Registry['keys'], nowMs: number): Promise<Result> {
  const ending = await keys.ending(nowMs, nowMs + ENDING_MS, NAMED_KEYS)
  const notes = sentencesOn({ ending }, nowMs)
  return finding([], 'no key ends within 7 days', notes)
}
