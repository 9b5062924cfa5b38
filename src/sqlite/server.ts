/**
 * A database as the server holds it: opened again after a failure, or when another file is at its path.
 *
 * A damaged file stays open: the kernel then cannot give its inode to the new file, and `hasMoved` notices the new one.
 */
import type { Database } from 'bun:sqlite'
import { StoreError } from '../lib/errors.ts'
import { walOf } from './data-directory.ts'
import { hasMoved, inodeOf, removeWal } from './database-files.ts'
import {
  closesConnection,
  explain,
  isDamage,
  isDatabaseError,
  isSqliteError,
  toStoreError,
} from './errors.ts'

/** `failures` counts failed requests and failed attempts to open the file, one a second. */
export type Health = { works: boolean; failures: number }

type HeldOptions<Store> = {
  file: string
  open: () => Store
  /** Throws when the store does not work. Called after a failure, before the server says that it is over. */
  probe?: (store: Store) => void
  onDamage?: () => void
  say: (sentence: string) => void
}

/** `first` is the open store; with `null`, the first tick opens it. */
export function holdOpen<Store extends { db: Database; close(): void }>(
  first: Store | null,
  { file, open, probe = () => {}, onDamage = () => {}, say }: HeldOptions<Store>,
) {
  const hold = (store: Store) => ({ store, isDamaged: false, wal: inodeOf(walOf(file)) })
  let current = first === null ? null : hold(first)
  let generation = 0
  let failures = 0
  let problem = ''
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
    // After the first failure, failures of statements are consequences.
    if (problem === '' || (sentence !== problem && !isSqliteError(error))) {
      problem = sentence
      say(`${sentence}; answering 503 until that is over`)
    }
    if (isDamage(error)) {
      if (current !== null) current.isDamaged = true
      onDamage()
    } else if (closesConnection(error)) drop()
  }

  return {
    fail,
    /** Works with the store. @throws StoreError while it is not open or damaged, or when it fails. */
    use<T>(work: (store: Store) => T): T {
      if (current === null || current.isDamaged) {
        throw new StoreError(problem || `${file} is not open`)
      }
      try {
        return work(current.store)
      } catch (error) {
        if (isDatabaseError(error)) fail(error)
        throw toStoreError(file, error)
      }
    },
    /** Call this every second. */
    tick(): void {
      if (isClosed) return
      try {
        if (current !== null && hasMoved(current.store.db)) drop()
        if (current?.isDamaged) return
        if (current === null) {
          current = hold(open())
          generation += 1
        }
        if (problem === '') return
        open().close() // opens a second time: this prepares all statements, and fails without a table
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
