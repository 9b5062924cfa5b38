/**
 * The judgement of a run: all that clients saw against the journal of the database. Each admitted request
 * has an admission of its own, each admission a request; no window holds too many; and each refusal is
 * what the oracle decides as well, in some state of the database until the answer. Where a log says when
 * a request arrived (`nowMs`), its answer must be that of this very instant; a node has a clock of its
 * own, so there any instant until the answer will do. Shares no code with the program.
 */

import {
  dayOf,
  decide,
  overAdmissions,
  type Rule,
  rateLimitOf,
  setName,
} from '../../../support/limiter-oracle.ts'
import { count } from '../../support/table.ts'
import type { Finding, Run } from '../part.ts'
import {
  type Asked,
  countBelow,
  type Histories,
  historiesOf,
  type JournalRows,
  type Outcome,
  outcomeOf,
  quotasOf,
  readAsked,
  type Shown,
  type Step,
  shownOf,
  type Written,
  type WrittenSet,
} from './records.ts'
import { type Ids, networksOf } from './traffic.ts'

/**
 * How long after the end of its connection, or after a 503, a request may still be counted: the server
 * goes on with a statement whose client is gone.
 */
const LATE_MS = 10_000
const DAY_MS = 86_400_000

type Statuses = ReturnType<typeof statusesAt>

/** The limits of a rule after the `n`-th admission of its subject, at an instant. */
const statusesAt = (rule: Rule, history: Written, n: number, nowMs: number) =>
  decide([rule], [history], [n], nowMs, history.seq.slice(n, n + 1)).decision

/** Whether a RateLimit field has these limits, with resets between those of two instants. */
function isShown(shown: Shown, early: Statuses, late: Statuses): boolean {
  return early.limits.every(({ name, remaining, resetSeconds }, i) => {
    const item = shown.get(name)
    const least = late.limits[i]?.resetSeconds ?? resetSeconds
    return (
      item?.remaining === remaining &&
      Math.min(least, resetSeconds) <= item.resetSeconds &&
      item.resetSeconds <= Math.max(least, resetSeconds)
    )
  })
}

/** A function that says whether the `n`-th admission of a subject can be that of an answer. */
function createComparison(rule: Rule, history: Written, { offsetsBetween }: Histories) {
  const atOwnInstant: Statuses[] = []
  return (asked: Asked, shown: Shown, n: number): boolean => {
    const at = history.at[n] ?? 0
    if (asked.nowMs !== null) {
      const its = statusesAt(rule, history, n, asked.nowMs)
      return its.kind === 'admitted' && its.atMs === at && isShown(shown, its, its)
    }
    atOwnInstant[n] ??= statusesAt(rule, history, n, at)
    const own = atOwnInstant[n]
    if (own.kind === 'admitted' && isShown(shown, own, own)) return true
    const waitedMs = (history.realMs[n] ?? 0) - asked.sentMs
    if (isShown(shown, own, statusesAt(rule, history, n, at + waitedMs))) return true
    // The clock may stand behind the last admission: then the decision has its time.
    return offsetsBetween(asked.sentMs, asked.receivedMs).some(offset =>
      isShown(
        shown,
        statusesAt(rule, history, n, asked.sentMs + offset),
        statusesAt(rule, history, n, asked.receivedMs + offset),
      ),
    )
  }
}

/** A request of a subject; `isKnown`: it was answered as admitted. */
type Side = { asked: Asked; isKnown: boolean; entries: number[] }

