/** Owns importing a feed into the list of a data directory, in one step or not at all. */

import type { Settings } from '../../config/settings.ts'
import type { Imported } from '../../feeds/attempt.ts'
import { type Feed, inFeedLine } from '../../feeds/feed.ts'
import { shrinkProblem } from '../../import/guard.ts'
import { importSources, type Source } from '../../import/import.ts'
import type { Clock } from '../../lib/clock.ts'
import { CommandError } from '../../lib/errors.ts'
import type { ListSizes, ProxyWriter } from '../../proxies/store.ts'
import type { Stores } from '../../stores.ts'
import { say } from '../command.ts'
import { openGeoip } from './geoip.ts'

/** Rejected rows that are reported one by one. */
const NAMED_REJECTIONS = 20

export type FeedImportSettings = Settings<'geoip' | 'providerService'> & {
  stores: Stores
  /** Most bytes of a source when it is decompressed. */
  bytesMax: number
}

/** Names rejected rows on stderr, which is that of `fetch`. */
function createObserver() {
  let left = NAMED_REJECTIONS
  return {
    progress() {},
    ignored() {},
    rejected(file: string, line: number, field: string, reason: string): void {
      if (left > 0) say(`${file}:${line}: ${field} ${inFeedLine(reason)}`)
      left -= 1
    },
  }
}

/** Refuses to replace the list by one that is much smaller. */
function approveSizes(sizes: ListSizes): void {
  const problem = shrinkProblem(sizes)
  if (problem !== null) throw new CommandError(problem)
}

/** @throws CommandError when the list stays as it was, and why. */
export function importFeed(
  feed: Feed,
  sources: readonly Source[],
  { stores, geoip, providerService: provider, bytesMax }: FeedImportSettings,
  clock: Clock,
  signal: AbortSignal,
): Promise<Imported> {
  const place = openGeoip(geoip)
  const importInto = async (list: Pick<ProxyWriter, 'begin'>): Promise<Imported> => {
    const importTx = list.begin(feed.replaces ? 'replace' : 'merge')
    const options = {
      ...{ format: feed.format, mapping: feed.mapping, strict: false, bytesMax, signal },
      defaults: { type: feed.type, nowMs: clock(), provider, pingUnit: feed.pingUnit },
      beforeRows: () => importTx.lock(signal),
      drained: importTx.drained,
    }
    try {
      const { read, rejected } = await importSources(
        sources,
        options,
        proxy => importTx.add(place(proxy)),
        createObserver(),
      )
      if (read === rejected) throw new CommandError('holds no proxy')
      await importTx.commit(approveSizes)
      return { rows: read - rejected, rejected }
    } catch (error) {
      await importTx.rollback()
      throw error
    }
  }
  return feed.replaces
    ? stores.withListToReplace(importInto, { onDamage: say, onWait() {} }, signal)
    : stores.withList(importInto)
}
