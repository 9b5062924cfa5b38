/**
 * The loop of the checker (contract H4, H5). A check goes through these files: `queue.ts` finds an address; `probe.ts`
 * checks it, with `judge-client.ts`, `dial.ts`, `response.ts`, `classify.ts` and `targets.ts`; this file confirms a
 * failure; `results.ts` writes the result to the list; `candidate.ts` remembers it and sets the time of the next check.
 */
import type { Clock, SetTimer } from '../lib/clock.ts'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { formatCount } from '../lib/plural.ts'
import { SECOND_MS, utcDay } from '../lib/time.ts'
import { RECENT_MS } from '../proxies/freshness.ts'
import type { Address, IncomingProxy } from '../proxies/proxy.ts'
import { toAddress } from '../proxies/row.ts'
import { typesOf } from '../proxies/types.ts'
import { isRareDue } from './candidate.ts'
import type {
  Candidate,
  CandidateStore,
  CheckerList,
  CheckerStatus,
  CheckerStatusStore,
  CheckRequest,
  CheckResult,
  Ledger,
  SelfCheck,
} from './ports.ts'
import { createQueue, neededRate } from './queue.ts'
import {
  candidateAfter,
  createResults,
  type FinishedCheck,
  PING_LAG_MS_MAX,
  type RunningCheck,
} from './results.ts'

/** The interval at which checks start. A late timer also shows that the program lags. */
const SLICE_MS = 25
const SELF_CHECK_MS = 30 * SECOND_MS
/** The interval while the judge is away, or while many failures wait for a self-check. */
const SELF_CHECK_SOON_MS = 5 * SECOND_MS
const MANY_FAILURES = 1_000
/** How exactly the checker knows when the judge started. */
const JUDGE_START_MS = SECOND_MS
/** While this program lags for longer, it may miss answers that came in time. */
const LAG_MS_MAX = SECOND_MS / 2
/** No check starts while more results wait, for example because an import has locked the list. */
const RESULTS_MAX = 5_000
const RATE_SECONDS = 60
/** A measurement of speed takes 64 KiB, then 256 KiB. */
const SPEED_BYTES = 320 * 1024

export type CheckerOptions = {
  store: CandidateStore
  status: Pick<CheckerStatusStore, 'write'>
  list: CheckerList
  /** Checks one address. Neither this nor `selfCheck` rejects. */
  probe: (request: CheckRequest) => Promise<CheckResult>
  selfCheck: () => Promise<SelfCheck>
  clock: Clock
  elapsedMs: () => number
  later: SetTimer
  random: () => number
  log: Pick<Log, 'say' | 'sayRepeated'>
  perSecond: number
  inFlightMax: number
  /** The budget for measuring speeds; 0: never measure. */
  speedBytesADay: number
  accepts: (address: Address) => boolean
  /** End when each due address was checked once. */
  once: boolean
  placing: (proxy: IncomingProxy) => IncomingProxy
  onStatus?: (status: CheckerStatus) => void
  sliceMs?: number
}

