/** The commands `check` and `check explain`. */
import { createParamsParser } from '../../api/query.ts'
import { createChecker } from '../../checker/checker.ts'
import { explain } from '../../checker/explain.ts'
import type { CheckerStatus } from '../../checker/ports.ts'
import { createProber, SERVICES_AT_ONCE } from '../../checker/probe.ts'
import { readSmtpTarget, readTargets, type Target } from '../../checker/targets.ts'
import { readAs, type Settings } from '../../config/settings.ts'
import { forProcesses } from '../../config/subprocess.ts'
import { VERSION } from '../../config/version.ts'
import { createAttempts } from '../../feeds/attempt.ts'
import { type CandidateRow, candidateAttempts, candidateOf } from '../../feeds/candidates.ts'
import type { Feed } from '../../feeds/feed.ts'
import { loadCurrentFeeds } from '../../feeds/feeds-file.ts'
import { resolveBySystem } from '../../feeds/fetch.ts'
import { fetchFeeds } from '../../feeds/schedule.ts'
import { describeFailure } from '../../feeds/store.ts'
import { openGeoip } from '../../import/geoip.ts'
import { importSources } from '../../import/import.ts'
import { repeat, reportTo } from '../../jobs/runner.ts'
import { readAuthorities } from '../../judge/certificate.ts'
import { openSecret } from '../../judge/secret.ts'
import { type Clock, steadyClock, stopwatch, timerLater } from '../../lib/clock.ts'
import { affordableDescriptors } from '../../lib/descriptors.ts'
import { CommandError } from '../../lib/errors.ts'
import { isInternal } from '../../lib/ip.ts'
import { type Log, sayOncePerMinute } from '../../lib/log.ts'
import { formatCount, several } from '../../lib/plural.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { type Address, parseAddress } from '../../proxies/proxy.ts'
import { idOf } from '../../proxies/row.ts'
import { type Checking, findCandidate, withChecker, withMemoryChecker } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say, yieldToServer } from '../command.ts'
import { createObserver } from '../import-report.ts'
import { createProgress } from '../progress.ts'
import { toSource } from '../sources.ts'
import { attemptsWith } from './feeds.ts'
import { printAnswer } from './list.ts'

const CHECK_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['judge', 'judgeTls', 'judgeCa', 'judgeSecret', 'contact', 'rate', 'inFlight'] as const),
  ...(['speedBytes', 'target', 'smtpTarget', 'ownAddress', 'exclude', 'allowPrivate'] as const),
  ...(['dryRun', 'once', 'get', 'feeds', 'feedEvery', 'geoip', 'type', 'map', 'format'] as const),
  ...(['providerService', 'json'] as const),
] as const
type CheckSettings = Settings<(typeof CHECK_SETTINGS)[number]>

/** Addresses of a file stored in one transaction. A million takes 13 s and 215 MB; with 65,536, 10 s and 412 MB. */
const BATCH = 8_192
/** The members of the lines of `--json`. */
const FIGURES = ['checked', 'alive', 'deferred', 'rate', 'coverage']
/** The interval of lines. */
const LINE_MS = 10 * SECOND_MS

/** @throws CommandError (usage) when a required setting is missing. */
function requireSettings({ judge, contact, judgeSecret, ...rest }: CheckSettings) {
  const missing = (what: string): never => {
    throw new CommandError(what, 2)
  }
  return {
    judge: judge ?? missing('--judge URL is required; run one on a public server: proxylist judge'),
    contact:
      contact ??
      missing('--contact URL is required: owners of checked addresses see it, and can reach you'),
    judgeSecret:
      judgeSecret ?? missing("--judge-secret FILE is required, a copy of the judge's file"),
    ...rest,
  }
}

/** The services to test. @throws CommandError (usage) */
function targetsOf({ target = '', smtpTarget, providerService }: CheckSettings): Target[] {
  const mail =
    smtpTarget === undefined ? [] : [readAs('--smtp-target', () => readSmtpTarget(smtpTarget))]
  return [...readAs('--target', () => readTargets(target, providerService)), ...mail]
}

/** Reports progress: a bar on a terminal, else a line every ten seconds. With `json` always lines, of JSON. */
function createReport(json: boolean, elapsedMs: () => number) {
  const bar =
    'checked {checked}, alive {alive}, deferred {deferred}, {rate}/s, {coverage}% of the living fresh, {megabytes} MB'
  const hasBar = process.stderr.isTTY && !json
  const progress = hasBar ? createProgress(bar, 0, elapsedMs) : null
  let saidMs = 0
  let last: CheckerStatus | null = null
  function sayLine(): void {
    if (last === null) return
    const { checked, alive, deferred } = last
    if (json) say(JSON.stringify(last, FIGURES))
    else
      say(
        `checked ${formatCount(checked)}, alive ${formatCount(alive)}, deferred ${formatCount(deferred)}`,
      )
  }
  return {
    say(sentence: string): void {
      progress?.clear()
      say(sentence)
    },
    status(status: CheckerStatus): void {
      last = status
      const { checked, alive, deferred, rate } = status
      const coverage = Math.round((status.coverage ?? 0) * 100)
      const megabytes = Math.round(status.bytes / 2 ** 20)
      progress?.update(0, { checked, alive, deferred, rate, coverage, megabytes })
      if (hasBar || elapsedMs() - saidMs < LINE_MS) return
      saidMs = elapsedMs()
      sayLine()
    },
    end(): void {
      progress?.clear()
      sayLine()
    },
  }
}

type Checker = ReturnType<typeof createChecker>

