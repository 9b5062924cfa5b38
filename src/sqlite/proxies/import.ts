/** Writes the list. An import is one transaction: readers see the list before it or after it (contract D5). */
import type { Database } from 'bun:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { StoreError } from '../../lib/errors.ts'
import { toSeconds } from '../../lib/time.ts'
import { FUTURE_SECONDS_MAX } from '../../proxies/freshness.ts'
import { type Address, type IncomingProxy, servicesToBits } from '../../proxies/proxy.ts'
import {
  AT,
  type CityName,
  idOf,
  ROW_COLUMNS,
  type Row,
  toRow,
  UNKNOWN,
  UNKNOWN_PING,
} from '../../proxies/row.ts'
import type { ImportCounts, ImportMode, ImportTx, ListSizes } from '../../proxies/store.ts'
import { mergeTypes } from '../../proxies/types.ts'
import { rollBack } from '../database.ts'
import { isBusy } from '../errors.ts'
import { type Cities, createCities } from './cities.ts'
import { countRows, createIndexUpkeep } from './store.ts'

/** 2^17 rows take 14 MB. 2^18 cost an import 60 MB more; with 2^16 it writes the table twice as often. */
const POSITION_BITS = 17
const POSITIONS = 2 ** POSITION_BITS
/** Rows are sorted by id in steps of this size, so that id and position fit the 53 bits of a number. */
const ID_STEP = 2 ** (48 + POSITION_BITS - 53)

/** The columns of a row, then the services that it states, as bits. */
export type BatchRow = [...row: Row, stated: number]

const WIDTH = ROW_COLUMNS.length + 1
const IP_OUT = ROW_COLUMNS.indexOf('ip_out')

/** Collects rows, and returns them in the order of the table, in which SQLite writes each page of it once. */
export function createBatch() {
  // Numbers in typed arrays cost the garbage collector nothing; memory is used as they fill.
  const numbers = new Float64Array(POSITIONS * WIDTH)
  const keys = new Float64Array(POSITIONS)
  /** The texts in `ip_out`; `numbers` holds -1 less their position here. */
  const texts: string[] = []
  let size = 0
  const current: (number | string)[] = []

  return {
    isFull: (): boolean => size === POSITIONS,

    add(row: Row, stated: number): void {
      const at = size * WIDTH
      for (let i = 0; i < WIDTH - 1; i++) {
        const value = row[i] ?? 0
        numbers[at + i] = typeof value === 'number' ? value : -texts.push(value)
      }
      numbers[at + WIDTH - 1] = stated
      keys[size] = Math.floor(row[AT.id] / ID_STEP) * POSITIONS + size
      size += 1
    },

    /** Passes rows to `take`, which must not keep the array, nearly by id; rows with one id keep their order. */
    drain(take: (row: BatchRow) => void): void {
      for (const key of keys.subarray(0, size).sort()) {
        const at = (key % POSITIONS) * WIDTH
        for (let i = 0; i < WIDTH; i++) current[i] = numbers[at + i] ?? 0
        const out = numbers[at + IP_OUT] ?? 0
        if (out < 0) current[IP_OUT] = texts[-1 - out] ?? ''
        take(current as BatchRow) // as `add` took it
      }
      texts.length = 0
      size = 0
    },
  }
}

/** Names of cities in memory: rows come in any order, and each of them needs its own. */
const NAMES_MAX = 65_536

/** How long an import waits for something short, such as removing stale rows, before it says so. */
const SHORT_WAIT_MS = 500
/** How long an import waits for another one, in milliseconds. */
const WAIT_MS = 3_600_000
const RETRY_MS = 50

/** The parameter after the columns: the services that a row states, as bits. */
const STATED = `?${ROW_COLUMNS.length + 1}`

const COLUMNS = ROW_COLUMNS.join(', ')

/** A column, and the SQL expression for its value after an update. */
type Merged = readonly [column: string, value: string]
const taken = (column: string): Merged => [column, `excluded.${column}`]
/** An unknown value changes nothing. */
const known = (column: string, unknown: number | string): Merged => [
  column,
  `coalesce(nullif(excluded.${column}, ${unknown}), ${column})`,
]

/**
 * Adds a row, or merges it into the stored row. An older row adds only its types. A checker measures types, anon and
 * ip_out, so `set` replaces them. A row that changes nothing is not written. A stored check after `latest` (Unix
 * seconds) is replaced: a clock was ahead.
 */