export function createChecker(options: CheckerOptions) {
  const { store, list, clock, elapsedMs, later, log, once } = options
  const { perSecond, inFlightMax, accepts, placing, random, sliceMs = SLICE_MS } = options

  // The schedule has a clock that never steps: nothing changes when the machine's clock is set.
  const startedMs = clock()
  const originMs = startedMs - elapsedMs()
  const now = (): number => Math.round(originMs + elapsedMs())

  const ledger: Ledger = store.ledger() ?? { day: 0, speedBytes: 0 }
  const queue = createQueue({ store, list, now, perSecond, inFlightMax, once, accepts })
  const results = createResults({ store, list, onWait, placing, random, perSecond })

  const stopping = new AbortController()
  const ended = Promise.withResolvers<void>()
  const counts = { checked: 0, alive: 0, deferred: 0, bytes: 0 }
  const startsBySecond = [0]
  const running = new Set<RunningCheck>()
  /** Checks that ended since the last slice. A lag that the next slice notices may have delayed them. */
  let justEnded: RunningCheck[] = []
  let speedsRunning = 0

  /** Does work that the next second repeats. A `StoreError`, such as a full disk, is logged; others end the checker. */
  async function attempt(work: () => Promise<void> | void): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (stopping.signal.aborted) return
      if (error instanceof StoreError) log.sayRepeated(messageOf(error))
      else end(error)
    }
  }

  function end(error?: unknown): void {
    stopping.abort()
    if (error === undefined) ended.resolve()
    else ended.reject(error)
  }

  // -----------------------------------------------------------------------------------------------
  // One check

  /**
   * What to measure. A proxy whose last failure was an altered payload needs a measurement of speed, or it would be
   * found alive. Returns `null` when today's budget has no bytes left for it.
   */
  function requestFor(candidate: Candidate, nowMs: number): CheckRequest | null {
    const { named, measured, speedMs, servicesMs, tlsMs, history } = candidate
    const isLiving = candidate.queue === 'living'
    const hasLied = !isLiving && history[0]?.attempts.at(-1)?.purpose === 'speed'
    const spent = ledger.speedBytes + (speedsRunning + 1) * SPEED_BYTES
    const isInBudget = spent <= options.speedBytesADay
    if (hasLied && !isInBudget && options.speedBytesADay > 0) return null
    return {
      address: toAddress(candidate.id),
      known: measured?.type ?? typesOf(named)[0] ?? null,
      named,
      wantsSpeed: (isLiving || hasLied) && isInBudget && isRareDue(speedMs, nowMs),
      wantsServices: isRareDue(servicesMs, nowMs),
      wantsTls: isRareDue(tlsMs, nowMs),
    }
  }

  function defer(id: number): void {
    counts.deferred += 1
    queue.defer(id)
  }

  function startChecks(nowMs: number): void {
    if (answersSinceMs === null || results.waiting() >= RESULTS_MAX) return
    for (let id = queue.next(nowMs); id !== null; id = queue.next(nowMs)) start(id, nowMs)
  }

  function start(id: number, nowMs: number): void {
    if (!accepts(toAddress(id))) return results.forget(id)
    let candidate: Candidate | null
    try {
      candidate = store.find(id)
    } catch (error) {
      queue.defer(id)
      throw error
    }
    if (candidate === null) return // only this process writes to the store
    const request = requestFor(candidate, nowMs)
    if (request === null) return defer(id)
    const check = { candidate, request, startedMs: nowMs, lagMs: 0 }
    running.add(check)
    queue.start(id, nowMs)
    if (request.wantsSpeed) speedsRunning += 1
    counts.checked += 1
    startsBySecond[startsBySecond.length - 1] = (startsBySecond.at(-1) ?? 0) + 1
    void options
      .probe(request)
      .then(result => finish(check, result))
      .catch(end)
  }

  function finish(check: RunningCheck, result: CheckResult): void {
    if (stopping.signal.aborted) return
    const { id } = check.candidate
    running.delete(check)
    justEnded.push(check)
    queue.end(id)
    counts.bytes += result.bytes
    if (check.request.wantsSpeed) {
      speedsRunning -= 1
      ledger.speedBytes += result.bytes
    }
    if (result.kind === 'deferred') {
      log.sayRepeated(`checks are deferred: ${result.why}`)
      return defer(id)
    }
    const finished = Object.assign(check, { endedMs: now(), at: clock(), result })
    if (result.kind === 'alive') {
      counts.alive += 1
      return results.add(finished)
    }
    unconfirmed.push(finished)
    queue.repeatAt(id, candidateAfter(finished, 0).nextAtMs)
  }

  // -----------------------------------------------------------------------------------------------
  // The judge. A failure counts if a self-check that began after it succeeds, the judge was not away or restarted since
  // the check started, and this program did not lag (contract H2, H5). Until the self-check, the failure waits.

  let unconfirmed: FinishedCheck[] = []
  let judgeProblem: CheckerStatus['judgeProblem'] = null
  /** Since when the judge answers; `null` while it does not: no check starts. */
  let answersSinceMs: number | null = null
  let hasAnswered = false
  let isAsking = false
  let askedMs = Number.NEGATIVE_INFINITY

  async function askJudge(): Promise<void> {
    isAsking = true
    askedMs = now()
    const found = await options.selfCheck()
    isAsking = false
    if (stopping.signal.aborted) return
    if (found.ok) return confirmFailures(found.runsForMs)
    const { problem } = found
    if (once && !hasAnswered) return end(new CommandError(problem))
    if (problem !== judgeProblem?.sentence) log.say(`${problem}; nothing is checked meanwhile`)
    judgeProblem = { sentence: problem, sinceMs: judgeProblem?.sinceMs ?? now() }
    answersSinceMs = null
    for (const { candidate } of unconfirmed.splice(0)) defer(candidate.id)
  }

  function confirmFailures(judgeRunsForMs: number): void {
    if (judgeProblem !== null) log.say('the judge answers again')
    judgeProblem = null
    hasAnswered = true
    const nowMs = now()
    answersSinceMs ??= nowMs
    const sinceMs = Math.max(answersSinceMs, nowMs - judgeRunsForMs + JUDGE_START_MS)
    const decided = unconfirmed.filter(({ endedMs }) => endedMs < askedMs)
    unconfirmed = unconfirmed.filter(({ endedMs }) => endedMs >= askedMs)
    for (const check of decided) {
      if (check.startedMs >= sinceMs && check.lagMs <= LAG_MS_MAX) results.add(check)
      else defer(check.candidate.id)
    }
  }

  function askJudgeWhenDue(nowMs: number): void {
    const waiting = unconfirmed.length
    const isLast = once && running.size === 0 && waiting > 0 && queue.isEmpty()
    const isSoon = judgeProblem !== null || waiting >= MANY_FAILURES
    const waitMs = isSoon ? SELF_CHECK_SOON_MS : SELF_CHECK_MS
    if (!isAsking && (isLast || nowMs - askedMs >= waitMs)) void askJudge().catch(end)
  }

  // -----------------------------------------------------------------------------------------------
  // Once a second

  let writing: Promise<void> | null = null
  function write(signal?: AbortSignal): Promise<void> {
    writing ??= results
      .write(queue.postponed(), { ...ledger }, signal)
      .then(batch => void (batch && queue.saved(batch)))
      .finally(() => {
        writing = null
      })
    return writing
  }

  let saidSlow = false
  async function publish(): Promise<void> {
    const queues = store.counts()
    const { living } = queues
    const needed = neededRate(living, perSecond)
    const whole = startsBySecond.slice(0, -1)
    const starts = whole.reduce((sum, count) => sum + count, 0)
    const status: CheckerStatus = {
      ...{ at: clock(), startedMs, once, judgeProblem, queues, ...counts },
      failures: { ...results.failures },
      rate: Math.round((100 * starts) / Math.max(1, whole.length)) / 100,
      coverage: living === 0 ? null : store.freshSince(now() - RECENT_MS) / living,
      lagSeconds: Math.round(store.lagMs(now()) / SECOND_MS),
      neededRate: needed,
    }
    if (needed !== null && !saidSlow) {
      const name = `the ${formatCount(living)} living`
      log.say(`the rate of ${perSecond}/s cannot keep ${name} fresh: ${needed}/s would`)
    }
    saidSlow = needed !== null
    options.onStatus?.(status)
    await options.status.write(status)
  }

  function everySecond(nowMs: number): void {
    const day = utcDay(nowMs)
    if (day !== ledger.day) Object.assign(ledger, { day, speedBytes: 0 })
    if (startsBySecond.push(0) > RATE_SECONDS + 1) startsBySecond.shift()
    void attempt(() => queue.readList(stopping.signal))
    void attempt(() => write(stopping.signal))
    void attempt(() => queue.refill(nowMs))
    void attempt(publish)
    if (once && isOver()) end()
  }

  const isOver = (): boolean =>
    queue.isListRead() &&
    running.size + results.waiting() + unconfirmed.length === 0 &&
    queue.isEmpty()

  // -----------------------------------------------------------------------------------------------
  // From start to end

  let slicedMs = elapsedMs()
  let nextSecondMs = 0
  let cancel = (): void => {}

  function runSlice(): void {
    if (stopping.signal.aborted) return
    const nowMs = now()
    const passedMs = elapsedMs() - slicedMs
    slicedMs += passedMs
    const lagMs = passedMs - sliceMs
    if (lagMs > PING_LAG_MS_MAX) {
      for (const check of [...running, ...justEnded]) check.lagMs = Math.max(check.lagMs, lagMs)
    }
    justEnded = []
    queue.addCredit(passedMs)
    void attempt(() => {
      askJudgeWhenDue(nowMs)
      if (nowMs >= nextSecondMs) {
        nextSecondMs = nowMs + SECOND_MS
        everySecond(nowMs)
      }
      startChecks(nowMs)
    })
    cancel = later(runSlice, sliceMs)
  }

  function onWait(): void {
    if (stopping.signal.aborted) log.say('writing the last results once the import has ended')
  }

  /** Writes the last results. While an import has locked the list, this waits for the end of the import. */
  async function writeLast(): Promise<void> {
    try {
      await writing?.catch(() => {})
      do await write()
      while (results.waiting() > 0)
      await publish()
    } catch (error) {
      log.say(
        `the last results are not written; those checks will be repeated: ${messageOf(error)}`,
      )
    }
  }

  return {
    /** Adds addresses that were never checked; returns how many are new. */
    add: queue.add,
    /** Checks until `signal` is aborted, or with `once`, until each due address was checked. */
    async run(signal: AbortSignal): Promise<void> {
      signal.addEventListener('abort', () => end())
      if (signal.aborted) end()
      runSlice()
      try {
        await ended.promise
      } finally {
        stopping.abort()
        cancel()
        await writeLast()
      }
    },
  }
}
