/**
 * The worker that copies much of the list from the database into the data directory, with a low
 * priority: requests do not notice, and keys are followed meanwhile.
 */
import { stopwatch } from '../lib/clock.ts'
import { messageOf, StoreError } from '../lib/errors.ts'
import { lowerPriority } from '../lib/worker.ts'
import { openListCopy } from '../sqlite/copy/list.ts'
import type { ListChanges } from './ports.ts'
import { type Copied, type CopyTask, openSource } from './workers.ts'

declare const self: Worker

/** A copy that gets nothing from the database for so long is given up. */
const STALLED_MS = 30_000
const EXAMINE_EVERY_MS = 1_000

/** The pages of `source`; `onPage` is called for each. */
async function* noted<T>(source: AsyncIterable<T>, onPage: () => void): AsyncGenerator<T> {
  for await (const page of source) {
    onPage()
    yield page
  }
}

async function copy(data: CopyTask): Promise<void> {
  const { source, close } = openSource(data, null)
  const list = openListCopy(data.dir)
  const elapsedMs = stopwatch()
  const { promise: stalled, reject } = Promise.withResolvers<never>()
  let heardMs = elapsedMs()
  const onPage = (): void => {
    heardMs = elapsedMs()
  }
  const timer = setInterval(() => {
    if (elapsedMs() - heardMs < STALLED_MS) return
    void close() // rejects what is under way
    reject(new StoreError('the database sends nothing of the list any more'))
  }, EXAMINE_EVERY_MS)
  const apply = (changes: ListChanges): Promise<void> => {
    onPage()
    const { removed, rows } = changes
    return list.apply({ ...changes, removed: noted(removed, onPage), rows: noted(rows, onPage) })
  }
  try {
    await Promise.race([source.readList(list.version(), apply), stalled])
  } finally {
    clearInterval(timer)
    list.close()
    await close()
  }
}

self.onmessage = ({ data }: MessageEvent<CopyTask>) => {
  lowerPriority()
  const end = (copied: Copied): void => self.postMessage(copied)
  copy(data).then(
    () => end({ kind: 'done' }),
    error => end({ kind: 'failed', message: messageOf(error) }),
  )
}
