/** The journal of a run as histories: of each subject, all that was counted for it, in order. */
import {
  emptyHistory,
  type History,
  markGivenBack,
  record,
  setName,
} from '../../../support/limiter-oracle.ts'
import type { Step } from './faults.ts'
import type { AdmissionRow, JournalRows, NetworksRow } from './journal.ts'

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

export function historiesOf(rows: JournalRows, steps: readonly Step[]): Histories {
  const all = new Map<string, Written>()
  const sets = new Map<string, WrittenSet>()
  let admissions = 0
  let givenBack = 0
  for (const row of atCommit(rows.admissions)) {
    const history = all.get(row.subject) ?? emptyWritten()
    all.set(row.subject, history)
    addRow(history, row)
    if (row.added > 0) admissions += row.added
    else givenBack -= row.added
  }
  for (const row of rows.networks) addNetworks(sets, row)
  const none = emptyWritten()
  return {
    of: subject => all.get(subject) ?? none,
    ...{ all, sets, admissions, givenBack },
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