/** For each request, the admissions that can be its own. */
function candidatesOf(
  rule: Rule,
  history: Written,
  requests: readonly Asked[],
  histories: Histories,
): Side[] {
  const compare = createComparison(rule, history, histories)
  const gone = new Set(history.givenBack.map(({ n }) => n))
  return requests.map(asked => {
    const isKnown = outcomeOf(asked) === 'admitted'
    const from = countBelow(history.realMs, asked.sentMs)
    const to = countBelow(history.realMs, asked.receivedMs + 1 + (isKnown ? 0 : LATE_MS))
    const shown = shownOf(asked)
    const entries: number[] = []
    // A server on SQLite counts nothing of a request that it answers with 503, see contract B8.
    const mayBe = (n: number): boolean =>
      isKnown ? compare(asked, shown, n) : asked.nowMs === null || gone.has(n)
    for (let n = from; n < to; n += 1) if (mayBe(n)) entries.push(n)
    return { asked, isKnown, entries }
  })
}

/** Gives the items of `from` partners of their own, moving those of others (Kuhn's algorithm). */
function augment(
  from: readonly number[],
  partnersOf: (item: number) => readonly number[],
  partner: Map<number, number>,
): number[] {
  const place = (item: number, tried: Set<number>): boolean => {
    for (const to of partnersOf(item)) {
      if (tried.has(to)) continue
      tried.add(to)
      const owner = partner.get(to)
      if (owner !== undefined && !place(owner, tried)) continue
      partner.set(to, item)
      return true
    }
    return false
  }
  return from.filter(item => !place(item, new Set()))
}

/**
 * Matches all requests of a subject with all its admissions. A matching of all answers and one of all
 * admissions exist together whenever each exists (Mendelsohn and Dulmage), so each is sought alone.
 */
function matchSubject(
  rule: Rule,
  history: Written,
  requests: readonly Asked[],
  histories: Histories,
) {
  const sides = candidatesOf(rule, history, requests, histories)
  const known = sides.flatMap(({ isKnown }, i) => (isKnown ? [i] : []))
  const owners = new Map<number, number>()
  const lost = augment(known, i => sides[i]?.entries ?? [], owners)
  const requestsOf: number[][] = history.at.map(() => [])
  for (const [i, { entries }] of sides.entries()) for (const n of entries) requestsOf[n]?.push(i)
  // The same matching, seen from the admissions, which then look for partners beyond the answers.
  const taken = new Map([...owners].map(([entry, request]) => [request, entry]))
  const free = history.at.flatMap((_, n) => (owners.has(n) ? [] : [n]))
  const unasked = augment(free, n => requestsOf[n] ?? [], taken)
  return { lost: lost.flatMap(i => sides[i]?.asked ?? []), unasked: unasked.length }
}

/** Admissions over a limit by what the clients saw alone: all of them within less than the window. */
function overSeen(rule: Rule, admitted: readonly Asked[], { offsetsBetween }: Histories) {
  const { window } = rule
  if (window === null) return 0
  const ordered = [...admitted].sort((a, b) => a.receivedMs - b.receivedMs)
  let over = 0
  let first = 0
  for (const [i, { receivedMs }] of ordered.entries()) {
    const sinceMs = receivedMs - window.ms
    while ((ordered[first]?.receivedMs ?? 0) <= sinceMs) first += 1
    if (i - first < window.limit) continue
    const within = ordered.slice(first, i + 1).filter(({ sentMs }) => sentMs > sinceMs).length
    const isSteady = offsetsBetween(sinceMs, receivedMs).length === 1
    if (isSteady && within > window.limit) over += 1
  }
  return over
}

/** Transactions that counted a temporary key and not its address, or the other way round. */
function countHalves(histories: Histories, isTemporary: (subject: string) => boolean) {
  const balance = new Map<string, number>()
  for (const [subject, { xid }] of histories.all) {
    const sign = subject.startsWith('temp:') ? -1 : isTemporary(subject) ? 1 : 0
    if (sign !== 0) for (const id of xid) balance.set(id, (balance.get(id) ?? 0) + sign)
  }
  return [...balance.values()].filter(sum => sum !== 0).length
}

/** The code of a refusal, by the kind of key and what is full. */
export const CODES = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

/** How a refusal is wrong: no limit was full, or a field is not what the model says. */
type Fault = 'not-full' | 'fields'

