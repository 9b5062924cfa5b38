/** Starting the admin listener of `serve`, with the console and the metrics. */
import { resolve } from 'node:path'
import type { createLogTap } from '../admin/live-log.ts'
import type { App } from '../app.ts'
import type { Listen } from '../config/parsers.ts'
import type { Settings } from '../config/settings.ts'
import { linesOf, storeTexts } from '../config/subprocess.ts'
import { createConsole } from '../console.ts'
import { repeat } from '../jobs/runner.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Served } from '../stores.ts'
import type { DATA_SETTINGS } from './command.ts'
import { startImport } from './import-process.ts'

type ConsoleSettings = Settings<
  | (typeof DATA_SETTINGS)[number]
  | ('listen' | 'adminListen' | 'metricsOpen' | 'geoip' | 'providerService')
>

/** What the console shows of a running server, and how it logs. */
type Serving = Served & {
  settings: ConsoleSettings
  clock: Clock
  log: Log
}

const nameOf = (where: Listen): string =>
  where.kind === 'unix' ? resolve(where.path) : `${where.hostname}:${where.port}`

/** @throws CommandError (usage) for settings of the admin listener that cannot work. */
export function checkConsole({ listen, adminListen, metricsOpen }: ConsoleSettings): void {
  if (adminListen === undefined) {
    if (!metricsOpen) return
    throw new CommandError('--metrics-open is for the admin listener: give --admin-listen, too', 2)
  }
  const isFree = adminListen.kind === 'tcp' && adminListen.port === 0
  if (isFree || nameOf(adminListen) !== nameOf(listen)) return
  throw new CommandError('--admin-listen must be another address than --listen', 2)
}

const isLoopback = (where: Listen): boolean =>
  where.kind === 'unix' || /^(?:localhost|127\.[\d.]+|::1)$/.test(where.hostname)

/** Starts the admin listener; `close` ends its streams and imports, and what it does by itself. */
export async function startConsole(
  { settings, registry, list, node, observed, clock, log }: Serving,
  app: App,
  tap: ReturnType<typeof createLogTap>,
) {
  const { geoip, providerService, adminListen } = settings
  if (adminListen === undefined) return null
  const texts = { ...storeTexts(settings), providerService, geoip: linesOf(geoip) }
  const admin = createConsole({
    ...{ app, registry, observed, tap, settings, clock, log },
    runImport:
      node === null && list.kind === 'sample'
        ? null
        : (options, fd) => startImport({ ...options, ...texts }, fd),
  })
  const { server, shown } = await admin.listen(adminListen).catch(error => {
    admin.close()
    throw error
  })
  log.say(`admin listening on ${shown}`)
  if (!isLoopback(adminListen)) {
    log.say('the admin listener is open to other machines, and without TLS: put it behind a tunnel')
  }
  const ticks = repeat(() => void admin.tick(), SECOND_MS)
  return {
    server,
    close(): void {
      ticks.stop()
      admin.close()
    },
  }
}
