/** The exhaustion of file descriptors: idle connections take all that the server may open. */
import { cpSync } from 'node:fs'
import type { Socket } from 'bun'
import { type Connection, connect } from '../../support/connection.ts'
import type { Finding, Run } from '../part.ts'
import { answersOf, KEY, QUERIES, startWatched, untilRight } from './server.ts'

/** Descriptors of the server, and the larger number of idle connections. */
const DESCRIPTORS = 96
const IDLE = 300
const ASKED = 300
/** Queries whose answers have a Content-Length. */
const SHORT = QUERIES.slice(0, -1)

/** Sends requests one after the other on one connection; gives statuses and the slowest answer. */
function askInTurn(port: number, times: number) {
  const statuses = new Map<number, number>()
  let slowestMs = 0
  let left = times
  let startMs = 0
  let open: Connection | null = null
  const opened = Promise.withResolvers<void>()
  const done = Promise.withResolvers<void>()
  const next = (): void => {
    startMs = performance.now()
    left -= 1
    open?.send(`/api?key=${KEY}&${SHORT[left % SHORT.length]}`)
  }
  void connect(port, {
    open(connection) {
      open = connection
      opened.resolve()
    },
    answer(connection, status) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      slowestMs = Math.max(slowestMs, performance.now() - startMs)
      if (left > 0) return void setTimeout(next, 5)
      connection.close()
      done.resolve()
    },
    closed(_, wasBusy) {
      if (wasBusy) statuses.set(0, (statuses.get(0) ?? 0) + 1)
      done.resolve()
    },
  })
  return {
    opened: opened.promise,
    async start() {
      next()
      await done.promise
      return { statuses, slowestMs }
    },
  }
}

export async function exhaust(run: Run, pristine: string): Promise<Finding[]> {
  run.say('out of file descriptors')
  const dir = `${run.directory('descriptors')}/data`
  cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
  const server = await startWatched(run.binary, dir, [
    'prlimit',
    `--nofile=${DESCRIPTORS}:${DESCRIPTORS}`,
  ])
  try {
    const right = await answersOf(server)
    const asking = askInTurn(server.port, ASKED)
    await asking.opened
    await Bun.sleep(100)
    const idle: Socket[] = []
    for (let n = 0; n < IDLE; n += 1) {
      idle.push(
        await Bun.connect({ hostname: '127.0.0.1', port: server.port, socket: { data() {} } }),
      )
    }
    await Bun.sleep(500)
    const { statuses, slowestMs } = await asking.start()
    for (const socket of idle) socket.end()
    const recoveryMs = await untilRight(server, right)
    const good = statuses.get(200) ?? 0
    const refused = statuses.get(503) ?? 0
    const shown = recoveryMs === null ? 'never' : `${Math.round(recoveryMs)} ms after`
    return [
      {
        promise: 'out of descriptors: open connections are served, and new ones again afterwards',
        figure:
          `${IDLE} idle connections, ${DESCRIPTORS} descriptors: ${good} of ${ASKED} answers 200, ` +
          `${refused} 503, slowest ${Math.round(slowestMs)} ms; new connections ${shown}`,
        bound: 'no failures, ≤ 5 s',
        holds:
          good + refused === ASKED &&
          slowestMs <= 5_000 &&
          recoveryMs !== null &&
          recoveryMs <= 5_000 &&
          server.isRunning(),
      },
    ]
  } finally {
    await server.stop()
  }
}
