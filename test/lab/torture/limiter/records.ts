/**
 * The records of a run: notes of the clients joined with the logs of the servers, and the journal of the
 * database as histories.
 */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  type Caller,
  countOfLastDay,
  emptyHistory,
  type History,
  markGivenBack,
  networksOf,
  type Rule,
  record,
  rulesOf,
  setName,
} from '../../../support/limiter-oracle.ts'
import type { Note } from './client.ts'
import { addressOf, CALLERS, type Ids, type Kind, kindAt } from './traffic.ts'

/** A request as its client saw it. */
export type Asked = Note & {
  of: Kind
  /** The server's clock when the request arrived, by its log; `null`: at some time until the answer. */
  nowMs: number | null
  code: string
  fields: { retry_after?: number; daily_limit?: number; used_subnets?: number }
  caller: Caller
  rules: readonly Rule[]
}

async function* linesOf<Line>(file: string): AsyncGenerator<Line> {
  for await (const line of createInterface({ input: createReadStream(file) })) {
    yield JSON.parse(line) as Line // written by the program or by our own clients
  }
}

/** A caller of each key or address, and its rules: one object for all of its requests. */
function createCallers(ids: Ids) {
  const known = new Map<string, { caller: Caller; rules: readonly Rule[] }>()
  return ({ kind, subject, place }: Note, { caller: callerKind, limits }: Kind) => {
    const name = `${kind} ${subject} ${callerKind === 'regular' ? '' : place}`
    const found = known.get(name)
    if (found) return found
    const id = callerKind === 'demo' ? 'demo' : (ids[kind]?.[subject] ?? '')
    const caller: Caller =
      callerKind === 'regular' ? { kind: callerKind, id, plan: limits } : { kind: callerKind, id }
    // Only demo and temporary keys are counted by address.
    const bucket = callerKind === 'regular' ? '' : addressOf(place).bucket
    const made = { caller, rules: rulesOf(caller, bucket) }
    known.set(name, made)
    return made
  }
}

type Logged = { time: string; id: string; status: number; key: string | null }

async function readLogs(files: readonly string[]): Promise<Map<string, Logged>> {
  const logged = new Map<string, Logged>()
  for (const file of files) {
    for await (const { id, time, status, key } of linesOf<Logged>(file)) {
      logged.set(id, { id, time, status, key })
    }
  }
  return logged
}

/** What differs between a note and its line of the log. */
const isLoggedSo = (asked: Asked, entry: Logged | undefined): boolean =>
  entry?.status === asked.status &&
  entry.key === asked.caller.id &&
  asked.nowMs !== null &&
  asked.sentMs <= asked.nowMs &&
  asked.nowMs <= asked.receivedMs

/**
 * Reads the notes of clients; `ids` are those of the keys, by kind and subject.
 * With access logs, joins them by request id; `unpaired`: requests that only one side recorded, or that
 * the sides recorded differently.
 */
export async function readAsked(files: readonly string[], ids: Ids, logs: readonly string[] = []) {
  const logged = await readLogs(logs)
  const callerOf = createCallers(ids)
  const all: Asked[] = []
  let unpaired = 0
  const add = (note: Note): void => {
    const of = kindAt(note.kind)
    const isError = note.status !== 200 && note.body !== ''
    const { code = '', ...fields } = isError ? JSON.parse(note.body) : {}
    const entry = logged.get(note.id)
    const nowMs = entry === undefined ? null : Date.parse(entry.time)
    const asked: Asked = { ...note, of, nowMs, code, fields, ...callerOf(note, of) }
    if (logs.length > 0 && !isLoggedSo(asked, entry)) unpaired += 1
    logged.delete(note.id)
    all.push(asked)
  }
  for (const file of files) {
    for await (const note of linesOf<Note>(file)) add(note)
  }
  return { all, unpaired: unpaired + logged.size }
}

/** The quotas of networks that a request's answer consumes, as access.db writes the networks. */
export function quotasOf(
  { caller, place }: Pick<Asked, 'caller' | 'place'>,
  shown: readonly string[],
) {
  const numbers = shown.map(network => {
    const [high = '', low = ''] = network.split('.')
    return String(Number(high) * 256 + Number(low))
  })
  return networksOf(caller, numbers, CALLERS[place]?.bucket ?? '')
}

/** How many numbers of an ordered list are below a bound. */
export function countBelow(ordered: readonly number[], bound: number): number {
  let low = 0
  let high = ordered.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ordered[middle] ?? 0) < bound) low = middle + 1
    else high = middle
  }
  return low
}

/** The limits in a RateLimit field, by name: what remains, and the seconds until more does. */
export type Shown = ReadonlyMap<string, { remaining: number; resetSeconds: number }>

export const shownOf = ({ rateLimit }: Pick<Asked, 'rateLimit'>): Shown =>
  new Map(
    [...rateLimit.matchAll(/"([^"]+)";r=(\d+);t=(\d+)/g)].map(([, name = '', r, t]) => [
      name,
      { remaining: Number(r), resetSeconds: Number(t) },
    ]),
  )

/**
 * What a request came to: `admitted` counts, `refused` does not; of one that is `unknown`, because the
 * connection ended or the database was away, nobody can say; `wrong` must not be.
 */
export type Outcome = 'admitted' | 'refused' | 'unknown' | 'wrong'

const REFUSALS = [
  ...['RATE_LIMIT_EXCEEDED', 'DAILY_LIMIT_REACHED', 'DEMO_LIMIT_REACHED', 'TEMP_LIMIT_REACHED'],
]

