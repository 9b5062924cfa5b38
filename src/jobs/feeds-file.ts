/**
 * Owns noticing that the file of feeds has changed while a server runs. A file that cannot be used
 * changes nothing. Knows nothing of what is in it.
 */
import { statSync } from 'node:fs'
import type { Feed } from '../feeds/feed.ts'
import type { FeedChanges } from '../feeds/keep.ts'
import { CommandError } from '../lib/errors.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { OnFailure } from './runner.ts'

type FeedsFileOptions = {
  file: string
  /** Reads the feeds. @throws CommandError saying what is wrong with the file. */
  read: () => readonly Feed[]
  /** Makes these the feeds. A failure that is no CommandError is temporary: it is called again. */
  change: (feeds: readonly Feed[]) => Awaitable<FeedChanges>
  say: (sentence: string) => void
  onFailure: OnFailure
}

/** What differs when a file has changed; `''` when there is none. */
function stampOf(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file)
    return `${mtimeMs} ${size} ${ino}`
  } catch {
    return ''
  }
}

function describe(changes: FeedChanges): string {
  const parts = Object.entries(changes).filter(([, count]) => count > 0)
  return parts.map(([what, count]) => `${count} ${what}`).join(', ')
}

/**
 * Returns a tick, which reads the feeds again when their file has changed, and is the same as at the
 * tick before: one that is being written is not read.
 */
export function watchFeedsFile(options: FeedsFileOptions): () => Promise<void> {
  const { file, read, change, say, onFailure } = options
  /** What was read last, unknown at first: the file may have changed since the start. */
  let known: string | null = null
  let seen: string | null = null
  let isBroken = false

  async function readAgain(): Promise<void> {
    try {
      const changes = describe(await change(read()))
      if (changes !== '' || isBroken) say(`${file} was read again: ${changes || 'no feed changed'}`)
      isBroken = false
    } catch (error) {
      if (!(error instanceof CommandError)) {
        known = null
        return onFailure(error)
      }
      isBroken = true
      say(`${error.message}; the feeds stay as they were`)
    }
  }

  return async () => {
    const stamp = stampOf(file)
    const isStable = stamp === seen
    seen = stamp
    if (!isStable || stamp === known) return
    known = stamp
    await readAgain()
  }
}
