/** Owns `serve`: starts the service, keeps its data in order, and ends it cleanly. */
import { join } from 'node:path'
import sampleRows from '../../data/sample.ndjson' with { type: 'text' }
import { createGuard } from '../access/auth-throttle.ts'
import { createAnswers } from '../api/response-cache.ts'
import { ACCESS_FILE, type List, PROXY_FILE, using } from '../app.ts'
import { serviceManager } from '../config/environment.ts'
import type { Settings } from '../config/settings.ts'
import { createService } from '../http/app.ts'
import { createClientAddress } from '../http/client-ip.ts'
import { listen } from '../http/listen.ts'
import { loadSample } from '../import/sample.ts'
import { createLog, type Log } from '../lib/log.ts'
import { createNotifier } from '../lib/systemd.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { holdList, holdRegistry, holdSample } from '../sqlite/server-stores.ts'
import { command } from './command.ts'

/** How often old proxies and old usage are looked for. */
const SWEEP_EVERY_MS = MINUTE_MS
/** How often the databases are looked after. */
const TEND_EVERY_MS = SECOND_MS
/** How often the sample's check times move on. */
const REFRESH_EVERY_MS = SECOND_MS

const SERVE_SETTINGS = [
  'data',
  'listen',
  'sample',
  'retain',
  'trustProxy',
  'errors',
  'log',
  'grace',
  'cacheBytes',
  'providerService',
] as const
type ServeSettings = Settings<(typeof SERVE_SETTINGS)[number]>

export const serveCommand = command({
  name: 'serve',
  summary: 'run the service until SIGTERM or SIGINT',
  settings: SERVE_SETTINGS,
  example: 'proxylist serve --listen 127.0.0.1:8080 --data /var/lib/proxylist',
  async run({ settings, clock }) {
    const log = createLog(settings.log === 'json')
    const { data, sample, providerService } = settings
    await using(
      join(data, ACCESS_FILE),
      () => holdRegistry(data, log.say),
      registry =>
        using(
          join(data, PROXY_FILE),
          () => (sample ? holdSample() : holdList(data, providerService, log.say)),
          list => serve({ settings, clock, log, registry, list }),
        ),
    )
  },
})

type Serving = {
  settings: ServeSettings
  clock: Clock
  log: Log
  registry: ReturnType<typeof holdRegistry>
  list: ReturnType<typeof holdList> | ReturnType<typeof holdSample>
}

/** Serves until a signal comes. */
async function serve({ settings, clock, log, registry, list }: Serving): Promise<void> {
  const guard = createGuard()
  const manager = await createNotifier(serviceManager(), log.say)
  const tend = (): void => {
    registry.tend()
    list.tend()
  }
  tend()
  const timers = [
    'sample' in list
      ? keepFresh(list.sample, clock)
      : sweep(() => list.removeOlderThan(clock() - settings.retain)),
    sweep(() => registry.removeStale(clock())),
    setInterval(tend, TEND_EVERY_MS),
  ]
  try {
    const service = createService({
      access: registry.access,
      answers: createAnswers({
        select: list.select,
        ...('bulk' in list && { bulk: list.bulk }),
        listVersion: list.version,
        provider: settings.providerService,
        bytesMax: settings.cacheBytes,
      }),
      provider: settings.providerService,
      clock,
      log,
      errors: settings.errors,
      clientAddress: createClientAddress(settings.trustProxy),
      guard,
      probe: () => {
        list.version()
        list.isEmpty()
        registry.probe()
      },
    })
    const { server, shown } = await listen(service, settings.listen)
    log.say(`listening on ${shown}`)
    if (isSure(list.isEmpty)) {
      log.say(`the list is empty; fill it with: proxylist import FILE --data ${settings.data}`)
    }
    if (isSure(() => !registry.hasKeys(clock()))) {
      log.say(`there is no key but demo; make one with: proxylist keys add --data ${settings.data}`)
    }
    manager.ready(`listening on ${shown}`)
    await untilSignal()
    log.say('stopping')
    guard.release()
    manager.stopping('finishing requests in flight')
    await drain(server, settings.grace)
  } finally {
    for (const timer of timers) clearInterval(timer)
    await log.close()
    manager.close()
  }
}

/** Whether something is true; a database that cannot tell now has been told of. */
function isSure(ask: () => boolean): boolean {
  try {
    return ask()
  } catch {
    return false
  }
}

/** Loads the sample and keeps its check times as fresh as they are in the file. */
function keepFresh(list: List, clock: Clock) {
  let freshAtMs = clock()
  loadSample(list, sampleRows, freshAtMs)
  return setInterval(() => {
    const seconds = Math.floor((clock() - freshAtMs) / SECOND_MS)
    freshAtMs += seconds * SECOND_MS
    if (seconds !== 0) list.proxies.shiftChecks(seconds)
  }, REFRESH_EVERY_MS)
}

/** Calls `removeSome` every minute, again in the next turn while it says that more remains. */
function sweep(removeSome: () => boolean) {
  const step = (): void => {
    if (isSure(removeSome)) setTimeout(step, 1)
  }
  step()
  return setInterval(step, SWEEP_EVERY_MS)
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
function untilSignal(): Promise<void> {
  return new Promise(resolve => {
    const signals = ['SIGTERM', 'SIGINT'] as const
    const stop = (): void => {
      for (const signal of signals) process.off(signal, stop)
      resolve()
    }
    for (const signal of signals) process.on(signal, stop)
  })
}

/** The longest a timer can run; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** Finishes what is in flight, for at most `graceMs`; then cuts it. */
async function drain(server: { stop(now?: boolean): Promise<void> }, graceMs: number) {
  const { promise: deadline, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(graceMs, TIMER_MS_MAX))
  await Promise.race([server.stop(), deadline])
  clearTimeout(timer)
  await server.stop(true)
}
