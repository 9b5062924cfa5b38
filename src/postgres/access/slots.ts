/** Owns the subjects of a batch of admissions, and their usage while it is decided. Pure. */
import {
  type Admission,
  type LimitRule,
  type Subject,
  UNUSED,
  type Usage,
  type UsageTable,
} from '../../access/rate-limit.ts'
import { utcDay } from '../../lib/time.ts'
import { hasSameLimits } from './known.ts'

/** A subject of a batch. */
export type Slot = {
  /** The rule of all of its requests, of which there are so many. */
  rule: LimitRule
  requests: number
  /** What it has used; `null` when it has no row. */
  usage: Usage | null
  /** Whether the database has recorded what the rule admits. */
  isDecided: boolean
}

/** The order of the primary key, in which rows are locked. Kinds and ids are ASCII. */
export const byKey = (a: Subject, b: Subject): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

export type Slots = ReturnType<typeof createSlots>['slots']

/** The subjects of the first `count` requests of a batch: up to one with another rule for a subject. */
export function createSlots(batch: readonly Admission[]) {
  const byKind = {
    key: new Map<string, Slot>(),
    demo: new Map<string, Slot>(),
    temp: new Map<string, Slot>(),
  }
  const all: Slot[] = []
  const find = ({ kind, id }: Subject): Slot | undefined => byKind[kind].get(id)

  function add(rule: LimitRule): void {
    const { kind, id } = rule.subject
    const known = byKind[kind].get(id)
    if (known !== undefined) {
      known.requests += 1
      return
    }
    const slot = { rule, requests: 1, usage: null, isDecided: false }
    byKind[kind].set(id, slot)
    all.push(slot)
  }
  const isOther = (rule: LimitRule): boolean => {
    const known = find(rule.subject)
    return known !== undefined && !hasSameLimits(known.rule, rule)
  }

  let count = 0
  for (const { rules } of batch) {
    if (rules.some(isOther)) break
    for (const rule of rules) add(rule)
    count += 1
  }
  const table: UsageTable = {
    read: subject => find(subject)?.usage ?? UNUSED,
    /** Records what the database has recorded. */
    record(subject, atMs, requests, kept) {
      const slot = find(subject)
      if (slot === undefined || slot.usage === null || !slot.isDecided) return
      const { usage } = slot
      usage.admissions.push(atMs)
      while (usage.admissions.length > kept) usage.admissions.shift()
      usage.day = utcDay(atMs)
      usage.requests = requests
      usage.latestMs = atMs
    },
  }
  return {
    slots: {
      find,
      table,
      isDecided: (rules: readonly LimitRule[]): boolean =>
        rules.every(({ subject }) => find(subject)?.isDecided === true),
      sorted: (): Slot[] => all.sort((a, b) => byKey(a.rule.subject, b.rule.subject)),
    },
    count,
  }
}
