/**
 * A load generator for machines without wrk: every connection sends its next request as soon as
 * the last one is answered. A script, see `runAsScript`.
 */
import { readFileSync } from 'node:fs'
import { type Connection, connect } from '../../support/connection.ts'
import { distinctBounds } from '../../support/queries.ts'
import { runAsScript } from '../../support/script.ts'

export type ClosedLoopInput = {
  port: number
  targetsFile: string
  /** Whether each request has bounds of its own. */
  isDistinct: boolean
  /** Number of the first request. */
  startAt: number
  connections: number
  /** Runs until one of these is reached; without `requests`, for `seconds`. */
  seconds: number
  requests?: number
}
export type ClosedLoopResult = {
  seconds: number
  requests: number
  not2xx: number
  broken: number
}

function run(input: ClosedLoopInput): Promise<ClosedLoopResult> {
  const { port, isDistinct, startAt, connections, seconds } = input
  const requestsMax = input.requests ?? Number.POSITIVE_INFINITY
  const targets = readFileSync(input.targetsFile, 'utf8').trimEnd().split('\n')
  const { promise, resolve } = Promise.withResolvers<ClosedLoopResult>()
  const open = new Set<Connection>()
  let next = startAt
  let requests = 0
  let not2xx = 0
  let broken = 0
  let isOver = false

  const send = (connection: Connection): void => {
    if (next - startAt >= requestsMax) return
    const n = next++
    const target = targets[n % targets.length] ?? '/'
    connection.send(isDistinct ? target + distinctBounds(n) : target)
  }
  const listeners = {
    open(connection: Connection): void {
      open.add(connection)
      send(connection)
    },
    answer(connection: Connection, status: number): void {
      if (isOver) return
      requests += 1
      if (status < 200 || status > 299) not2xx += 1
      if (requests === requestsMax) finish()
      else send(connection)
    },
    closed(connection: Connection): void {
      open.delete(connection)
      if (!isOver) broken += 1
    },
  }

  const startedMs = performance.now()
  for (let n = 0; n < connections; n += 1) void connect(port, listeners)
  const timer = setTimeout(finish, seconds * 1000)
  function finish(): void {
    clearTimeout(timer)
    isOver = true
    const elapsedSeconds = (performance.now() - startedMs) / 1000
    for (const connection of [...open]) connection.close()
    resolve({ seconds: elapsedSeconds, requests, not2xx, broken })
  }
  return promise
}

if (import.meta.main) await runAsScript(run)
