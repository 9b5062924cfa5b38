/**
 * Owns reading what a run of the limiter left behind: what clients noted, what the servers logged
 * and what the journal of access.db holds, joined to one record a request.
 */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Note } from './client.ts'
import { countBelow, emptyHistory, type History, type Rule, record } from './oracle.ts'
import { addressOf, CALLERS, KINDS, type Kind } from './traffic.ts'
import type { Ids, JournalRow } from './world.ts'

/** One request as its client and its server saw it. */
export type Decision = Note & {
  of: Kind
  /** The server's clock when the request arrived. */
  nowMs: number
  code: string
  fields: { retry_after?: number; daily_limit?: number; used_subnets?: number }
  subjects: string[]
  rules: readonly Rule[]
}

async function* linesOf<Line>(file: string): AsyncGenerator<Line> {
  for await (const line of createInterface({ input: createReadStream(file) })) {
    yield JSON.parse(line) as Line // written by the program or by our own clients
  }
}

/** What the contract holds a kind to (B2, B4, B5). */
const RULES: readonly (readonly Rule[])[] = KINDS.map(({ caller, limits }) => {
  const twice = (name: string, ms: number): Rule => ({
    window: { name, limit: 2, ms },
    daily: null,
  })
  if (caller === 'demo') return [twice('demo', 60_000)]
  if (caller === 'temp') return [twice('key', 3_600_000), twice('address', 3_600_000)]
  const { burst, daily } = limits
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * 1000 }
  return [{ window, daily }]
})

function subjectsOf({ caller }: Kind, id: string, place: number): string[] {
  if (caller === 'demo') return [`demo:${addressOf(place).bucket}`]
  return caller === 'temp' ? [`key:${id}`, `temp:${addressOf(place).bucket}`] : [`key:${id}`]
}

export type Records = {
  decisions: Decision[]
  /** Requests that only one side knows of, or of which the sides say different things. */
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

function decisionOf(note: Note, nowMs: number, ids: Ids): Decision & { keyId: string } {
  const of = KINDS[note.kind]
  if (!of) throw new Error(`there is no kind ${note.kind}`)
  const keyId = of.caller === 'demo' ? 'demo' : (ids[note.kind]?.[note.subject] ?? '')
  const { code = '', ...fields } = note.status === 200 ? {} : JSON.parse(note.body)
  const subjects = subjectsOf(of, keyId, note.place)
  return { ...note, of, nowMs, code, fields, subjects, rules: RULES[note.kind] ?? [], keyId }
}

/** Joins notes and access logs by request id. */
export async function readDecisions(
  notes: readonly string[],
  logs: readonly string[],
  ids: Ids,
): Promise<Records> {
  const logged = await readLogs(logs)
  const decisions: Decision[] = []
  let unpaired = 0
  for (const file of notes) {
    for await (const note of linesOf<Note>(file)) {
      const entry = logged.get(note.id)
      logged.delete(note.id)
      const { keyId, ...decision } = decisionOf(note, Date.parse(entry?.time ?? ''), ids)
      const { nowMs, sentMs, receivedMs, status } = decision
      const isWithin = sentMs <= nowMs && nowMs <= receivedMs
      if (entry?.status !== status || entry.key !== keyId || !isWithin) unpaired += 1
      decisions.push(decision)
    }
  }
  return { decisions, unpaired: unpaired + logged.size }
}

/** The networks of one set of a day, in order of commit. */
export type NetworkSet = { subject: string; day: number; seq: number[]; networks: string[] }

export type Journal = {
  rows: number
  histories: Map<string, History>
  /** By subject and day, see `setName`. */
  sets: Map<string, NetworkSet>
  /** Admissions whose own count of the day is not the oracle's. */
  miscounted: number
  /** The first place of the journal that was certainly not there yet at `ms`. */
  notYetAt: (ms: number) => number
}

export const setName = (subject: string, day: number): string => `${subject} ${day}`

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
  const latest: number[] = [] // the latest instant up to each admission: its commit is later
  let miscounted = 0
  for (const { seq, subject, at, requests, day, network } of rows) {
    if (at === null) {
      const set = openSet(sets, subject, day ?? 0)
      set.seq.push(seq)
      set.networks.push(network ?? '')
      continue
    }
    const history = histories.get(subject) ?? emptyHistory()
    histories.set(subject, history)
    record(history, at, seq)
    if (history.nth.at(-1) !== requests) miscounted += 1
    seqs.push(seq)
    latest.push(Math.max(at, latest.at(-1) ?? at))
  }
  return {
    rows: seqs.length,
    histories,
    sets,
    miscounted,
    notYetAt: ms => seqs[countBelow(latest, ms + 1)] ?? Number.POSITIVE_INFINITY,
  }
}

/** The networks a request's answer draws on, by set, as the contract counts them (B2). */
export function drawnBy({ of, subjects, port, place }: Decision, shown: readonly string[]) {
  const [subject = ''] = subjects
  const { subnets, clients } = of.limits
  const numbers = shown.map(network => {
    const [high = '', low = ''] = network.split('.')
    return String(Number(high) * 256 + Number(low))
  })
  return [
    { subject: `${subject}:served`, quota: subnets, networks: numbers },
    { subject: `${subject}:callers`, quota: clients, networks: [CALLERS[place]?.bucket ?? ''] },
  ].flatMap(({ quota, ...drawn }) => (quota === null ? [] : [{ ...drawn, quota, port }]))
}
