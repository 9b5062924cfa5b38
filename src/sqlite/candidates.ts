/**
 * The checker's candidates, in `checks.db`. There may be ten million, so only opening the file reads all of them,
 * to count the queues.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Attempt,
  type Candidate,
  type CandidateStore,
  type CheckerStatus,
  type CheckerStatusStore,
  type Ledger,
  type Past,
  QUEUES,
  type Queue,
} from '../checker/ports.ts'
import { CommandError } from '../lib/errors.ts'
import schema from './candidates.sql' with { type: 'text' }
import schema3 from './candidates-3.sql' with { type: 'text' }
import { CHECKS_FILE } from './data-directory.ts'
import { type OpenMode, openDatabase, writeTransaction } from './database.ts'
import { lockPath } from './database-files.ts'
import { toStoreError } from './errors.ts'

// -----------------------------------------------------------------------------------------------
// A candidate as a row. Attempts take the most space, so they are stored as arrays.

type Row = [
  id: number,
  queue: number,
  nextAt: number,
  idleAt: number,
  okAt: number | null,
  memory: string,
  named: number,
]

const ATTEMPT = ['type', 'purpose', 'result', 'ms', 'detail'] as const
type StoredPast = [at: number, result: Past['result'], attempts: unknown[][], Past['measured']]

const toStoredPast = ({ at, result, attempts, measured }: Past): StoredPast => [
  ...([at, result] as const),
  attempts.map(attempt => ATTEMPT.map(member => attempt[member])),
  measured,
]
const toAttempt = (values: unknown[]): Attempt =>
  Object.fromEntries(ATTEMPT.map((member, i) => [member, values[i]])) as Attempt // `toStoredPast` wrote them in this order
const toPast = ([at, result, attempts, measured]: StoredPast): Past => ({
  ...{ at, result, attempts: attempts.map(toAttempt) },
  ...(measured && { measured }),
})

/** Values of most candidates; they are not stored. */
const NOTHING = {
  ...{ addedMs: 0, streak: 0, works: null, checkedMs: null, measured: null },
  ...{ speedMs: null, servicesMs: null, tlsMs: null, history: [] },
}

function toRow({ id, queue, nextAtMs, idleAtMs, okAtMs, named, history, ...rest }: Candidate): Row {
  const stated = Object.entries(rest).filter(([, value]) => value)
  const past = history.length > 0 && { history: history.map(toStoredPast) }
  const memory = JSON.stringify({ ...Object.fromEntries(stated), ...past })
  return [id, QUEUES.indexOf(queue), nextAtMs, idleAtMs, okAtMs, memory, named]
}

function toCandidate([id, queue, nextAtMs, idleAtMs, okAtMs, memory, named]: Row): Candidate {
  const { history = [], ...rest } = JSON.parse(memory)
  return {
    ...{ ...NOTHING, ...rest, id, queue: QUEUES[queue], nextAtMs, idleAtMs, okAtMs, named },
    history: history.map(toPast),
  }
}

// -----------------------------------------------------------------------------------------------

/** How many of the next candidates of a queue `idle` considers at most. */
const IDLE_SCAN = 2_000

/** A JSON value in the only row of the table `checker`. */
function cell<T>(db: Database, column: 'ledger' | 'status') {
  const read = db.prepare<{ value: string | null }, []>(`select ${column} as value from checker`)
  const write = db.prepare<never, [string]>(
    `insert into checker (one, ${column}) values (1, ?1) on conflict do update set ${column} = ?1`,
  )
  return {
    read(): T | null {
      const text = read.get()?.value ?? null
      return text === null ? null : JSON.parse(text)
    },
    write: (value: T): void => void write.run(JSON.stringify(value)),
  }
}

function finder(db: Database): CandidateStore['find'] {
  const find = db.prepare('select * from candidates where id = ?')
  return id => {
    const [row] = find.values(id) as unknown as Row[] // values() is untyped
    return row === undefined ? null : toCandidate(row)
  }
}