function upsertInto(table: string, mode: ImportMode, latest: number): string {
  const isSet = mode === 'set'
  const isAhead = `checked_at > ${latest}`
  const isOlder = `excluded.checked_at < checked_at and not ${isAhead}`
  const mergedTypes = `iif(types = excluded.types, types,
    merge_types(types, checked_at, excluded.types, excluded.checked_at))`
  const measured = isSet ? taken : known
  const merge: readonly Merged[] = [
    known('ping_ms', UNKNOWN_PING),
    isSet ? taken('types') : ['types', `iif(${isAhead}, excluded.types, ${mergedTypes})`],
    measured('anon', 0),
    known('works', UNKNOWN),
    known('speed', UNKNOWN),
    ['services', `(services & ~${STATED}) | excluded.services`],
    known('country', 0),
    known('city', 0),
    measured('ip_out', "''"),
  ]
  const updates = [taken('checked_at'), ...merge].map(
    ([column, value]) =>
      `${column} = ${isSet || column === 'types' ? value : `iif(${isOlder}, ${column}, ${value})`}`,
  )
  return `
  insert into ${table} (${COLUMNS}) values (${ROW_COLUMNS.map((_, i) => `?${i + 1}`).join(', ')})
  on conflict (id) do update set ${updates.join(',\n    ')}
  where excluded.checked_at > checked_at or ${isAhead} or
    ${isSet ? '' : `${mergedTypes} <> types or`} excluded.checked_at = checked_at and
    (${merge.map(([column]) => column).join(', ')}) is not (${merge.map(([, m]) => m).join(', ')})`
}

const SWAP = {
  stage: `create temp table incoming (id integer primary key, ${ROW_COLUMNS.slice(1).join(', ')})`,
  remove: 'delete from proxies where id not in (select id from temp.incoming)',
  copy: `insert into proxies (${COLUMNS}) select ${COLUMNS} from temp.incoming where true
    on conflict (id) do update set
      ${ROW_COLUMNS.map(column => `${column} = excluded.${column}`).join(', ')}
    where (${COLUMNS}) is not (${ROW_COLUMNS.map(column => `excluded.${column}`).join(', ')})`,
  drop: 'drop table if exists temp.incoming',
} as const

const MARK = 'update list set imported = hex(randomblob(8))'

/** The stored name again: keep the city. Another default name: replace both. Only an English name: add it. */
function mergedCity(cities: Cities, storedId: number, { name, nameEn }: CityName): number {
  const stored = cities.nameOf(storedId)
  if (nameEn !== '') return cities.idOf(name || stored.name, nameEn)
  const isShown = name === '' || name === stored.name || name === stored.nameEn
  return isShown ? storedId : cities.idOf(name, '')
}

/** Locks the list for writing; false when another process has it for longer than `waitMs`. */
function tryLock(db: Database, waitMs: number): boolean {
  db.run(`pragma busy_timeout = ${waitMs}`)
  try {
    db.run('begin immediate')
    return true
  } catch (error) {
    if (isBusy(error)) return false
    throw error
  }
}

const LOCKED = 'another import has locked the list for too long'

/**
 * An import. It locks the list at its first row, so that waiting for a source blocks nobody, and nothing is
 * visible before `commit`. Rows whose check lies after `nowMs` are replaced by any update.
 */
export function beginImport(
  db: Database,
  mode: ImportMode,
  onWait: () => void = () => {},
  nowMs = Number.MAX_SAFE_INTEGER,
) {
  let tx: ReturnType<typeof openTx> | null = null
  const latest = toSeconds(nowMs) + FUTURE_SECONDS_MAX
  /** Waits up to `waitMs` for the lock; `null` when another process keeps it. @throws without a lock. */
  function lockAndPrepare(waitMs: number) {
    if (tx !== null || !tryLock(db, waitMs)) return tx
    try {
      tx = openTx(db, mode, latest)
      return tx
    } catch (error) {
      rollBack(db)
      throw error
    }
  }
  function locked() {
    const open = lockAndPrepare(WAIT_MS)
    if (open === null) throw new StoreError(LOCKED)
    return open
  }
  return {
    /** Locks the list while the event loop goes on, so that a signal can end the wait. */
    async lock(signal?: AbortSignal): Promise<void> {
      if (tx === null) signal?.throwIfAborted()
      for (let waitedMs = 0; lockAndPrepare(0) === null; waitedMs += RETRY_MS) {
        if (waitedMs === SHORT_WAIT_MS) onWait()
        if (waitedMs >= WAIT_MS) throw new StoreError(LOCKED)
        await delay(RETRY_MS, undefined, { signal }).catch(() => signal?.throwIfAborted())
      }
    },
    add: (proxy: IncomingProxy): void => locked().add(proxy),
    lower: (address: Address, works: number | null): void => locked().lower(address, works),
    /** Writes everything and leaves the transaction open; call `end` after its commit. */
    write: (approve?: (sizes: ListSizes) => void) => locked().write(approve),
    commit(approve?: (sizes: ListSizes) => void): ImportCounts {
      const { counts, end } = locked().write(approve)
      db.run('commit')
      end()
      return counts
    },
    rollback: (): void => tx?.rollback(),
  } satisfies ImportTx & { [member: string]: unknown }
}

