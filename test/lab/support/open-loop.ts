/**
 * The open-loop client: requests are due at fixed times, whether or not earlier ones are answered.
 * Latency counts from the real send, and beside it from the intended one: on a busy machine this
 * process itself may run late. A script, see `runAsScript`.
 */
import { readFileSync } from 'node:fs'
import { type Connection, connect } from './connection.ts'
import { runAsScript } from './script.ts'
import { percentile } from './table.ts'

/** Longest wait for answers after the last request. */
const LAST_ANSWER_MS_MAX = 5_000
/** Wait before a lost connection is reopened. */
const REOPEN_MS = 100
/** Time to open the connections before the schedule starts. */
const LEAD_MS = 500

export type OpenLoopInput = {
  port: number
  targetsFile: string
  ratePerSecond: number
  seconds: number
  connections: number
}
/**
 * `p50Ms` to `maxMs`: latency from the moment the client turned to a request; a wait for a free
 * connection is part of it, because the server causes it. `dueP99Ms`: latency from when a request
 * was due. `lateP99Ms`: from when it was due until the client turned to it.
 */
export type OpenLoopResult = {
  sent: number
  answered: number
  /** Answers with another status than 200, lost connections, and requests without an answer. */
  errors: number
  /** The errors in words, such as `3 × 503, 1 lost connections`; empty without any. */
  what: string
  p50Ms: number
  p99Ms: number
  p999Ms: number
  maxMs: number
  dueP99Ms: number
  lateP99Ms: number
}

/** The counts of a run; times in milliseconds. */
type Tally = {
  latencies: number[]
  dues: number[]
  lates: number[]
  /** Answers of other statuses than 200. */
  wrong: Map<number, number>
  lost: number
}

function run(input: OpenLoopInput): Promise<OpenLoopResult> {
  const { port, ratePerSecond, seconds, connections } = input
  const targets = readFileSync(input.targetsFile, 'utf8').trimEnd().split('\n')
  const total = ratePerSecond * seconds
  const tally: Tally = { latencies: [], dues: [], lates: [], wrong: new Map(), lost: 0 }
  const { promise, resolve } = Promise.withResolvers<OpenLoopResult>()
  const idle: Connection[] = []
  /** The request on its way over a connection: when it was due, and when the client turned to it. */
  const underWay = new Map<Connection, { dueMs: number; turnedMs: number }>()
  const startMs = performance.now() + LEAD_MS
  const endMs = startMs + seconds * 1000 + LAST_ANSWER_MS_MAX
  /** When the client turned to each request. */
  const turnedMs: number[] = []
  let sent = 0

  const dueMs = (n: number): number => startMs + (n * 1000) / ratePerSecond

  /** Sends the requests that are due; without an idle connection they wait, and latency grows. */
  function sendDue(nowMs: number): void {
    while (turnedMs.length < total && dueMs(turnedMs.length) <= nowMs) {
      tally.lates.push(nowMs - dueMs(turnedMs.length))
      turnedMs.push(nowMs)
    }
    while (sent < turnedMs.length) {
      const connection = idle.pop()
      if (!connection) return
      underWay.set(connection, { dueMs: dueMs(sent), turnedMs: turnedMs[sent] ?? nowMs })
      connection.send(targets[sent % targets.length] ?? '/')
      sent += 1
    }
  }

  const listeners = {
    open: (connection: Connection): void => void idle.push(connection),
    answer(connection: Connection, status: number): void {
      const nowMs = performance.now()
      const request = underWay.get(connection)
      tally.latencies.push(nowMs - (request?.turnedMs ?? nowMs))
      tally.dues.push(nowMs - (request?.dueMs ?? nowMs))
      if (status !== 200) tally.wrong.set(status, (tally.wrong.get(status) ?? 0) + 1)
      idle.push(connection)
      sendDue(nowMs)
    },
    closed(connection: Connection, wasBusy: boolean): void {
      if (wasBusy) tally.lost += 1
      const at = idle.indexOf(connection)
      if (at >= 0) idle.splice(at, 1)
      underWay.delete(connection)
      setTimeout(() => void connect(port, listeners), REOPEN_MS)
    },
  }

  function tick(): void {
    const nowMs = performance.now()
    sendDue(nowMs)
    const isDone = tally.latencies.length + tally.lost === total
    if (isDone || nowMs >= endMs) resolve(summary(tally, sent, total))
    else setTimeout(tick, 1)
  }

  for (let n = 0; n < connections; n += 1) void connect(port, listeners)
  setTimeout(tick, LEAD_MS)
  return promise
}

/** What went wrong, and how often. */
const describe = ({ latencies, wrong, lost }: Tally, total: number): string =>
  [
    ...[...wrong].map(([status, times]) => `${times} × ${status}`),
    ...(lost > 0 ? [`${lost} lost connections`] : []),
    ...(total > latencies.length + lost ? [`${total - latencies.length - lost} unanswered`] : []),
  ].join(', ')

function summary(tally: Tally, sent: number, total: number): OpenLoopResult {
  const { latencies, dues, lates, wrong } = tally
  const wrongs = [...wrong.values()].reduce((all, times) => all + times, 0)
  return {
    sent,
    answered: latencies.length,
    errors: wrongs + total - latencies.length,
    what: describe(tally, total),
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    p999Ms: percentile(latencies, 0.999),
    maxMs: percentile(latencies, 1),
    dueP99Ms: percentile(dues, 0.99),
    lateP99Ms: percentile(lates, 0.99),
  }
}

if (import.meta.main) await runAsScript(run)
