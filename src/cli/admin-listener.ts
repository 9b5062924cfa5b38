/** The admin listener of a server, from its settings to its end. */
import { resolve } from 'node:path'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Settings } from '../config/settings.ts'
import { forProcesses } from '../config/subprocess.ts'
import { type ConsoleParts, createConsole } from '../console.ts'
import type { Attempts } from '../feeds/attempt.ts'
import { type CurrentFeeds, feedsFileOf } from '../feeds/feeds-file.ts'
import { repeat, reportTo } from '../jobs/runner.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import type { Predecessor } from '../lib/take-over.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Served } from '../stores.ts'
import { spawnImport } from './commands/import.ts'

/** A listen address as one name. */
export const nameOf = (where: Listen): string =>
  where.kind === 'unix' ? resolve(where.path) : `${where.hostname}:${where.port}`

/** @throws CommandError (usage) for settings of the admin listener that cannot work. */
export function checkConsole({
  listen,
  adminListen,
  metricsOpen,
}: Settings<'listen' | 'adminListen' | 'metricsOpen'>): void {
  if (adminListen === undefined) {
    if (!metricsOpen) return
    throw new CommandError('--metrics-open is for the admin listener: give --admin-listen, too', 2)
  }
  const isFree = adminListen.kind === 'tcp' && adminListen.port === 0
  if (isFree || nameOf(adminListen) !== nameOf(listen)) return
  throw new CommandError('--admin-listen must be another address than --listen', 2)
}

export function sayWhere(
  { at, shown }: { at: Listen; shown: string },
  log: Pick<Log, 'say'>,
): void {
  log.say(`admin listening on ${shown}`)
  if (at.kind === 'unix' || /^(?:localhost|127\.[\d.]+|::1)$/.test(at.hostname)) return
  log.say('the admin listener is open to other machines, and without TLS: put it behind a tunnel')
}

type Serving = Served & {
  settings: Parameters<typeof forProcesses>[0] &
    Settings<'adminListen' | 'metricsOpen' | 'feeds' | 'data' | 'providerService'>
  feeds: CurrentFeeds
  attempts: Attempts
  clock: Clock
  log: Log
}

/** Starts the admin listener. `close` ends its streams, imports, fetches and ticks. */
export async function startConsole(
  { settings, registry, list, node, observed, feeds, attempts, clock, log }: Serving,
  parts: Pick<ConsoleParts, 'app' | 'attention' | 'tap'>,
  predecessor: Predecessor | null,
) {
  const { adminListen } = settings
  if (adminListen === undefined) return null
  const ended = new AbortController()
  const isSample = node === null && list.kind === 'sample'
  const shownFeeds: ConsoleParts['feeds'] = {
    ...{ feeds, isRunning: attempts.isRunning },
    file: node === null ? feedsFileOf(settings) : null,
    fetchNow(feed) {
      const say = (error: unknown): void => {
        if (!ended.signal.aborted) log.say(`feed ${feed.shown}: ${messageOf(error)}`)
      }
      void attempts.run(feed, ended.signal).catch(say)
    },
  }
  const runImport: ConsoleParts['runImport'] = (upload, fd) =>
    spawnImport({ ...upload, settings: forProcesses(settings) }, fd)
  const admin = createConsole({
    ...{ ...parts, registry, observed, settings, clock, log },
    feeds: isSample ? null : shownFeeds,
    runImport: isSample ? null : runImport,
  })
  const takesOver = predecessor?.running.admin === showListen(adminListen)
  const listening = await admin.listen(adminListen, takesOver).catch(error => {
    admin.close()
    throw error
  })
  const ticks = repeat(() => void admin.tick().catch(reportTo(log)), SECOND_MS)
  return {
    ...listening,
    close(): void {
      ended.abort()
      ticks.stop()
      admin.close()
    },
  }
}