/** Adds the addresses of files, in any format that `import` reads. */
async function readFiles(
  files: readonly string[],
  settings: CheckSettings,
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
      defaults: { type, nowMs: clock(), provider },
      fallbackType: 'http', // the checker tries it first
    },
    proxy => {
      if (batch.push(candidateOf(proxy, type !== undefined)) === BATCH) flush()
    },
    { rejected: observer.rejected, empty: observer.empty },
  )
  flush()
  observer.close()
}

/** Reads feeds marked `check`, once or on their schedule. Returns a function that stops it. */
async function startFeeds(
  settings: CheckSettings,
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

async function check(
  settings: CheckSettings,
  files: readonly string[],
  isWithoutData: boolean,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const { judge, contact, judgeSecret, json, once, dryRun } = requireSettings(settings)
  const targets = targetsOf(settings)
  const authorities = settings.judgeCa && (await readAuthorities(settings.judgeCa))
  const placing = await openGeoip(settings.geoip)
  if ((isWithoutData || dryRun) && settings.feeds !== undefined) {
    throw new CommandError('--feeds requires --data DIR for its state, and excludes --dry-run', 2)
  }
  const { keys, isNew } = await openSecret(judgeSecret)
  if (isNew) say(`created a secret in ${judgeSecret}: the judge needs the same file`)
  const elapsedMs = stopwatch()
  const report = createReport(json, elapsedMs)
  const log = { say: report.say, sayRepeated: sayOncePerMinute(report.say) }
  const { probe, selfCheck } = createProber({
    ...{ keys, clock: steadyClock(clock), elapsedMs, later: timerLater, targets, authorities },
    resolve: resolveBySystem,
    userAgent: `proxylist-check/${VERSION} (+${new URL(contact).href})`,
    judge: { plain: judge, tls: settings.judgeTls ?? null },
    ownAddresses: settings.ownAddress,
    allowsPrivate: settings.allowPrivate,
  })

  let refused = 0
  function accepts({ ip }: Address): boolean {
    const isRefused = !settings.allowPrivate && isInternal(ip)
    if (isRefused) refused += 1
    return !isRefused && !settings.exclude?.check(ip)
  }

  async function work({ store, status, list, openFeedStore }: Parts): Promise<void> {
    const sockets = Math.max(1, Math.min(SERVICES_AT_ONCE, targets.length)) // of a check
    const affordable = affordableDescriptors(settings.inFlight * sockets)
    const inFlightMax = Math.max(1, Math.floor(affordable / sockets))
    if (inFlightMax < settings.inFlight)
      report.say(`only ${inFlightMax} checks at a time: raise LimitNOFILE or ulimit -n`)
    const checker = createChecker({
      ...{ store, status, list, probe, selfCheck, clock, elapsedMs, log, once, placing, accepts },
      ...{ later: timerLater, random: Math.random, onStatus: report.status },
      perSecond: settings.rate,
      inFlightMax,
      speedBytesADay: settings.speedBytes,
    })
    if (files.length > 0) await readFiles(files, settings, checker, clock, signal)
    if (refused > 0) {
      const those = several(refused, 'private address', 'private addresses')
      report.say(`skipping ${those}: see --allow-private`)
    }
    const stopFeeds =
      openFeedStore && (await startFeeds(settings, checker, openFeedStore, log, clock, signal))
    try {
      await checker.run(signal)
    } finally {
      stopFeeds?.()
      report.end()
    }
  }

  if (!isWithoutData && !dryRun) {
    return await withChecker(settings, clock, work)
  }
  const { get, providerService: provider } = settings
  const anyAge = { name: 'time', value: '999999999' }
  const query = createParamsParser(provider)([anyAge, { name: 'get', value: get }])
  await withMemoryChecker(clock, async parts => {
    await work({ ...parts, openFeedStore: null })
    if (dryRun) return
    // An interrupted run prints all of its results.
    const until = signal.aborted ? new AbortController().signal : signal
    await printAnswer(parts.list, { query, nowMs: clock(), provider, mayBeEmpty: true }, until)
  })
}

/** The stores of a checker. It has no feeds without a data directory. */
type Parts = Pick<Checking, 'store' | 'status' | 'list'> & {
  openFeedStore: Checking['openFeedStore'] | null
}

const checkCommand = command({
  name: 'check',
  summary: 'check proxies of files, feeds and the list with your own judge, until stopped',
  arguments: '[file...]',
  settings: CHECK_SETTINGS,
  example:
    'proxylist check addresses.txt --judge http://judge.example.com --contact https://example.com/us',
  endsAtSignal: 'by itself',
  kept: 'the results are in the list, or printed',
  async run({ settings, args, isGiven, clock, signal }) {
    yieldToServer()
    const isWithoutData =
      settings.once && args.length > 0 && !isGiven('data') && !isGiven('database')
    if (isGiven('get') && !isWithoutData) {
      throw new CommandError('--get requires --once FILE without --data', 2)
    }
    try {
      await check(settings, args, isWithoutData, clock, signal)
    } catch (error) {
      if (settings.once || error !== signal.reason) throw error
    }
    if (settings.once) signal.throwIfAborted()
  },
})

const explainCommand = command({
  name: 'check explain',
  summary: 'show the last checks of an address and their conclusion',
  arguments: '<ip:port>',
  settings: ['data'],
  example: 'proxylist check explain 203.0.113.7:1080',
  async run({ settings: { data }, args: [text = ''], clock }) {
    const address = parseAddress(text)
    if (address === null) throw new CommandError('the address must be a.b.c.d:port', 2)
    const candidate = findCandidate(data, idOf(address))
    if (candidate === null) {
      return await print(`${text} is not known to the checker of ${data}\n`)
    }
    await print(`${explain(candidate, clock()).join('\n')}\n`)
  },
})

export const CHECK_COMMANDS = [checkCommand, explainCommand]
