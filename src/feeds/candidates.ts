/** Feeds marked `check`: their rows go to the checker, which adds the working ones to the list. */
import type { ProcessSettings } from '../config/subprocess.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, messageOf, nextTurn } from '../lib/errors.ts'
import type { CandidateRow } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'
import type { AttemptContext } from './attempt.ts'
import { importFeedInChild } from './import-feed.ts'

/** Rows in a line. The checker stores them in a few milliseconds. */
const LINE_ROWS = 500

/** An import that writes the rows of a feed as lines of JSON, instead of storing them. */
export function candidateImport(write: (line: string) => Promise<void>): ImportTx {
  const rows: CandidateRow[] = []
  async function flush(): Promise<void> {
    while (rows.length > 0) await write(`${JSON.stringify(rows.splice(0, LINE_ROWS))}\n`)
  }
  return {
    async lock() {},
    add({ ip, port, types, works, checkedAt }) {
      rows.push({ ip, port, types, works, checkedAt })
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

/** Passes rows of feeds marked `check` to `take`. The first attempt always imports: the checker may lack rows. */
export function candidateAttempts(
  take: (rows: readonly CandidateRow[]) => Awaitable<unknown>,
  settings: ProcessSettings,
  program?: readonly string[],
): Pick<AttemptContext, 'readList' | 'importFeed' | 'settings'> {
  const mark = crypto.randomUUID() // no saved state has it, so each feed counts as changed once
  return {
    settings,
    readList: () => ({ isEmpty: false, mark }),
    importFeed(task, fd, signal) {
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
      return importFeedInChild({ ...task, settings }, fd, either, { onLine, program })
    },
  }
}
