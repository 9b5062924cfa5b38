/**
 * The checker at work (contract H4, H5): begins checks at its rate, waits until the judge confirms that a failure
 * is one of the address, and writes what it has found once a second, first to the list, then to its memory. What
 * is under way is only in this program: one that is killed checks again what it had not written.
 *
 * Its own clock never steps: it begins at that of the machine, or where it was when that was set back, and goes on
 * by a stopwatch. So no address waits for a day because a clock was wrong, or was mended.
 */
import type { Clock, Later } from '../lib/clock.ts'
import { counted } from '../lib/counted.ts'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS, utcDay } from '../lib/time.ts'
import type { Address, IncomingProxy } from '../proxies/proxy.ts'
import { toAddress } from '../proxies/row.ts'
import { createConfirmation } from './confirm.ts'
import { Stop } from './dial.ts'
import { createIntake } from './intake.ts'
import { createPace } from './pace.ts'
import type {
  Candidate,
  CandidateStore,
  CheckerList,
  CheckerStatus,
  CheckerStatusStore,
  CheckRequest,
  CheckResult,
  Postponed,
  Probe,
  SelfCheck,
} from './ports.ts'
import { createLine } from './queue.ts'
import { createWriter, type Done, PING_LAG_MS_MAX, remembered } from './results.ts'
import { isRareDue } from './schedule.ts'
import { createCounters } from './tally.ts'

/** So often checks begin; a program that lags shows in the same timer. */
const SLICE_MS = 25
const SELF_CHECK_MS = 30 * SECOND_MS
/** While the judge is away, and when failures wait for nothing else. */
const SELF_CHECK_SOON_MS = 5 * SECOND_MS
/** So many results, or those of two seconds, are written at once, in some 20 ms: the program must not lag. */
const BATCH_MAX = 500
/** Nothing begins while so many results wait for the list, which another import may have locked. */
const RESULTS_MAX = 5_000
/** What is measured of a speed: 64 KiB, then 256 KiB. */
const SPEED_BYTES = 320 * 1024
/** How long the last results may wait for the list. */
const END_MS_MAX = 2 * SECOND_MS

export type CheckerOptions = {
  store: CandidateStore
  status: Pick<CheckerStatusStore, 'write'>
  list: CheckerList
  probe: Probe
  /** Asks the judge itself; never rejects. */
  selfCheck: (signal: AbortSignal) => Promise<SelfCheck>
  clock: Clock
  /** A stopwatch, in milliseconds. */
  elapsedMs: () => number
  later: Later
  /** From 0 up to 1. */
  random: () => number
  log: Pick<Log, 'say' | 'sayRepeated'>
  /** Checks begun a second, and under way. */
  perSecond: number
  inFlightMax: number
  /** What measuring speeds may cost in a day; with 0 they are not measured. */
  speedBytesADay: number
  /** Whether services are looked for, and whether there is a judge that speaks TLS. */
  hasServices: boolean
  hasTls: boolean
  /** Whether an address may be checked at all. */
  accepts: (address: Address) => boolean
  /** End when each address that is due was checked once. */
  once: boolean
  placing: (proxy: IncomingProxy) => IncomingProxy
  onStatus?: (status: CheckerStatus) => void
  sliceMs?: number
}

type Running = Pick<Done, 'candidate' | 'request' | 'beganMs' | 'lagMs'>

