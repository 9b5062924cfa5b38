/**
 * Feeds marked `check`: their rows are candidates of the checker, and enter the list once they were found to work.
 * The import process of such a feed prints its rows as lines for the checker, and stores nothing.
 */
import type { ProcessSettings } from '../config/subprocess.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, messageOf, nextTurn } from '../lib/errors.ts'
import type { Address, IncomingProxy, ProxyType } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'
import type { AttemptContext } from './attempt.ts'
import type { Feed } from './feed.ts'
import { importInProcess } from './import-feed.ts'

/** The part of a row that the checker does not measure itself. */
export type CandidateRow = Address & {
  /** `null` if the row does not say. */
  type: ProxyType | null
  works: number | null
  /** Unix seconds: of the check that the row reports, or of the import. */
  checkedAt: number
}

/** `isTyped`: the operator gave the type of all rows. */
export const candidateOf = (
  { ip, port, type, isTypeAssumed, works, checkedAt }: IncomingProxy,
  isTyped: boolean,
): CandidateRow => ({
  ...{ ip, port, works, checkedAt },
  type: isTypeAssumed && !isTyped ? null : type,
})

/** Rows of a line: the checker stores them in some milliseconds. */
const LINE_ROWS = 500

/** An import that writes the rows of a feed as lines of JSON. */
export function candidateImport(feed: Feed, write: (line: string) => Promise<void>): ImportTx {
  const rows: CandidateRow[] = []
  async function flush(): Promise<void> {
    while (rows.length > 0) await write(`${JSON.stringify(rows.splice(0, LINE_ROWS))}\n`)
  }
  return {
    async lock() {},
    add(proxy) {
      rows.push(candidateOf(proxy, feed.type !== undefined))
    },
    lower() {},
    drained: flush,
    async commit() {
      await flush()
      return { added: 0, updated: 0, unchanged: 0, removed: 0 }
    },
    rollback() {},
  }
}

/**
 * The part of an `AttemptContext` that gives the rows of such feeds to `take`. The first attempt at a feed reads all rows, because the checker may have forgotten them.
 */
export function candidateAttempts(
  take: (rows: readonly CandidateRow[]) => Awaitable<unknown>,
  settings: ProcessSettings,
  program?: readonly string[],
): Pick<AttemptContext, 'readList' | 'runImport' | 'settings'> {
  const mark = crypto.randomUUID() // no state has it yet
  return {
    settings,
    readList: () => ({ isEmpty: false, mark }),
    runImport(task, fd, signal) {
      const failed = new AbortController()
      const onLine = async (line: string): Promise<void> => {
        if (failed.signal.aborted) return
        try {
          await take(JSON.parse(line))
          await nextTurn()
        } catch (error) {
          failed.abort(new CommandError(messageOf(error)))
        }
      }
      const either = AbortSignal.any([signal, failed.signal])
      return importInProcess({ ...task, settings }, fd, either, { onLine, program })
    },
  }
}