/** How many changes of each subject of a request were counted at some time, and until when, by the real clock. */
type State = { toMs: number; changes: number[] }

/** All ways to take one of the numbers from `least[i]` to `most[i]` for each `i`. */
const combinations = (least: readonly number[], most: readonly number[]): number[][] =>
  least.reduce<number[][]>(
    (all, from, i) =>
      all.flatMap(counts =>
        Array.from({ length: (most[i] ?? from) - from + 1 }, (_, more) => [...counts, from + more]),
      ),
    [[]],
  )

/** How far from a request its explanation looks for what was counted. */
const AROUND_MS = 1_000

/** The other nodes hear of what was given back within this time, and may refuse until then. */
const HEARD_MS = 1_000

/**
 * On one machine, a refusal may be read while the admission before it, which is written already, is
 * being committed.
 */
const COMMIT_MS = 1_000

/** The first instant whose state a request may be judged by. */
function firstMs(written: readonly Written[], { sentMs, nowMs }: Asked): number {
  if (nowMs !== null) return nowMs - COMMIT_MS
  const back = written.flatMap(({ changes, changedMs }) => {
    const [from, to] = [countBelow(changedMs, sentMs - HEARD_MS), countBelow(changedMs, sentMs)]
    const first = changes.slice(from, to).findIndex(({ isBack }) => isBack)
    return first < 0 ? [] : [changedMs[from + first] ?? sentMs]
  })
  return Math.min(sentMs, ...back)
}

/**
 * The states from sending a request to its answer: before and after each change by others. Those of
 * one transaction are written at once, in any order, so within a millisecond any part of them may have
 * been counted.
 */
function statesOf(asked: Asked, { of }: Histories): State[] {
  const { rules, receivedMs } = asked
  const written = rules.map(({ subject }) => of(subject))
  const changesBefore = (ms: number) => written.map(({ changedMs }) => countBelow(changedMs, ms))
  const beginMs = firstMs(written, asked)
  const instants = new Set([beginMs])
  for (const { changedMs } of written) {
    const end = countBelow(changedMs, receivedMs + 1)
    for (const ms of changedMs.slice(countBelow(changedMs, beginMs), end)) instants.add(ms)
  }
  const ordered = [...instants].sort((a, b) => a - b)
  return ordered.flatMap((fromMs, i) =>
    combinations(changesBefore(fromMs), changesBefore(fromMs + 1)).flatMap(changes =>
      [fromMs, ordered[i + 1] ?? receivedMs].map(toMs => ({ toMs, changes })),
    ),
  )
}

const isBetween = (value: number, one: number, other: number): boolean =>
  Math.min(one, other) <= value && value <= Math.max(one, other)

/**
 * A node that refuses by itself knows the clock of the database as well as the last answer from there
 * came in time: fields that count down may be behind by this.
 */
const BEHIND_MS = 1_000

/**
 * What the model decides in a state at an instant. The database reads its clock before it waits for the
 * subject, so any state may be judged by any time since the request was sent.
 */
function decider({ rules }: Asked, { of }: Histories, { state, offsetMs }: Place) {
  const histories = rules.map(({ subject }) => of(subject))
  const changes = histories.map((history, i) => history.changes[(state.changes[i] ?? 0) - 1])
  const counts = changes.map(change => change?.count ?? 0)
  const seqs = changes.map(change => change?.seq ?? 0)
  return (ms: number) => decide(rules, histories, counts, ms + offsetMs, seqs)
}
type Decide = ReturnType<typeof decider>

/** Whether a refusal is that of the model, field by field. */
function isOf(asked: Asked, shown: Shown, { decision }: ReturnType<Decide>): boolean {
  const { code, of, fields, retryAfter, rateLimit, nowMs } = asked
  if (decision.kind !== 'refused' || CODES[of.caller][decision.by] !== code) return false
  const wait = decision.retryAfterSeconds
  if (Number(retryAfter) !== wait || fields.retry_after !== wait) return false
  const daily = decision.by === 'daily' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== daily) return false
  if (nowMs !== null) return rateLimitOf(decision.limits) === rateLimit
  return decision.limits.every(({ name, remaining, resetSeconds }) => {
    const item = shown.get(name)
    return item?.remaining === remaining && item.resetSeconds === resetSeconds
  })
}

