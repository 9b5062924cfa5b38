/** A database as the server holds it: opened again after a failure, or when its path is another file. */
import type { Database } from 'bun:sqlite'
import { StoreError } from '../lib/errors.ts'
import { walOf } from './data-directory.ts'
import { hasMoved, inodeOf, removeWal, stampOf } from './database-files.ts'
import { explain, isDamage, isStoreFailure, isUnusable, toStoreError } from './errors.ts'
import { ofNewer, schemaVersion } from './migrate.ts'

/** `failures` counts failed requests and failed attempts to open the file, one a second. */
export type Health = { works: boolean; failures: number }

/** A newer program migrates the file before it takes over: the old server goes on for so many ticks. */
const TAKE_OVER_TICKS = 5

type Held<Store> = {
  file: string
  /** The newest schema that this program knows. */
  schema: number
  open: () => Store
  /** Throws when the store does not work. Called after a failure, before the server says that it is over. */
  probe: (store: Store) => void
  onDamage?: () => void
  say: (sentence: string) => void
}

/** `first` is the open store; with `null`, the first tick opens it. */
export function holdOpen<Store extends { db: Database; close(): void }>(
  first: Store | null,
  { file, schema, open, probe, onDamage = () => {}, say }: Held<Store>,
) {
  const hold = (store: Store) => ({ store, wal: inodeOf(walOf(file)) })
  let current = first === null ? null : hold(first)
  let generation = 0
  let failures = 0
  let problem = ''
  /** A damaged file is not opened again before it changes. */
  let damaged: { error: unknown; stamp: string } | null = null
  let newerTicks = 0
  let isClosed = false

  function drop(): void {
    if (current === null) return
    const { store, wal } = current
    current = null
    try {
      const isReplaced = hasMoved(store.db)
      store.close()
      // SQLite would read the WAL of the replaced file as a part of the new one.
      if (isReplaced && wal !== null && wal === inodeOf(walOf(file))) removeWal(file)
    } catch {
      // A damaged database, or one in a directory that cannot be read.
    }
  }

  function fail(error: unknown): void {
    failures += 1
    const sentence = explain(file, error)
    // After the first failure, those of statements are consequences.
    const isNews = problem === '' || (error instanceof StoreError && sentence !== problem)
    if (isNews) say(`${sentence}; answering 503 until that is over`)
    problem = sentence
    if (isUnusable(error)) drop()
    if (!isDamage(error) || damaged !== null) return
    onDamage()
    damaged = { error, stamp: stampOf(file) }
  }

  function reopen(): NonNullable<typeof current> {
    if (damaged?.stamp === stampOf(file)) throw damaged.error
    damaged = null
    const store = open()
    generation += 1
    return hold(store)
  }

  function requireKnownSchema({ db }: Store): void {
    const version = schemaVersion(db)
    newerTicks = version > schema ? newerTicks + 1 : 0
    if (newerTicks > TAKE_OVER_TICKS) throw new StoreError(ofNewer(file, version, schema))
  }

  return {
    fail,
    /** Works with the store. @throws StoreError while it is not open, or when it fails. */
    use<T>(work: (store: Store) => T): T {
      if (current === null) throw new StoreError(problem || `${file} is not open`)
      try {
        return work(current.store)
      } catch (error) {
        if (isStoreFailure(error)) fail(error)
        throw toStoreError(file, error)
      }
    },
    /** Call this every second. */
    tick(): void {
      if (isClosed) return
      try {
        if (current !== null && hasMoved(current.store.db)) drop()
        current ??= reopen()
        requireKnownSchema(current.store)
        if (problem === '') return
        probe(current.store)
        problem = ''
        say(`${file} works again`)
      } catch (error) {
        fail(error)
      }
    },
    /** How many times the file was opened again. */
    generation: () => generation,
    health: (): Health => ({ works: current !== null && problem === '', failures }),
    close(): void {
      isClosed = true
      drop()
    },
  }
}

/** The methods `names` of a part of a store, each called through `use`. */
export const forward = <Store, Part extends object, const Name extends keyof Part>(
  use: <T>(work: (store: Store) => T) => T,
  part: (store: Store) => Part,
  names: readonly Name[],
): Pick<Part, Name> => {
  const call =
    (name: Name) =>
    (...args: unknown[]) =>
      use(store => (part(store)[name] as (...args: unknown[]) => unknown)(...args))
  return Object.fromEntries(names.map(name => [name, call(name)])) as Pick<Part, Name>
}
