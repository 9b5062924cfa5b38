/**
 * Owns a store that may fail while the server runs: it is opened anew when that can help, and
 * the operator reads one sentence when something is wrong and one when it is over.
 */
import { isDatabaseFailure, Unavailable } from '../api/errors.ts'

export type HandleParts<Store> = {
  /** What the store is, for sentences: the path of its file. */
  name: string
  /** Opens the store once more. Throws while that cannot be done. */
  reopen: () => Store
  close: (store: Store) => void
  /** Throws when the store is not any more what was opened. */
  look: (store: Store) => void
  /** Throws when the store cannot do what it is there for. */
  probe: (store: Store) => void
  /** Whether the store is of no more use after this failure. */
  isWorn: (failure: unknown) => boolean
  explain: (failure: unknown) => string
  say: (sentence: string) => void
}

export type Handle<Store> = {
  /** Works with the store. @throws Unavailable while there is none, and what `work` throws. */
  use<T>(work: (store: Store) => T): T
  /** Looks after the store, and opens it while there is none: call it every second. */
  tend(): void
  /** Tells of a failure that was found elsewhere; `fail` also gives up a store it has worn. */
  report(failure: unknown): void
  fail(failure: unknown): void
  /** How often the store was opened: a number for each. */
  generation(): number
  close(): void
}

/** Holds a store, `first` or none yet. */
export function createHandle<Store>(
  first: Store | null,
  { name, reopen, close, look, probe, isWorn, explain, say }: HandleParts<Store>,
): Handle<Store> {
  let store = first
  let generation = 0
  let isClosed = false
  /** Works under way, one inside the other: only the outermost may lose its store. */
  let depth = 0
  /** What was said since the store last worked: each sentence once. */
  const told = new Set<string>()

  function drop(): void {
    const dropped = store
    store = null
    if (dropped !== null) close(dropped)
  }

  function report(failure: unknown): void {
    const sentence = explain(failure)
    // What follows from the first failure is not news, but what we found out about it is.
    const isNews = failure instanceof Unavailable && !told.has(sentence)
    if (told.size === 0 || isNews) say(`${sentence}; answering 503 until that is over`)
    told.add(sentence)
  }

  function fail(failure: unknown): void {
    report(failure)
    if (isWorn(failure)) drop()
  }

  function open(): Store {
    const opened = reopen()
    generation += 1
    return opened
  }

  return {
    report,
    fail,
    use(work) {
      if (store === null) throw new Unavailable(`${name} is not open`)
      depth += 1
      try {
        return work(store)
      } catch (failure) {
        if (depth === 1 && isDatabaseFailure(failure)) fail(failure)
        throw failure
      } finally {
        depth -= 1
      }
    },
    tend() {
      if (isClosed) return
      try {
        store ??= open()
        look(store)
        if (told.size === 0) return
        probe(store)
        told.clear()
        say(`${name} works again`)
      } catch (failure) {
        fail(failure)
      }
    },
    generation: () => generation,
    close() {
      isClosed = true
      drop()
    },
  }
}