/** A state, and how far the clock of limits is ahead in it. */
type Place = { state: State; offsetMs: number }

/**
 * The states that a request may be judged by. A node refuses by what it heard last and by its own timer:
 * for it the clock of limits goes on as before a step, until its subject has room by that.
 */
function* judgedBy(asked: Asked, histories: Histories): Generator<Place> {
  const { rules, sentMs, receivedMs } = asked
  const states = statesOf(asked, histories)
  for (const offsetMs of histories.offsetsBetween(sentMs, receivedMs)) {
    for (const state of states) yield { state, offsetMs }
  }
  for (const { offsetMs, endMs } of histories.clocksBefore(receivedMs)) {
    const changes = rules.map(({ subject }) => countBelow(histories.of(subject).changedMs, endMs))
    yield { state: { toMs: receivedMs, changes }, offsetMs }
    for (const state of states) yield { state, offsetMs }
  }
}

/** How a refusal by window or day is wrong; `null` when it is right. */
function faultOf(asked: Asked, histories: Histories): Fault | null {
  const { sentMs, nowMs } = asked
  const shown = shownOf(asked)
  const places = [...judgedBy(asked, histories)].map(place => ({
    decideAt: decider(asked, histories, place),
    toMs: place.state.toMs,
  }))
  const isRightWithin = (decideAt: Decide, fromMs: number, toMs: number): boolean => {
    for (let ms = fromMs; ms <= toMs; ms += 1) {
      if (isOf(asked, shown, decideAt(ms))) return true
    }
    return false
  }
  const isRight =
    nowMs === null
      ? places.some(({ decideAt, toMs }) => isRightWithin(decideAt, sentMs, toMs)) ||
        places.some(({ decideAt }) => isRightWithin(decideAt, sentMs - BEHIND_MS, sentMs - 1))
      : places.toReversed().some(({ decideAt }) => isRightWithin(decideAt, nowMs, nowMs))
  if (isRight) return null
  const isFull = places.some(
    ({ decideAt }) => decideAt(nowMs ?? sentMs).decision.kind === 'refused',
  )
  return isFull ? 'fields' : 'not-full'
}

/** What the model says of a refused request, and what was counted around it: for people who look for a fault. */
function explain(asked: Asked, histories: Histories): string[] {
  const { rules, sentMs, receivedMs } = asked
  const decisions = [...judgedBy(asked, histories)].map(judged => {
    const { state, offsetMs } = judged
    const { kind, limits } = decider(asked, histories, judged)(asked.nowMs ?? sentMs).decision
    return `after ${state.changes} with the clock at ${offsetMs}: ${kind} ${rateLimitOf(limits)}`
  })
  const changes = rules.flatMap(({ subject }) => {
    const { changes: all, changedMs } = histories.of(subject)
    const from = countBelow(changedMs, sentMs - AROUND_MS)
    const to = countBelow(changedMs, receivedMs + AROUND_MS)
    return all.slice(from, to).map((change, i) => {
      const what = change.isBack ? 'gave back' : 'admitted'
      return `change ${from + i + 1} ${what}, ${(changedMs[from + i] ?? 0) - sentMs} ms after sending`
    })
  })
  return [...new Set(decisions), ...changes]
}

const NO_SET: WrittenSet = { networks: [], realMs: [] }