export function outcomeOf({ status, code, retryAfter }: Asked): Outcome {
  if (status === 200 || status === 404 || code === 'SUBNET_LIMIT_REACHED') return 'admitted'
  if (status === 429 && REFUSALS.includes(code)) return 'refused'
  if (status === 0) return 'unknown'
  return code === 'DB_EXECUTE_FAILED' && status === 503 && retryAfter !== '' ? 'unknown' : 'wrong'
}

/** What one statement counted for a subject, as a journal has it. Times are Unix milliseconds. */
export type AdmissionRow = {
  seq: number
  subject: string
  /** By the clock of limits, and by the real one before the commit. */
  at: number
  realMs: number
  /** Requests; less than 0: given back, and the instants of those that the subject still had. */
  added: number
  gone: number[]
  /** The oldest instant that the subject has then. */
  oldest: number | null
  /** Its transaction. */
  xid: string
  /** The count of the day that was written with it, where that is in the journal. */
  requests?: number | null
}
export type NetworksRow = { subject: string; day: number; realMs: number; added: string[] }
export type JournalRows = { admissions: AdmissionRow[]; networks: NetworksRow[] }

/** How far the clock of limits was ahead, and between which real instants it was set so. */
export type Step = { offsetMs: number; fromMs: number; byMs: number }
export const UNSTEPPED: readonly Step[] = [{ offsetMs: 0, fromMs: 0, byMs: 0 }]

/**
 * An admission, or what one statement gave back, and what is counted after it: the first admissions,
 * without those given back before a place of the journal.
 */
export type Change = { isBack: boolean; count: number; seq: number }
/**
 * A history, and when each admission was written by the real clock; it was committed later. Likewise
 * all changes of the subject, in order.
 */
export type Written = History & {
  realMs: number[]
  xid: string[]
  changes: Change[]
  changedMs: number[]
}
/** The networks of a subject's set on a day, and when each was written. */
export type WrittenSet = { networks: string[]; realMs: number[] }

export type Histories = {
  of: (subject: string) => Written
  all: ReadonlyMap<string, Written>
  /** By subject and day, see `setName`. */
  sets: ReadonlyMap<string, WrittenSet>
  admissions: number
  givenBack: number
  /** Admissions whose count of the day differs from the oracle's. */
  miscounted: number
  /** How far the clock of limits can have been ahead at some time between two real instants. */
  offsetsBetween: (fromMs: number, toMs: number) => number[]
  /** The clocks before each step until an instant: how far ahead, and when that ended. */
  clocksBefore: (ms: number) => { offsetMs: number; endMs: number }[]
}

const emptyWritten = (): Written => ({
  ...{ ...emptyHistory(), realMs: [], xid: [] },
  ...{ changes: [], changedMs: [] },
})

/** Adds what one statement counted for a subject. */
function addRow(
  history: Written,
  { seq, at, realMs, added, gone, oldest, xid }: AdmissionRow,
): void {
  const change = (isBack: boolean): void => {
    history.changes.push({ isBack, count: history.at.length, seq: seq + 1 })
    history.changedMs.push(realMs)
  }
  for (let n = 0; n < added; n += 1) {
    record(history, at, seq)
    history.realMs.push(realMs)
    history.xid.push(xid)
    change(false)
  }
  for (let n = 0; n < -added; n += 1) {
    // One that no window counted any more: the subject does not have its instant.
    const left = history.at.filter(ms => oldest === null || ms < oldest)
    const instant = gone[n]
    const instants =
      instant === undefined ? [...left.reverse(), ...history.at.toReversed()] : [instant]
    if (!instants.some(ms => markGivenBack(history, ms, seq))) {
      throw new Error('more went back than was counted')
    }
  }
  if (added < 0) change(true)
}

function addNetworks(sets: Map<string, WrittenSet>, row: NetworksRow): void {
  const name = setName(row.subject, row.day)
  const set = sets.get(name) ?? { networks: [], realMs: [] }
  sets.set(name, set)
  for (const network of row.added) {
    set.networks.push(network)
    set.realMs.push(row.realMs)
  }
}

/** Rows as if all of a transaction had been written with its last one: nobody saw any of them before. */
function atCommit(rows: readonly AdmissionRow[]): AdmissionRow[] {
  const lastMs = new Map<string, number>()
  for (const { xid, realMs } of rows) lastMs.set(xid, Math.max(realMs, lastMs.get(xid) ?? 0))
  return rows.map(row => ({ ...row, realMs: lastMs.get(row.xid) ?? row.realMs }))
}

export function historiesOf(rows: JournalRows, steps = UNSTEPPED): Histories {
  const all = new Map<string, Written>()
  const sets = new Map<string, WrittenSet>()
  let admissions = 0
  let givenBack = 0
  let miscounted = 0
  for (const row of atCommit(rows.admissions)) {
    const history = all.get(row.subject) ?? emptyWritten()
    all.set(row.subject, history)
    addRow(history, row)
    if (row.added > 0) admissions += row.added
    else givenBack -= row.added
    const isCounted = row.added > 0 && typeof row.requests === 'number'
    if (isCounted && countOfLastDay(history) !== row.requests) miscounted += 1
  }
  for (const row of rows.networks) addNetworks(sets, row)
  const none = emptyWritten()
  return {
    of: subject => all.get(subject) ?? none,
    ...{ all, sets, admissions, givenBack, miscounted },
    offsetsBetween: (fromMs, toMs) =>
      steps
        .filter(({ fromMs: began }, n) => {
          const end = steps[n + 1]?.byMs ?? Number.POSITIVE_INFINITY
          return began <= toMs && fromMs <= end
        })
        .map(({ offsetMs }) => offsetMs),
    clocksBefore: ms =>
      steps
        .slice(1)
        .flatMap(({ fromMs }, i) =>
          fromMs <= ms ? [{ offsetMs: steps[i]?.offsetMs ?? 0, endMs: fromMs }] : [],
        ),
  }
}
