/**
 * Why an operator should act (contract G3). Each row of the table decides one reason from facts that its caller has
 * read. Console, metrics and `doctor` show the same sentences. Advice in a sentence follows a semicolon.
 */
import type { EndingKey, RefusedKey } from '../access/key.ts'
import type { Registry, SomeKeys } from '../access/ports.ts'
import type { CheckerStatus } from '../checker/ports.ts'
import { describeFailure, type FeedState, isForgotten } from '../feeds/store.ts'
import { finding, type Result } from '../lib/findings.ts'
import { formatCount, several, spanOf } from '../lib/plural.ts'
import { DAY_MS, formatDay, MINUTE_MS, SECOND_MS, utcDay } from '../lib/time.ts'
import { describeFresh, isStale, type ListChecks, RECENT_MS } from '../proxies/freshness.ts'

/** A node. Both ages are measured by the clock of the shared database. */
export type NodeReport = {
  node: string
  address: string
  /** Seconds since its copies were last up to date, and since its last report. */
  lagSeconds: number
  silentSeconds: number
}

/** Free space on the disk of the data directory, and the most that an import takes; `null`: it has no inodes. */
export type Space = { freeBytes: number; neededBytes: number; freeInodes: number | null }

/** Facts to judge. A missing fact is unknown and needs no attention. */
export type Facts = {
  /** `origin` says how to fill an empty list. */
  list: ListChecks & { origin: string }
  /** Requests of the last five minutes, and how many of them found nothing. */
  requests: { all: number; notFound: number }
  feeds: readonly Pick<FeedState, 'source' | 'error' | 'nextTryAt'>[]
  /** Keys with too many requests refused by limits today, the most often refused first. */
  refused: SomeKeys<RefusedKey>
  ending: SomeKeys<EndingKey>
  disk: Space
  /** Rows with a check in the future, and how far this clock is ahead of the database's. */
  clock: { rows: number; distanceMs: number }
  nodes: readonly NodeReport[]
  checker: CheckerStatus
}

const OVERVIEW = '#overview'
type Cause = string | { sentence: string; link: string }
type Row = {
  /** The view of the console that shows the cause, unless the cause has its own. */
  link: string
  find(facts: Partial<Facts>, nowMs: number): readonly Cause[]
}

const row = <F extends keyof Facts>(
  fact: F,
  link: string,
  find: (fact: Facts[F], nowMs: number) => readonly Cause[],
): Row => ({
  link,
  find: (facts, nowMs) => {
    const known = facts[fact]
    return known === undefined ? [] : find(known, nowMs)
  },
})

const percent = (share: number): string => `${formatCount(Math.floor(share * 100))}%`

/** How many keys a reason names; it counts further ones. */
const NAMED_KEYS = 3
const ENDING_MS = 7 * DAY_MS
/** A key needs attention when limits refuse more of its requests of a day than this. */
const REFUSED_SHARE = 0.05

export const keyFacts = {
  ending: (keys: Registry['keys'], nowMs: number) =>
    keys.ending(nowMs, nowMs + ENDING_MS, NAMED_KEYS),
  refused: (keys: Registry['keys'], nowMs: number) =>
    keys.refused(nowMs, REFUSED_SHARE, NAMED_KEYS),
}

type Named = { id: string; label: string }

/** A sentence for each key, with a link to its page. */
function ofKeys<K extends Named>({ keys, total }: SomeKeys<K>, say: (key: K) => string): Cause[] {
  const causes: Cause[] = keys.map(key => ({
    sentence: `key ${key.label === '' ? key.id : `${key.label} (${key.id})`} ${say(key)}`,
    link: `#keys/${key.id}`,
  }))
  const more = total - causes.length
  return more > 0 ? [...causes, `and ${several(more, 'more key')}`] : causes
}

/** A node that has been silent for longer has ended, or answers 503 (contract I3). */
export const SILENT_SECONDS_MAX = 5
/** Copying an import of a million rows takes less than a minute. */
const LAG_SECONDS_MAX = 60

/** A tenth of the default of `time`. */
const DISTANCE_MS_MAX = MINUTE_MS

export const describeDistance = (distanceMs: number): string =>
  `this machine’s clock is ${(Math.abs(distanceMs) / SECOND_MS).toFixed(1)} s ` +
  `${distanceMs > 0 ? 'ahead of' : 'behind'} the database’s`

/** Enough for the files that SQLite keeps beside its databases, and for a new one. */
const INODES_MIN = 16

const megabytes = (bytes: number): string => `${formatCount(Math.ceil(bytes / 1e6))} MB`
export const describeSpace = ({ freeBytes, neededBytes }: Space): string =>
  `${megabytes(freeBytes)} are free on the disk; an import may take ${megabytes(neededBytes)}`