function createCandidateStore(db: Database) {
  const conflict = 'insert into candidates values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (id)'
  const insert = db.prepare<never, Row>(`${conflict} do nothing`)
  const upsert = db.prepare<never, Row>(
    `${conflict} do update set queue = ?2, next_at = ?3, idle_at = ?4, ok_at = ?5, memory = ?6, named = ?7`,
  )
  const name = db.prepare<never, [number, number]>(
    'update candidates set named = named | ?2 where id = ?1 and named | ?2 <> named',
  )
  const queueOf = db.prepare<{ queue: number }, [number]>(
    'select queue from candidates where id = ?',
  )
  const forget = db.prepare<never, [number]>('delete from candidates where id = ?')
  const postpone = db.prepare<never, [number, number]>(
    'update candidates set next_at = max(next_at, ?2), idle_at = ?2 where id = ?1',
  )
  const due = db.prepare<{ id: number }, [number, number]>(
    'select id from candidates where queue = ? and next_at <= ? order by next_at',
  )
  type Following = { id: number; next_at: number; idle_at: number }
  const following = db.prepare<Following, [number, number, number]>(
    `select id, next_at, idle_at from candidates where queue = ? and next_at > ?
     order by next_at limit ?`,
  )
  const fresh = db.prepare<{ n: number }, [number]>(
    'select count(*) as n from candidates indexed by candidates_fresh where queue = 0 and ok_at >= ?',
  )
  const first = db.prepare<{ next_at: number }, []>(
    'select next_at from candidates where queue = 0 order by next_at limit 1',
  )
  const ledger = cell<Ledger>(db, 'ledger')

  /** Sizes of the queues. Counting ten million takes half a second; no other process writes, so once is enough. */
  const sizes = QUEUES.map(() => 0)
  const counted = db.query<{ queue: number; n: number }, []>(
    'select queue, count(*) as n from candidates group by queue',
  )
  for (const { queue, n } of counted.all()) sizes[queue] = n

  /** Runs `work` in a transaction, then applies its changes to the sizes of the queues. */
  function change(work: (count: (queue: number | undefined, by: number) => void) => void): void {
    const changes = QUEUES.map(() => 0)
    writeTransaction(db, () =>
      work((queue, by) => {
        if (queue !== undefined) changes[queue] = (changes[queue] ?? 0) + by
      }),
    )
    for (const [queue, by] of changes.entries()) sizes[queue] = (sizes[queue] ?? 0) + by
  }

  function earlyOf(queue: number, nowMs: number, count: number, excluded: ReadonlySet<number>) {
    const found: Following[] = []
    for (const row of following.iterate(queue, nowMs, IDLE_SCAN + excluded.size)) {
      if (row.idle_at > nowMs || excluded.has(row.id)) continue
      if (found.push(row) === count) break
    }
    return found
  }

  return {
    add(candidates): number {
      let added = 0
      // Sorted by id, so that each page is read and written once.
      const rows = candidates.map(toRow).sort(([a], [b]) => a - b)
      change(count => {
        for (const row of rows) {
          const isNew = insert.run(...row).changes
          count(row[1], isNew)
          added += isNew
          if (isNew === 0) name.run(row[0], row[6])
        }
      })
      return added
    },

    find: finder(db),

    due(queue: Queue, nowMs: number, visit: (id: number) => boolean): void {
      for (const { id } of due.iterate(QUEUES.indexOf(queue), nowMs)) if (!visit(id)) return
    },

    idle: (nowMs, count, excluded): number[] =>
      [...QUEUES.keys()]
        .flatMap(queue => earlyOf(queue, nowMs, count, excluded))
        .sort((a, b) => a.next_at - b.next_at)
        .slice(0, count)
        .map(({ id }) => id),

    save({ checked, forgotten, postponed, ledger: stored }): void {
      change(count => {
        for (const { id, untilMs } of postponed) postpone.run(id, untilMs)
        for (const candidate of checked) {
          const row = toRow(candidate)
          count(queueOf.get(candidate.id)?.queue, -1)
          count(row[1], 1)
          upsert.run(...row)
        }
        for (const id of forgotten) {
          count(queueOf.get(id)?.queue, -1)
          forget.run(id)
        }
        ledger.write(stored)
      })
    },

    ledger: ledger.read,
    counts: () => ({ living: sizes[0] ?? 0, down: sizes[1] ?? 0, raw: sizes[2] ?? 0 }),
    freshSince: (ms): number => fresh.get(ms)?.n ?? 0,
    lagMs: (nowMs): number => Math.max(0, nowMs - (first.get()?.next_at ?? nowMs)),
  } satisfies CandidateStore
}

type Method = (...args: never[]) => unknown

/** Wraps methods so that a failure of SQLite is a `StoreError`, after which the checker retries. */
export function withStoreErrors<T extends { [name: string]: Method }>(file: string, methods: T): T {
  const fail = (error: unknown): never => {
    throw toStoreError(file, error)
  }
  const wrapped = Object.entries(methods).map(([name, method]) => [
    name,
    (...args: never[]) => {
      try {
        const result = method(...args)
        return result instanceof Promise ? result.catch(fail) : result
      } catch (error) {
        return fail(error)
      }
    },
  ])
  return Object.fromEntries(wrapped)
}

/** A query that is gone read it, and each check wrote it. */
const NO_IDLE_INDEX = 'drop index candidates_idle'

const openCandidatesFile = (file: string, mode: OpenMode = {}): Database =>
  openDatabase(file, { kind: 'checks', scripts: [schema, NO_IDLE_INDEX, schema3], ...mode })

/** Locks a data directory for one checker until its process ends. @throws CommandError when it is locked. */
function lockDirectory(dir: string): () => void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const release = lockPath(join(dir, 'checker'), 0)
  if (release !== null) return release
  throw new CommandError(`another checker is at work on ${dir}: there is one for a data directory`)
}

/** Opens the candidates for the only checker of `dir`, or of memory. @throws CommandError */
export function openCandidates(dir: string | null) {
  using opened = new DisposableStack()
  if (dir !== null) opened.defer(lockDirectory(dir))
  const file = dir === null ? ':memory:' : join(dir, CHECKS_FILE)
  const db = openCandidatesFile(file)
  opened.defer(() => db.close(true))
  const store = withStoreErrors(file, createCandidateStore(db))
  const status = withStoreErrors(file, cell<CheckerStatus>(db, 'status'))
  const kept = opened.move()
  const close = (): void => kept.dispose()
  return {
    ...store,
    status: status satisfies CheckerStatusStore,
    close,
    [Symbol.dispose]: close,
  }
}

/** Reads the candidates of a data directory; `null` when no checker ever ran. */
export function readCandidates<T>(
  dir: string,
  work: (checks: Pick<CandidateStore, 'find'> & { status(): CheckerStatus | null }) => T,
  mode: OpenMode = { isReader: true },
): T | null {
  const file = join(dir, CHECKS_FILE)
  if (!existsSync(file)) return null
  try {
    using db = openCandidatesFile(file, mode)
    return work({ find: finder(db), status: cell<CheckerStatus>(db, 'status').read })
  } catch (error) {
    throw toStoreError(file, error)
  }
}

/** The status of the checker of a data directory, usually another process. */
export const checkerStatusIn = (dir: string, mode?: OpenMode) => ({
  read: () => readCandidates(dir, checks => checks.status(), mode),
})
