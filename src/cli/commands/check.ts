/** The commands `check` and `check explain`. */
import { createParamsParser } from '../../api/query.ts'
import { memberNames } from '../../api/render.ts'
import { createChecker } from '../../checker/checker.ts'
import { explain } from '../../checker/explain.ts'
import { createProber, SERVICES_AT_ONCE } from '../../checker/probe.ts'
import { readSmtpTarget, readTargets, type Target } from '../../checker/targets.ts'
import { readAs, type Settings } from '../../config/settings.ts'
import { VERSION } from '../../config/version.ts'
import { resolveBySystem } from '../../feeds/fetch.ts'
import { openGeoip } from '../../import/geoip.ts'
import { readAuthorities } from '../../judge/certificate.ts'
import { openSecret } from '../../judge/secret.ts'
import { type Clock, steadyClock, stopwatch, timerLater } from '../../lib/clock.ts'
import { affordableDescriptors } from '../../lib/descriptors.ts'
import { CommandError } from '../../lib/errors.ts'
import { isInternal } from '../../lib/ip.ts'
import { sayOncePerMinute } from '../../lib/log.ts'
import { several } from '../../lib/plural.ts'
import { type Address, parseAddress } from '../../proxies/proxy.ts'
import { idOf } from '../../proxies/row.ts'
import { type Checking, findCandidate, withChecker, withMemoryChecker } from '../../stores.ts'
import { createReport } from '../check-report.ts'
import { readFiles, startFeeds } from '../check-sources.ts'
import { command, DATA_SETTINGS, print, say, yieldToServer } from '../command.ts'
import { printAnswer } from './list.ts'

const CHECK_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['judge', 'judgeTls', 'judgeCa', 'judgeSecret', 'contact', 'rate', 'inFlight'] as const),
  ...(['speedBytes', 'target', 'smtpTarget', 'ownAddress', 'exclude', 'allowPrivate'] as const),
  ...(['dryRun', 'once', 'get', 'feeds', 'feedEvery', 'geoip', 'type', 'map', 'format'] as const),
  ...(['providerService', 'json'] as const),
] as const
type CheckSettings = Settings<(typeof CHECK_SETTINGS)[number]>

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
  const query = createParamsParser(provider)([
    { name: 'time', value: '999999999' }, // any age
    { name: 'get', value: get },
    { name: 'fields', value: memberNames(provider).join() },
  ])
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
