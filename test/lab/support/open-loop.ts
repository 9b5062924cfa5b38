/**
 * The open-loop client, a process of its own: requests are due at fixed times, whether or not earlier ones
 * are answered. Latency counts from the real send, and beside it from the intended one: on a busy
 * machine this process itself may run late.
 */
import { readFileSync } from 'node:fs'
import { type Client, openClient } from './client.ts'
import { script } from './script.ts'
import { percentile } from './table.ts'

/** Longest wait for answers after the last request. */
const LAST_ANSWER_MS_MAX = 5_000
/** Wait before a lost connection is reopened. */
const REOPEN_MS = 100
/** Time to open the connections before the schedule starts. */
const LEAD_MS = 500

type OpenLoopInput = {
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

async function run(input: OpenLoopInput): Promise<OpenLoopResult> {
  const { port, ratePerSecond, seconds, connections } = input
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  const targets = readFileSync(input.targetsFile, 'utf8').trimEnd().split('\n')
  const total = ratePerSecond * seconds
  /** Times in milliseconds, see `OpenLoopResult`. */
  const latencies: number[] = []
  const dues: number[] = []
  const lates: number[] = []
  /** Answers of other statuses than 200. */
  const wrong = new Map<number, number>()
  let lost = 0
  const idle: Client[] = []
  const startMs = performance.now() + LEAD_MS
  const endMs = startMs + seconds * 1000 + LAST_ANSWER_MS_MAX
  /** When the client turned to each request. */
  const turnedMs: number[] = []
  let sent = 0

  const dueMs = (n: number): number => startMs + (n * 1000) / ratePerSecond

  async function open(): Promise<void> {
    const client = await openClient(where).catch(() => null)
    if (client === null) return void setTimeout(open, REOPEN_MS)
    idle.push(client)
  }

  async function ask(client: Client, n: number, turnedAtMs: number): Promise<void> {
    const status = await client.status(targets[n % targets.length] ?? '/')
    const nowMs = performance.now()
    if (status === 0) {
      lost += 1
      client.close()
      return void setTimeout(open, REOPEN_MS)
    }
    latencies.push(nowMs - turnedAtMs)
    dues.push(nowMs - dueMs(n))
    if (status !== 200) wrong.set(status, (wrong.get(status) ?? 0) + 1)
    idle.push(client)
    sendDue(nowMs)
  }

  /** Sends the requests that are due; without an idle connection they wait, and latency grows. */
  function sendDue(nowMs: number): void {
    while (turnedMs.length < total && dueMs(turnedMs.length) <= nowMs) {
      lates.push(nowMs - dueMs(turnedMs.length))
      turnedMs.push(nowMs)
    }
    while (sent < turnedMs.length) {
      const client = idle.pop()
      if (!client) return
      if (!client.isOpen()) {
        void open()
        continue
      }
      void ask(client, sent, turnedMs[sent] ?? nowMs)
      sent += 1
    }
  }

  for (let n = 0; n < connections; n += 1) void open()
  await Bun.sleep(LEAD_MS)
  for (let nowMs = performance.now(); nowMs < endMs; nowMs = performance.now()) {
    sendDue(nowMs)
    if (latencies.length + lost === total) break
    await Bun.sleep(1)
  }
  const wrongs = [...wrong.values()].reduce((all, times) => all + times, 0)
  const unanswered = total - latencies.length - lost
  return {
    sent,
    answered: latencies.length,
    errors: wrongs + total - latencies.length,
    what: [
      ...[...wrong].map(([status, times]) => `${times} × ${status}`),
      ...(lost > 0 ? [`${lost} lost connections`] : []),
      ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
    ].join(', '),
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    p999Ms: percentile(latencies, 0.999),
    maxMs: percentile(latencies, 1),
    dueP99Ms: percentile(dues, 0.99),
    lateP99Ms: percentile(lates, 0.99),
  }
}

export const startOpenLoop = script(import.meta, run)
