/**
 * Supervising a store that may be lost while the server runs, because its file is missing,
 * replaced, damaged or locked: it is reopened when that can help, and the operator gets one sentence
 * when something is wrong and one when it is over.
 */
import { StoreError } from '../lib/errors.ts'
import { explain, isStoreFailure, isUnusable, toStoreError } from './errors.ts'

export type Parts<Store> = {
  /** The path of the store's file, for sentences. */
  file: string
  /** Opens the store again. Throws while that is not possible. */
  reopen: () => Store
  close: (store: Store) => void
  /** Throws when the store is no longer the one that was opened. */
  verify: (store: Store) => void
  /** Throws when the store cannot do its work. */
  probe: (store: Store) => void
  /** Called with every failure that goes through `use`, `tick` or `fail`. */
  onFailure?: (failure: unknown) => void
  say: (sentence: string) => void
}

/** `failures` are those of requests and of verifying, which is done every second. */
export type Health = { works: boolean; failures: number }

/** Supervises a store: `first`, which is open, or `null` if it is to be opened by `tick`. */
export function supervise<Store>(
  first: Store | null,
  { file, reopen, close, verify, probe, onFailure = () => {}, say }: Parts<Store>,
) {
  let store = first
  let generation = 0
  let failures = 0
  let isClosed = false
  /** Why the store is not open, for who asks meanwhile. */
  let lastFailure = `${file} is not open`
  /** Nested uses in progress: only the outermost may close the store. */
  let depth = 0
  /** Sentences that were said since the store last worked: each is said once. */
  const said = new Set<string>()

  function drop(): void {
    const dropped = store
    store = null
    if (dropped !== null) close(dropped)
  }

  /** Reports a failure found elsewhere. */
  function report(failure: unknown): void {
    failures += 1
    const sentence = explain(file, failure)
    lastFailure = sentence
    // Consequences of the first failure are not news, but findings about it are.
    const isNews = failure instanceof StoreError && !said.has(sentence)
    if (said.size === 0 || isNews) say(`${sentence}; answering 503 until that is over`)
    said.add(sentence)
  }

  /** Reports a failure found elsewhere, and closes a store that it made unusable. */
  function fail(failure: unknown): void {
    report(failure)
    onFailure(failure)
    if (isUnusable(failure)) drop()
  }

  function open(): Store {
    const opened = reopen()
    generation += 1
    return opened
  }

  return {
    report,
    fail,
    /** Works with the store. @throws StoreError while it is not open or when it fails. */
    use<T>(work: (store: Store) => T): T {
      if (store === null) throw new StoreError(lastFailure)
      depth += 1
      try {
        return work(store)
      } catch (failure) {
        if (depth > 1) throw failure
        if (isStoreFailure(failure)) fail(failure)
        throw toStoreError(file, failure)
      } finally {
        depth -= 1
      }
    },
    /** Verifies the store, or opens it if it is not open. To be called every second. */
    tick(): void {
      if (isClosed) return
      try {
        store ??= open()
        verify(store)
        if (said.size === 0) return
        probe(store)
        said.clear()
        say(`${file} works again`)
      } catch (failure) {
        fail(failure)
      }
    },
    /** Number of times that `reopen` has succeeded. */
    generation: () => generation,
    /** Whether the store works, as far as is known, and how often it failed so far. */
    health: (): Health => ({ works: store !== null && said.size === 0, failures }),
    close(): void {
      isClosed = true
      drop()
    },
  }
}