export function createChecker(options: CheckerOptions) {
  const { store, list, clock, elapsedMs, later, log, once } = options
  const { perSecond, sliceMs = SLICE_MS } = options

  const startedMs = clock()
  const ledger = { day: 0, speedBytes: 0, ...(store.ledger() ?? { atMs: startedMs }) }
  const origin = Math.max(startedMs, ledger.atMs) - elapsedMs()
  const now = (): number => Math.round(origin + elapsedMs())
  /** An instant of the clock of the machine, as one of ours. */
  const toOurs = (ms: number): number => now() - (clock() - ms)

  const pace = createPace(perSecond, options.inFlightMax)
  const line = createLine(store, pace, perSecond, once ? now() : null)
  const intake = createIntake(store, list, { now, toOurs }, once, options.accepts)
  const confirmation = createConfirmation<Done>()
  const tally = createCounters(perSecond)
  const writeToList = createWriter(list, options.placing, options.random)

  const stopping = new AbortController()
  const probes = new Stop()
  const ended = Promise.withResolvers<void>()
  const running = new Set<Running>()
  /** Ended since the last slice: a lag that is noticed after it was theirs, too. */
  let justEnded: Running[] = []
  let results: Done[] = []
  /** Failures that wait for the judge: a checker that is killed meanwhile does not check them again at once. */
  let awaitingConfirmation: Postponed[] = []
  /** Addresses that an earlier run could check, and this one may not: they are forgotten. */
  let unwanted: number[] = []
  let speedsRunning = 0

  const saidOn = new Map<string, string>()
  /** Says a sentence on a topic unless its problem was said last; `''` when there is none any more. */
  function sayOn(topic: string, sentence: string, well: string, problem = sentence): void {
    if (problem === (saidOn.get(topic) ?? '')) return
    saidOn.set(topic, problem)
    log.say(sentence || well)
  }

  /** What fails while a disk is full, or a database away, is done again; anything else ends the checker. */
  async function trying(work: () => Promise<void> | void): Promise<void> {
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
    probes.abort()
    if (error === undefined) ended.resolve()
    else ended.reject(error)
  }

  // -----------------------------------------------------------------------------------------------
  // The judge

  let isAsking = false
  let hasJudge = false
  let askedMs = Number.NEGATIVE_INFINITY

  function putOff(id: number): void {
    tally.deferred()
    line.putOff(id, now())
  }

  async function askJudge(): Promise<void> {
    isAsking = true
    askedMs = now()
    const found = await options.selfCheck(stopping.signal)
    isAsking = false
    if (stopping.signal.aborted) return
    if (once && !found.ok && !hasJudge) return end(new CommandError(found.problem))
    hasJudge ||= found.ok
    const ours = found.ok ? { ...found, startedMs: toOurs(found.startedMs) } : found
    const decided = confirmation.judged(ours, askedMs, now())
    results.push(...decided.counted)
    for (const { candidate } of decided.discarded) putOff(candidate.id)
    const problem = confirmation.problem()?.sentence
    const sentence = problem === undefined ? '' : `${problem}; nothing is checked meanwhile`
    sayOn('judge', sentence, 'the judge answers again')
  }

  function askJudgeInTime(nowMs: number): void {
    const isIdle = running.size === 0 && confirmation.waiting() > 0 && line.isEmpty(nowMs)
    const isSoon =
      isIdle || confirmation.problem() !== null || confirmation.waiting() >= 2 * BATCH_MAX
    const waitMs = isSoon ? SELF_CHECK_SOON_MS : SELF_CHECK_MS
    if (!isAsking && ((once && isIdle) || nowMs - askedMs >= waitMs)) void askJudge().catch(end)
  }

  // -----------------------------------------------------------------------------------------------
  // One check

  /** What to ask; `null` while who lied about a payload can be asked for none: a plain check would find it alive. */
  function requestFor(candidate: Candidate, nowMs: number): CheckRequest | null {
    const { queue, hint, measured, speedMs, servicesMs, tlsMs, history } = candidate
    const hasLied = queue !== 'living' && history[0]?.attempts.at(-1)?.purpose === 'speed'
    const hasSpeed = queue === 'living' || hasLied
    const spent = ledger.speedBytes + (speedsRunning + 1) * SPEED_BYTES
    const isInBudget = spent <= options.speedBytesADay
    if (hasLied && !isInBudget && options.speedBytesADay > 0) return null
    return {
      address: toAddress(candidate.id),
      known: measured?.type ?? hint,
      wantsSpeed: hasSpeed && isInBudget && isRareDue(speedMs, nowMs),
      wantsServices: options.hasServices && isRareDue(servicesMs, nowMs),
      wantsTls: options.hasTls && isRareDue(tlsMs, nowMs),
    }
  }

  function find(id: number): Candidate | null {
    try {
      return store.find(id)
    } catch (error) {
      line.putOff(id, now())
      throw error
    }
  }

  function begin(id: number): void {
    const candidate = find(id)
    if (candidate === null) return // nobody else writes
    if (!options.accepts(toAddress(id))) return void unwanted.push(id)
    const beganMs = now()
    const request = requestFor(candidate, beganMs)
    if (request === null) return putOff(id)
    const check = { candidate, request, beganMs, lagMs: 0 }
    running.add(check)
    pace.begin(id, beganMs)
    if (request.wantsSpeed) speedsRunning += 1
    tally.began()
    void options
      .probe(request, probes)
      .then(result => finish(check, result))
      .catch(end)
  }

  function finish(check: Running, result: CheckResult): void {
    if (stopping.signal.aborted) return
    const { id } = check.candidate
    running.delete(check)
    justEnded.push(check)
    pace.end(id)
    tally.ended(result)
    if (check.request.wantsSpeed) {
      speedsRunning -= 1
      ledger.speedBytes += result.bytes
    }
    if (result.kind === 'deferred') {
      log.sayRepeated(`checks are put off: ${result.why}`)
      return putOff(id)
    }
    const done: Done = Object.assign(check, { endedMs: now(), at: clock(), result })
    if (result.kind === 'alive') return void results.push(done)
    confirmation.failed(done)
    awaitingConfirmation.push({ id, untilMs: remembered(done, 0).nextAtMs, asItIs: false })
  }

  function beginSome(nowMs: number): void {
    if (!confirmation.isOpen() || results.length >= RESULTS_MAX) return
    while (pace.isOpen()) {
      const id = line.next(nowMs)
      if (id === null) return
      begin(id)
    }
  }

  // -----------------------------------------------------------------------------------------------
  // Once a second

  async function writeResults(signal: AbortSignal): Promise<void> {
    const done = results.slice(0, Math.max(BATCH_MAX, 2 * perSecond))
    const postponed = line.postponed().slice()
    const waiting = awaitingConfirmation.slice()
    const refused = unwanted.slice()
    if (done.length + postponed.length + waiting.length + refused.length === 0) return
    const written = await writeToList(done, signal)
    const forgotten = [...written.forgotten, ...refused]
    const batch = { ...written, forgotten, ledger: { ...ledger, atMs: now() } }
    store.save({ ...batch, postponed: [...waiting, ...postponed] })
    line.stored({ ...batch, postponed })
    results = results.slice(done.length)
    awaitingConfirmation = awaitingConfirmation.slice(waiting.length)
    unwanted = unwanted.slice(refused.length)
    for (const { result } of done) if (result.kind === 'dead') tally.failed(result.reason)
  }

  /** The writing that is under way, if any: there is one at a time. */
  let writing: Promise<void> | null = null
  function write(signal: AbortSignal): Promise<void> {
    writing ??= writeResults(signal).finally(() => {
      writing = null
    })
    return writing
  }

  async function publish(): Promise<void> {
    const problem = confirmation.problem()
    const sinceMs = problem === null ? 0 : clock() - (now() - problem.sinceMs)
    const status = tally.status(store, {
      ...{ at: clock(), startedMs, once, nowMs: now() },
      judgeProblem: problem && { ...problem, sinceMs },
    })
    const { neededRate, queues } = status
    const slow =
      neededRate === null
        ? ''
        : `the rate of ${perSecond}/s cannot keep the ${counted(queues.living)} living fresh: ` +
          `${neededRate}/s would`
    sayOn('rate', slow, 'the rate keeps the living fresh again', slow && 'slow')
    options.onStatus?.(status)
    await options.status.write(status)
  }

  function everySecond(nowMs: number): void {
    const day = utcDay(nowMs)
    if (day > ledger.day) Object.assign(ledger, { day, speedBytes: 0 })
    tally.turn()
    void trying(() => write(stopping.signal))
    void trying(() => line.refill(nowMs))
    void trying(publish)
    if (once && isOver(nowMs)) end()
  }

  /** Whether each address that is due was checked. */
  const isOver = (nowMs: number): boolean =>
    intake.hasRead() &&
    running.size + results.length + unwanted.length + confirmation.waiting() === 0 &&
    line.isEmpty(nowMs)

  // -----------------------------------------------------------------------------------------------
  // From start to end

  let slicedMs = elapsedMs()
  let nextSecondMs = 0
  let cancel = (): void => {}

  function slice(nowMs: number): void {
    askJudgeInTime(nowMs)
    if (nowMs >= nextSecondMs) {
      nextSecondMs = nowMs + SECOND_MS
      everySecond(nowMs)
    }
    beginSome(nowMs)
  }

  function runSlices(): void {
    if (stopping.signal.aborted) return
    const passedMs = elapsedMs() - slicedMs
    slicedMs += passedMs
    const lagMs = passedMs - sliceMs
    if (lagMs > PING_LAG_MS_MAX) {
      for (const check of [...running, ...justEnded]) check.lagMs = Math.max(check.lagMs, lagMs)
    }
    justEnded = []
    pace.advance(passedMs)
    void trying(intake.read)
    void trying(() => slice(now()))
    cancel = later(runSlices, sliceMs)
  }

  /** Writes what is known, unless the list is locked for longer. */
  async function writeLast(): Promise<void> {
    const givingUp = new AbortController()
    const cancelTimer = later(() => givingUp.abort(), END_MS_MAX)
    try {
      await writing?.catch(() => {})
      await write(givingUp.signal)
      await publish()
    } catch (error) {
      const why = givingUp.signal.aborted ? 'the list is locked' : messageOf(error)
      log.say(`the last results are not written, and found again: ${why}`)
    } finally {
      cancelTimer()
    }
  }

  return {
    /** Adds addresses that were never checked; returns how many were not known. */
    add: intake.add,
    /** Checks until `signal` is aborted, or each address that is due was checked once. */
    async run(signal: AbortSignal): Promise<void> {
      signal.addEventListener('abort', () => end())
      if (signal.aborted) end()
      runSlices()
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