function spaceProblems(space: Space): string[] {
  const { freeBytes, neededBytes, freeInodes } = space
  if (freeBytes < neededBytes) return [describeSpace(space)]
  if (freeInodes === null || freeInodes >= INODES_MIN) return []
  return [`the disk has ${several(freeInodes, 'free inode')}; remove files that nobody needs`]
}

/** A checker writes its status every second. After a day of silence it is not meant to run. */
const CHECKER_SILENT_MS = MINUTE_MS
const COVERAGE_MIN = 0.8
/** A checker needs this long after its start to find the working proxies again. */
const CHECKER_STARTED_MS = 10 * MINUTE_MS

function checkerProblems(status: CheckerStatus, nowMs: number): string[] {
  const { at, startedMs, once, judgeProblem, coverage, neededRate } = status
  const since = (ms: number): string => spanOf(Math.max(0, nowMs - ms) / SECOND_MS)
  if (once || nowMs - at > DAY_MS) return []
  if (nowMs - at > CHECKER_SILENT_MS) {
    return [`the checker has said nothing for ${since(at)}; its stderr says why; start it again`]
  }
  if (judgeProblem !== null) {
    const { sentence, sinceMs } = judgeProblem
    return [`${sentence}, for ${since(sinceMs)}; nothing is checked meanwhile`]
  }
  if (coverage === null || coverage >= COVERAGE_MIN || at - startedMs < CHECKER_STARTED_MS)
    return []
  const rate =
    neededRate === null ? '' : `; a --rate of ${formatCount(neededRate)}/s would find them`
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
          `${formatCount(notFound)} of ${several(all, 'request')} in the last five minutes ` +
            `(${percent(notFound / all)}) found nothing: 404 PROXIES_NOT_FOUND`,
        ]
      : [],
  ),
  feed_failing: row('feeds', '#feeds', (feeds, nowMs) =>
    feeds.filter(feed => feed.error !== '' && !isForgotten(feed, nowMs)).map(describeFailure),
  ),
  key_refused: row('refused', '#keys', found =>
    ofKeys(
      found,
      ({ requests, refused }) =>
        `has reached a limit today: ${several(refused, 'request')} refused, ${formatCount(requests)} admitted`,
    ),
  ),
  key_expiring: row('ending', '#keys', found =>
    ofKeys(found, ({ expiresAt }) => `ends on ${formatDay(utcDay(expiresAt))}`),
  ),
  disk: row('disk', OVERVIEW, spaceProblems),
  clock: row('clock', OVERVIEW, ({ rows, distanceMs }) => [
    ...(Math.abs(distanceMs) > DISTANCE_MS_MAX
      ? [`${describeDistance(distanceMs)}; set both by NTP`]
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
        const ago = `${formatCount(Math.round(silentSeconds))} s ago`
        return [`${name} was last seen ${ago}: it was killed, or answers 503`]
      }
      if (lagSeconds <= LAG_SECONDS_MAX) return []
      return [`${name} lags by ${formatCount(Math.round(lagSeconds))} s; its stderr says why`]
    }),
  ),
  checker: row('checker', OVERVIEW, checkerProblems),
} satisfies { [reason: string]: Row }

type Reason = keyof typeof ROWS
export const REASONS = Object.keys(ROWS) as Reason[] // of the table itself

/** Something that needs attention, and the view of the console that shows its cause. */
export type Attention = { reason: Reason; sentence: string; link: string }

/** Everything that needs attention, in the order of the table. */
export const attentionTo = (facts: Partial<Facts>, nowMs: number): Attention[] =>
  REASONS.flatMap(reason => {
    const { link, find } = ROWS[reason]
    return find(facts, nowMs).map(cause => ({
      reason,
      ...(typeof cause === 'string' ? { sentence: cause, link } : cause),
    }))
  })

/** The sentences alone, for `doctor`. */
export const sentencesOn = (facts: Partial<Facts>, nowMs: number): string[] =>
  attentionTo(facts, nowMs).map(({ sentence }) => sentence)

export const checkFreshness = (checks: ListChecks, origin: string, nowMs: number): Result =>
  finding(sentencesOn({ list: { ...checks, origin } }, nowMs), describeFresh(checks, nowMs))

export function checkChecker(status: CheckerStatus | null, nowMs: number): Result {
  if (status === null) return finding([], 'no checker has run')
  const { living, down, raw } = status.queues
  const queues = `${formatCount(living)} living, ${formatCount(down)} down, ${formatCount(raw)} never alive`
  return finding(sentencesOn({ checker: status }, nowMs), queues)
}

/** Which keys end soon or often reach a limit. Both are allowed, so they are notes. */
export async function checkKeys(keys: Registry['keys'], nowMs: number): Promise<Result> {
  const refused = await keyFacts.refused(keys, nowMs)
  const ending = await keyFacts.ending(keys, nowMs)
  const fine = 'no key ends within 7 days or often reaches a limit'
  return finding([], fine, sentencesOn({ refused, ending }, nowMs))
}
