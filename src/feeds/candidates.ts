/**
 * Feeds marked `check`: their rows are candidates of the checker, and enter the list once they were found alive. A
 * process reads such a feed, as it does for a server, and passes its rows on as lines; so a feed that is large,
 * slow or broken keeps no check waiting.
 */
import type { ProcessSettings } from '../config/subprocess.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { messageOf, nextTurn } from '../lib/errors.ts'
import type { Address, IncomingProxy, ProxyType } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'
import { type AttemptContext, type AttemptResult, attemptInProcess } from './attempt.ts'
import type { Feed } from './feed.ts'
import type { FeedState } from './store.ts'

/** What a row says that the checker will measure. */
export type CandidateRow = Address & {
  /** `null`: it says none. */
  type: ProxyType | null
  works: number | null
  /** Unix seconds: of the check that it reports, else of the import. */
  checkedAt: number
}

/** What is taken of a row; `isTyped`: it would not be assumed what its type is. */
export const candidateOf = (
  { ip, port, type, isTypeAssumed, works, checkedAt }: IncomingProxy,
  isTyped: boolean,
): CandidateRow => ({
  ...{ ip, port, works, checkedAt },
  type: isTypeAssumed && !isTyped ? null : type,
})

/** Rows of a line: the checker stores them in some milliseconds. */
const LINE_ROWS = 500

/** A list that stores nothing: it writes the rows of a feed as lines of JSON. */
export function candidateList(write: (line: string) => Promise<void>): AttemptContext['list'] {
  const rows: CandidateRow[] = []
  let isTyped = false
  async function flush(): Promise<void> {
    while (rows.length > 0) await write(`${JSON.stringify(rows.splice(0, LINE_ROWS))}\n`)
  }
  const importTx: ImportTx = {
    async lock() {},
    add(proxy) {
      rows.push(candidateOf(proxy, isTyped))
    },
    lower() {},
    drained: flush,
    async commit() {
      await flush()
      return { added: 0, updated: 0, unchanged: 0, removed: 0 }
    },
    rollback() {},
  }
  return {
    state: async () => ({ isEmpty: false, mark: '' }),
    change(feed, work) {
      isTyped = feed.type !== undefined
      return work({ begin: () => importTx, importMark: () => '' })
    },
  }
}

/**
 * Makes attempts at such feeds for `createAttempts`. `take` is given their rows and returns how many were new.
 * The first attempt at a feed reads all of it: nobody knows what is left of its rows.
 */
export function createCandidateAttempts(
  take: (rows: readonly CandidateRow[]) => Awaitable<number>,
  settings: ProcessSettings,
  program?: readonly string[],
) {
  const read = new Set<string>()
  return async (feed: Feed, before: FeedState, signal: AbortSignal): Promise<AttemptResult> => {
    const ended = new AbortController()
    let added = 0
    let failure: unknown = null
    const onLine = async (line: string): Promise<void> => {
      if (ended.signal.aborted) return
      try {
        added += await take(JSON.parse(line))
        await nextTurn()
      } catch (error) {
        failure = error
        ended.abort()
      }
    }
    const known = read.has(feed.id) ? before : { ...before, options: '' }
    const either = AbortSignal.any([signal, ended.signal])
    const task = { feed, before: known, settings }
    try {
      const result = await attemptInProcess(task, either, { onLine, program })
      if (result.kind === 'failed') return result
      read.add(feed.id)
      return result.kind === 'imported' ? { ...result, changes: { added, updated: 0 } } : result
    } catch (error) {
      if (signal.aborted || !ended.signal.aborted) throw error
      return { kind: 'failed', error: messageOf(failure), retryAfterMs: null }
    }
  }
}