/** The days that a request can count for: that of the clock, or of an admission that it is behind. */
function daysOf({ sentMs, receivedMs, rules }: Asked, { of, offsetsBetween }: Histories): number[] {
  const days = new Set(
    offsetsBetween(sentMs, receivedMs).flatMap(offset => [
      dayOf(sentMs + offset),
      dayOf(receivedMs + offset),
    ]),
  )
  for (const { subject } of rules) {
    const { at, realMs } = of(subject)
    const last = at[countBelow(realMs, receivedMs + 1) - 1]
    if (last !== undefined) days.add(dayOf(last))
  }
  return [...days]
}

/** How many networks of a set can have been there while a request was under way. */
const boundsOf = ({ realMs }: WrittenSet, { sentMs, receivedMs }: Asked) => ({
  least: countBelow(realMs, sentMs),
  most: countBelow(realMs, receivedMs + 1),
})

/** Whether a refusal for networks names the wait until midnight; close to it the window may end later. */
function isWaitRight({ nowMs, of, fields, retryAfter }: Asked, day: number): boolean {
  const wait = fields.retry_after ?? 0
  if (Number(retryAfter) !== wait) return false
  if (nowMs === null) return true
  const midnightWait = Math.max(1, Math.ceil(((day + 1) * DAY_MS - nowMs) / 1000))
  return midnightWait <= wait && wait <= Math.max(midnightWait, of.limits.burst?.seconds ?? 0)
}

/** Whether a refusal for networks is right: they do not fit in a set of the size that it names. */
function isRightForNetworks(asked: Asked, histories: Histories): boolean {
  const used = asked.fields.used_subnets ?? -1
  return daysOf(asked, histories).some(
    day =>
      isWaitRight(asked, day) &&
      quotasOf(asked, networksOf(asked.port)).some(({ subject, quota, networks }) => {
        const set = histories.sets.get(setName(subject, day)) ?? NO_SET
        const { least, most } = boundsOf(set, asked)
        if (!isBetween(used, least, most)) return false
        return new Set([...set.networks.slice(0, used), ...networks]).size > quota
      }),
  )
}

/** Networks of an answer that were not in their set when it arrived. */
function missingNetworks(
  asked: Asked,
  shownNetworks: readonly string[],
  histories: Histories,
): number {
  return quotasOf(asked, shownNetworks).filter(({ subject, networks }) => {
    return !daysOf(asked, histories).some(day => {
      const set = histories.sets.get(setName(subject, day)) ?? NO_SET
      const known = set.networks.slice(0, boundsOf(set, asked).most)
      return networks.every(network => known.includes(network))
    })
  }).length
}

export type Judged = {
  requests: { [outcome in Outcome]: number }
  /** Admissions of the journal. */
  admissions: number
  /** Over a window, a day or a quota of networks, or before the one they follow. */
  over: number
  /** Over a window by the clients' clocks alone. */
  overSeen: number
  /** Answers without an admission of their own. */
  lost: Asked[]
  /** Admissions that no request explains. */
  double: number
  /** Transactions that counted one of two limits. */
  halves: number
  /** Refusals while no limit was full, and those with a wrong field. */
  notFull: Asked[]
  wrongFields: Asked[]
  /** Networks of answers that were not counted, and counted ones that no answer can have shown. */
  networksMissing: number
  networksUnshown: number
  networkRefusals: number
  /** Answers that no request should get. */
  wrong: Asked[]
}

/** The requests of each subject that may have been admitted, and its rule. */
function bySubject(all: readonly Asked[]) {
  const subjects = new Map<string, { rule: Rule; requests: Asked[] }>()
  for (const asked of all) {
    const outcome = outcomeOf(asked)
    for (const rule of asked.rules) {
      const its = subjects.get(rule.subject) ?? { rule, requests: [] }
      subjects.set(rule.subject, its)
      if (outcome === 'admitted' || outcome === 'unknown') its.requests.push(asked)
    }
  }
  return subjects
}

