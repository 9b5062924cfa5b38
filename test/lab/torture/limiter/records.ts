/**
 * Reading the records of a run: the notes of the clients, the logs of the servers and the
 * journal of access.db, joined to one observation for each request.
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
import { addressOf, CALLERS, KINDS, type Kind } from './traffic.ts'
import type { Ids, JournalRow } from './world.ts'

/** One request as its client and its server recorded it. */
export type Observed = Note & {
  of: Kind
  /** The server's clock when the request arrived. */
  nowMs: number
  code: string
  fields: { retry_after?: number; daily_limit?: number; used_subnets?: number }
  caller: Caller
  rules: readonly Rule[]
}

export async function* linesOf<Line>(file: string): AsyncGenerator<Line> {
  for await (const line of createInterface({ input: createReadStream(file) })) {
    yield JSON.parse(line) as Line // written by the program or by our own clients
  }
}

/** A caller of each key or address, and its rules: one object for all of its requests. */
export function createCallers(ids: Ids) {
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

export type Records = {
  observed: Observed[]
  /** Requests that only one side recorded, or that the sides recorded differently. */
  unpaired: number
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

/** Joins notes and access logs by request id. */
export async function readObserved(
  notes: readonly string[],
  logs: readonly string[],
  ids: Ids,
): Promise<Records> {
  const logged = await readLogs(logs)
  const callerOf = createCallers(ids)
  const observed: Observed[] = []
  let unpaired = 0
  for (const file of notes) {
    for await (const note of linesOf<Note>(file)) {
      const entry = logged.get(note.id)
      logged.delete(note.id)
      const of = KINDS[note.kind]
      if (!of) throw new Error(`there is no kind ${note.kind}`)
      const { status, sentMs, receivedMs } = note
      const { code = '', ...fields } = status === 200 ? {} : JSON.parse(note.body)
      const nowMs = Date.parse(entry?.time ?? '')
      const { caller, rules } = callerOf(note, of)
      const isWithin = sentMs <= nowMs && nowMs <= receivedMs
      if (entry?.status !== status || entry.key !== caller.id || !isWithin) unpaired += 1
      observed.push({ ...note, of, nowMs, code, fields, caller, rules })
    }
  }
  return { observed, unpaired: unpaired + logged.size }
}

/** The networks of one set of a day, in order of commit. */
export type NetworkSet = { subject: string; day: number; seq: number[]; networks: string[] }

export type Journal = {
  /** Admissions, for each subject, and how many of them were given back. */
  rows: number
  givenBack: number
  histories: Map<string, History>
  /** By subject and day, see `setName`. */
  sets: Map<string, NetworkSet>
  /** Admissions whose count of the day differs from the oracle's, and given back without one. */
  miscounted: number
  /** The first place of the journal that certainly did not exist yet at `ms`. */
  notYetAt: (ms: number) => number
}

function openSet(sets: Journal['sets'], subject: string, day: number): NetworkSet {
  const name = setName(subject, day)
  const set = sets.get(name) ?? { subject, day, seq: [], networks: [] }
  sets.set(name, set)
  return set
}

export function readHistories(rows: readonly JournalRow[]): Journal {
  const histories: Journal['histories'] = new Map()
  const sets: Journal['sets'] = new Map()
  const seqs: number[] = []
  const latest: number[] = [] // the latest instant up to each admission, which is before its commit
  let miscounted = 0
  let givenBack = 0
  for (const { seq, subject, at, requests, day, network } of rows) {
    if (at === null) {
      const set = openSet(sets, subject, day ?? 0)
      set.seq.push(seq)
      set.networks.push(network ?? '')
      continue
    }
    const history = histories.get(subject) ?? emptyHistory()
    histories.set(subject, history)
    if (requests === null) {
      if (markGivenBack(history, at, seq)) givenBack += 1
      else miscounted += 1
      continue
    }
    record(history, at, seq)
    if (countOfLastDay(history) !== requests) miscounted += 1
    seqs.push(seq)
    latest.push(Math.max(at, latest.at(-1) ?? at))
  }
  return {
    rows: seqs.length,
    givenBack,
    histories,
    sets,
    miscounted,
    notYetAt: ms => seqs[countBelow(latest, ms + 1)] ?? Number.POSITIVE_INFINITY,
  }
}

/** The quotas of networks that a request's answer consumes, as access.db writes the networks. */
export function quotasOf(
  { caller, place }: Pick<Observed, 'caller' | 'place'>,
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