/** The import, once the list is locked. */
function openTx(db: Database, mode: ImportMode, latest: number) {
  const isReplace = mode === 'replace'
  if (isReplace) for (const sql of [SWAP.drop, SWAP.stage]) db.run(sql)
  const table = isReplace ? 'temp.incoming' : 'proxies'
  const indexes = createIndexUpkeep(db)
  db.function('merge_types', { deterministic: true }, mergeTypes)
  const cities = createCities(db, NAMES_MAX)
  // Names that this import leaves without rows stay: a reader may still show one. This looks at all names.
  if (mode !== 'set') cities.removeUnused()
  const lastCity = cities.lastId()
  const upsert = db.prepare<never, BatchRow>(upsertInto(table, mode, latest))
  const cityOf = db.prepare<{ city: number }, [number]>(`select city from ${table} where id = ?`)
  const setWorks = db.prepare<never, [number, number]>(
    `update ${table} set works = ?2 where id = ?1 and works <> ?2`,
  )
  const batch = createBatch()
  const lowered: [id: number, works: number][] = []
  let accepted = 0
  let written = 0
  let added = 0
  // The id that this connection inserted last; 0 if its row is gone, because it may be inserted again.
  let lastAdded =
    db.query<{ id: number }, []>(`select id from ${table} where id = last_insert_rowid()`).get()
      ?.id ?? 0

  /** The city of a row. A city with only one name is merged with the stored city. */
  function mergedCityOf(id: number, cityId: number): number {
    const incoming = cities.nameOf(cityId)
    const isPair = incoming.name !== '' && incoming.nameEn !== ''
    if (isPair || cityId === 0) return cityId
    const stored = cityOf.get(id)?.city ?? 0
    return stored === 0 ? cityId : mergedCity(cities, stored, incoming)
  }

  function writeBatch(): void {
    if (!isReplace) indexes.prepareFor(accepted)
    batch.drain(row => {
      row[AT.city] = mergedCityOf(row[AT.id], row[AT.city])
      const { changes, lastInsertRowid } = upsert.run(...row)
      written += changes
      // An update does not change the last inserted id, so there is no need to count the list.
      if (lastInsertRowid === lastAdded || lastInsertRowid !== row[AT.id]) return
      lastAdded = lastInsertRowid
      added += 1
    })
  }

  /** Replaces the list by the staged one; returns how many proxies were removed. */
  function swap(approve: (sizes: ListSizes) => void): number {
    const before = countRows(db)
    const after = countRows(db, 'temp.incoming')
    approve({ before, after })
    indexes.prepareFor(Infinity) // damaged ones, too
    const removed = db.run(SWAP.remove).changes
    written = db.run(SWAP.copy).changes
    added = after - (before - removed)
    return removed
  }

  function finalize(): void {
    upsert.finalize()
    cityOf.finalize()
    setWorks.finalize()
  }

  return {
    add(proxy: IncomingProxy): void {
      accepted += 1
      const row = toRow(proxy, cities.idOf(proxy.city, proxy.cityEn))
      batch.add(row, servicesToBits(proxy.servicesStated))
      if (batch.isFull()) writeBatch()
    },
    lower(address: Address, works: number | null): void {
      accepted += 1
      lowered.push([idOf(address), works ?? UNKNOWN])
    },
    write(approve: (sizes: ListSizes) => void = () => {}) {
      writeBatch()
      for (const each of lowered) written += setWorks.run(...each).changes
      finalize()
      const removed = isReplace ? swap(approve) : 0
      if ((isReplace || mode === 'merge') && written + removed > 0) db.run(MARK)
      indexes.restore()
      cities.removeUnused(lastCity)
      const counts = { added, updated: written - added, unchanged: accepted - written, removed }
      const end = (): void => {
        if (isReplace) db.run(SWAP.drop)
      }
      return { counts, end }
    },
    rollback(): void {
      finalize()
      rollBack(db)
    },
  }
}