function judgeAdmissions(all: readonly Asked[], histories: Histories) {
  const subjects = bySubject(all)
  const judged = { over: 0, overSeen: 0, double: 0, lost: [] as Asked[] }
  for (const [subject, { rule, requests }] of subjects) {
    const { lost, unasked } = matchSubject(rule, histories.of(subject), requests, histories)
    judged.lost.push(...lost)
    judged.double += unasked
    const admitted = requests.filter(asked => outcomeOf(asked) === 'admitted')
    judged.overSeen += overSeen(rule, admitted, histories)
  }
  for (const [subject, history] of histories.all) {
    const rule = subjects.get(subject)?.rule
    judged.over += rule ? overAdmissions(rule, history) : history.at.length
    if (rule === undefined) judged.double += history.at.length
  }
  return judged
}

const shownIn = (body: string): string[] =>
  [...body.matchAll(/^(\d+\.\d+)\./gm)].map(([, network = '']) => network)

/** The quota of each set of networks, and the networks that it can hold. */
type Sets = Map<string, { quota: number; networks: Set<string> }>

/** Adds the networks that a request can have counted. */
function addPossible(sets: Sets, asked: Asked): void {
  const isShown = asked.status === 200
  const networks = isShown ? shownIn(asked.body) : networksOf(asked.port)
  for (const { subject, quota, networks: its } of quotasOf(asked, networks)) {
    const known = sets.get(subject) ?? { quota, networks: new Set() }
    sets.set(subject, known)
    if (!isShown && outcomeOf(asked) !== 'unknown') continue
    for (const network of its) known.networks.add(network)
  }
}

/** Networks over a quota; answers whose networks were not counted; networks that none can have shown. */
function judgeNetworks(all: readonly Asked[], histories: Histories) {
  const sets: Sets = new Map()
  for (const asked of all) addPossible(sets, asked)
  let over = 0
  let unshown = 0
  for (const [name, { networks }] of histories.sets) {
    const its = sets.get(name.slice(0, name.lastIndexOf(' ')))
    over += Math.max(0, networks.length - (its?.quota ?? 0))
    unshown += networks.filter(network => !its?.networks.has(network)).length
  }
  const served = all.filter(({ status, of }) => status === 200 && of.caller !== 'demo')
  let missing = 0
  for (const asked of served) {
    const shown = shownIn(asked.body)
    const isWhole = new Set(shown).symmetricDifference(new Set(networksOf(asked.port))).size === 0
    missing += missingNetworks(asked, shown, histories) + Number(!isWhole)
  }
  return { over, missing, unshown }
}

export function judge(all: readonly Asked[], histories: Histories): Judged {
  const of = (outcome: Outcome) => all.filter(asked => outcomeOf(asked) === outcome)
  const refused = of('refused')
  const wrong = of('wrong')
  const faults = refused.map(asked => ({ asked, fault: faultOf(asked, histories) }))
  const forNetworks = all.filter(({ code }) => code === 'SUBNET_LIMIT_REACHED')
  const withFault = (kind: 'not-full' | 'fields') =>
    faults.flatMap(({ asked, fault }) => (fault === kind ? [asked] : []))
  const networks = judgeNetworks(all, histories)
  const { over, ...admissions } = judgeAdmissions(all, histories)
  const temporary = new Set(
    all.flatMap(({ of: { caller }, rules }) =>
      caller === 'temp' ? [rules[0]?.subject ?? ''] : [],
    ),
  )
  return {
    requests: {
      admitted: of('admitted').length,
      refused: refused.length,
      unknown: of('unknown').length,
      wrong: wrong.length,
    },
    ...admissions,
    admissions: histories.admissions,
    over: over + networks.over + histories.miscounted,
    halves: countHalves(histories, subject => temporary.has(subject)),
    notFull: withFault('not-full'),
    wrongFields: [
      ...withFault('fields'),
      ...forNetworks.filter(asked => !isRightForNetworks(asked, histories)),
    ],
    networksMissing: networks.missing,
    networksUnshown: networks.unshown,
    networkRefusals: forNetworks.length,
    wrong,
  }
}

