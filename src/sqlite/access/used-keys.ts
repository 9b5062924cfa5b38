/**
 * Owns the use of keys by hour and by day as `history.ts` has it in memory: the entries that change
 * it, and the text that a snapshot holds. Pure.
 */
import { type DayUse, utcHour } from '../../access/history.ts'
import { utcDay } from '../../lib/time.ts'

/** What answers added to the use of a key by `atMs`. */
export type UseEntry = readonly [
  kind: 'use',
  id: string,
  atMs: number,
  records: number,
  refused: number,
]
/** A day of a key was moved to table `days`, at `atMs`. */
export type MovedEntry = readonly [kind: 'moved', id: string, atMs: number, day: number]

/** The use of a key on a day, and of a key on days; `lastMs`: its last admission. */
type UsedDay = { readonly day: number; records: number; refused: number; readonly hours: number[] }
export type UsedKey = { readonly id: string; lastMs: number; days: UsedDay[] }

/** Adds requests of a key at `atMs`; the last was admitted at `lastMs`, `null`: none was. */
export type HourEntry = readonly [
  kind: 'hour',
  id: string,
  atMs: number,
  requests: number,
  lastMs: number | null,
]
export type UsedKeys = Map<string, UsedKey>

/** A change of the use of a key. */
export type UsedEntry = HourEntry | UseEntry | MovedEntry

/** A key in the text of a chunk. */
type Saved = readonly [id: string, lastMs: number, days: SavedDay[]]
/** `hours` begin with the first that has requests, which is hour `first`. */
type SavedDay = readonly [
  ...[day: number, records: number, refused: number, first: number, hours: number[]],
]

const saveDay = ({ day, records, refused, hours }: UsedDay): SavedDay => {
  const first = Math.max(
    0,
    hours.findIndex(requests => requests !== 0),
  )
  return [day, records, refused, first, hours.slice(first)]
}
const loadDay = ([day, records, refused, first, hours]: SavedDay): UsedDay => ({
  ...{ day, records, refused },
  hours: [...new Array<number>(first).fill(0), ...hours],
})

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
const toDayUse = (day: UsedDay): DayUse => ({ ...day, requests: sum(day.hours) })

/** The text of keys, and the keys of such a text. */
export const saveKeys = (keys: Iterable<UsedKey>): string =>
  JSON.stringify(Array.from(keys, ({ id, lastMs, days }): Saved => [id, lastMs, days.map(saveDay)]))
export const loadKeys = (text: string): UsedKey[] =>
  (JSON.parse(text) as Saved[]).map(([id, lastMs, days]) => ({
    ...{ id, lastMs },
    days: days.map(loadDay),
  }))

function dayOf({ days }: UsedKey, day: number): UsedDay {
  const last = days.at(-1)
  if (last?.day === day) return last
  const known = days.find(each => each.day === day)
  if (known) return known
  const added: UsedDay = { day, records: 0, refused: 0, hours: [] }
  days.push(added)
  return added
}

/** Adds requests to the hour of an instant. */
function addRequests(known: UsedKey, atMs: number, requests: number): void {
  const { hours } = dayOf(known, utcDay(atMs))
  const hour = utcHour(atMs)
  while (hours.length <= hour) hours.push(0)
  hours[hour] = (hours[hour] ?? 0) + requests
}

/** The use of a key on days of which nothing is in table `days`; `lastMs`: its last admission. */
export type Unmoved = { id: string; lastMs: number; days: DayUse[] }

export const toUnmoved = ({ id, lastMs, days }: UsedKey, some = days): Unmoved => ({
  ...{ id, lastMs },
  days: some.map(toDayUse),
})

function addUse(known: UsedKey, [, , atMs, records, refused]: UseEntry): void {
  const day = dayOf(known, utcDay(atMs))
  day.records += records
  day.refused += refused
}

/** The key with an id, added if there is none. */
function keyIn(keys: UsedKeys, id: string): UsedKey {
  const known = keys.get(id)
  if (known !== undefined) return known
  const added = { id, lastMs: 0, days: [] }
  keys.set(id, added)
  return added
}

/** Forgets a day, and the key when no day is left. */
function forgetDay(keys: UsedKeys, [, id, , day]: MovedEntry): void {
  const known = keys.get(id)
  if (known === undefined) return
  known.days = known.days.filter(each => each.day !== day)
  if (known.days.length === 0) keys.delete(id)
}

/** Applies an entry to the keys of its chunk. */
export function applyTo(keys: UsedKeys, entry: UsedEntry): void {
  if (entry[0] === 'moved') return forgetDay(keys, entry)
  const known = keyIn(keys, entry[1])
  if (entry[0] === 'use') return addUse(known, entry)
  const [, , atMs, requests, lastMs] = entry
  addRequests(known, atMs, requests)
  known.lastMs = lastMs ?? known.lastMs
}
