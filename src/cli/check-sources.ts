/** The sources of a check: files, and feeds marked `check`. */
import type { createChecker } from '../checker/checker.ts'
import type { Settings } from '../config/settings.ts'
import { forProcesses } from '../config/subprocess.ts'
import { createAttempts } from '../feeds/attempt.ts'
import { candidateAttempts } from '../feeds/candidates.ts'
import type { Feed } from '../feeds/feed.ts'
import { loadCurrentFeeds } from '../feeds/feeds-file.ts'
import { fetchFeeds } from '../feeds/schedule.ts'
import { describeFailure } from '../feeds/store.ts'
import { importSources } from '../import/import.ts'
import { repeat, reportTo } from '../jobs/runner.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { CandidateRow } from '../proxies/proxy.ts'
import type { Checking } from '../stores.ts'
import { attemptsWith } from './commands/feeds.ts'
import { createObserver } from './import-report.ts'
import { toSource } from './sources.ts'

/** Addresses of a file stored in one transaction. A million takes 13 s and 215 MB; with 65,536, 10 s and 412 MB. */
const BATCH = 8_192

type FileSettings = Settings<'format' | 'type' | 'map' | 'providerService'>
type FeedSettings = Parameters<typeof forProcesses>[0] &
  Settings<'data' | 'feeds' | 'feedEvery' | 'providerService' | 'once'>

type Checker = ReturnType<typeof createChecker>

/** Adds the addresses of files, in any format that `import` reads. */
export async function readFiles(
  files: readonly string[],
  settings: FileSettings,
  checker: Checker,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const { format, type, map: mapping, providerService: provider } = settings
  const observer = createObserver(0, false)
  const batch: CandidateRow[] = []
  const flush = (): void => void checker.add(batch.splice(0))
  await importSources(
    files.map(toSource),
    {
      ...{ format, strict: false, signal, mapping },
      defaults: { type, nowMs: clock(), provider, isTypeOptional: true },
    },
    proxy => {
      if (batch.push(proxy) === BATCH) flush()
    },
    { rejected: observer.rejected, empty: observer.empty },
  )
  flush()
  observer.close()
}

/** Reads feeds marked `check`, once or on their schedule. Returns a function that stops it. */
export async function startFeeds(
  settings: FeedSettings,
  checker: Checker,
  openStore: Checking['openFeedStore'],
  log: Pick<Log, 'say' | 'sayRepeated'>,
  clock: Clock,
  signal: AbortSignal,
): Promise<() => void> {
  const feeds = loadCurrentFeeds({ ...settings, feed: undefined }, log.say)
  const forProcess = forProcesses(settings)
  const attempts = createAttempts({
    ...attemptsWith(forProcess, clock),
    ...candidateAttempts(checker.add, forProcess),
    openStore,
  })
  const isOurs = ({ isForChecker }: Feed): boolean => isForChecker
  if (!settings.once) {
    const job = await fetchFeeds({ feeds, attempts, isOurs, keep() {}, clock, say: log.say })
    const reload = repeat(() => void feeds.reload().catch(reportTo(log)), SECOND_MS)
    return () => {
      reload.stop()
      job.stop()
    }
  }
  for (const feed of feeds.current().filter(isOurs)) {
    const state = await attempts.run(feed, signal)
    if (state.error !== '') log.say(describeFailure(state))
  }
  return () => {}
}