const EXAMPLES_MAX = 3
const EXPLAINED_MAX = 40

/** Names examples of requests. */
export function sayExamples({ say }: Pick<Run, 'say'>, what: string, all: readonly Asked[]): void {
  for (const { rules: _, caller: __, of, fields: ___, ...one } of all.slice(0, EXAMPLES_MAX)) {
    say(`${what}: ${JSON.stringify({ ...one, kind: of.name }).slice(0, 500)}`)
  }
}

/**
 * Judges what clients noted against a journal, and says the results of every kind of request, examples
 * of what is wrong, and what the oracle expects of refusals that are. `logs` and `steps` are those of
 * `readAsked` and `historiesOf`; `ids` the keys.
 */
export async function judgeNotes(
  run: Pick<Run, 'say'>,
  notes: readonly string[],
  ids: Ids,
  journal: JournalRows,
  { logs = [], steps }: { logs?: readonly string[]; steps?: readonly Step[] } = {},
) {
  const { all, unpaired } = await readAsked(notes, ids, logs)
  const histories = historiesOf(journal, steps)
  const judged = judge(all, histories)
  for (const [of, its] of Map.groupBy(all, one => one.of)) {
    const counts = Map.groupBy(its, ({ status, code }) => code || String(status))
    const list = [...counts].map(([what, some]) => `${count(some.length)} ${what}`).sort()
    run.say(`${of.name}: ${list.join(', ')}`)
  }
  const { lost, notFull, wrongFields, wrong } = judged
  for (const [what, some] of Object.entries({ lost, notFull, wrongFields, wrong })) {
    sayExamples(run, what, some)
  }
  for (const asked of [...notFull, ...wrongFields].slice(0, EXAMPLES_MAX)) {
    run.say(`${asked.id}: ${asked.rateLimit}`)
    for (const line of explain(asked, histories).slice(0, EXPLAINED_MAX)) run.say(`  ${line}`)
  }
  return { all, unpaired, judged }
}

/** What the limits promise (contract B3 to B6), of `least` admissions; `where` says what admitted. */
export function findingsOf(judged: Judged, least: number, where: string): Finding[] {
  const { admissions, over, overSeen, notFull, wrongFields, networkRefusals, requests } = judged
  const { lost, double, halves, networksMissing, networksUnshown } = judged
  const refusals = requests.refused + networkRefusals
  return [
    {
      promise: 'No window, day or set of networks ever holds more than its limit',
      figure:
        `${over} over-admissions in ${count(admissions)} admissions, ` +
        `${overSeen} by the clients’ clocks alone; ${where}`,
      bound: `0; ≥ ${count(least)} admissions`,
      holds: over === 0 && overSeen === 0 && admissions >= least,
    },
    {
      promise: 'Every refusal is right, with its code, retry_after and RateLimit',
      figure:
        `${notFull.length} while no limit was full, ${wrongFields.length} with a wrong field, ` +
        `of ${count(refusals)} (${count(networkRefusals)} for networks)`,
      bound: '0; 0',
      holds: notFull.length === 0 && wrongFields.length === 0 && refusals > 0,
    },
    {
      promise: 'An answered admission is counted, exactly once, whatever failed',
      figure:
        `${lost.length} of ${count(requests.admitted)} lost, ${double} double, ` +
        `${halves} with one of two limits; ${count(requests.unknown)} not answered`,
      bound: '0; 0; 0',
      holds: lost.length + double + halves === 0,
    },
    {
      promise: 'Networks of answers are counted before the answer, and no others',
      figure: `${networksMissing} answers before their networks, ${networksUnshown} never shown`,
      bound: '0; 0',
      holds: networksMissing + networksUnshown === 0,
    },
    {
      promise: 'Every other answer is one that the contract names',
      figure: `${requests.wrong} others`,
      bound: '0',
      holds: requests.wrong === 0,
    },
  ]
}
