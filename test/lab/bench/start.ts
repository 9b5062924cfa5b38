/** Owns the figures of a start: from exec to the first answer, and memory when idle. */

import { freePort, launch } from '../../support/launch.ts'
import { connect } from '../support/connection.ts'
import { keyOf } from '../support/customers.ts'
import { readMemory } from '../support/memory.ts'
import { TYPICAL } from '../support/queries.ts'
import { count, median, megabytes, type Row, shown } from '../support/table.ts'
import type { Workspace } from './workspace.ts'

const STARTS = 7
const START_MAX_MS = 80
const IDLE_MAX_BYTES = 80e6
/** How long a server is idle before its memory is read. */
const IDLE_MS = 3_000
const FIRST_ANSWER_MS_MAX = 30_000

/** Asks once; gives the status, or 0 without a connection. */
function tryOnce(port: number, target: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>()
  void connect(port, {
    open: connection => connection.send(target),
    answer(connection, status) {
      resolve(status)
      connection.close()
    },
    closed: () => resolve(0),
  })
  return promise
}

/** One start: milliseconds to the first 200; of the last also the resident bytes when idle. */
async function startOnce(workspace: Workspace, n: number, isLast: boolean) {
  const data = await workspace.data()
  const port = freePort()
  const target = `/api?key=${keyOf(n)}&${TYPICAL[0]}`
  const where = ['--data', data, '--listen', `127.0.0.1:${port}`]
  const startMs = performance.now()
  // Not `startServe`: that waits for a line which is written after the server listens.
  const server = launch([workspace.options.binary, 'serve', ...where, '--grace', '1s'], {
    ...{ stdout: 'ignore', stderr: 'ignore' },
  })
  try {
    while ((await tryOnce(port, target)) !== 200) {
      if (performance.now() - startMs > FIRST_ANSWER_MS_MAX)
        throw new Error('no answer after the start')
    }
    const elapsedMs = performance.now() - startMs
    if (isLast) await Bun.sleep(IDLE_MS)
    return { elapsedMs, idleBytes: readMemory(server.pid)?.residentBytes ?? null }
  } finally {
    await server.stop()
  }
}

export async function start(workspace: Workspace): Promise<Row[]> {
  const timesMs: number[] = []
  let idleBytes: number | null = null
  for (let n = 0; n < STARTS; n += 1) {
    const isLast = n === STARTS - 1
    const started = await startOnce(workspace, n, isLast)
    timesMs.push(started.elapsedMs)
    if (isLast) idleBytes = started.idleBytes
  }
  const rows = count(workspace.options.rows)
  const startMs = median(timesMs)
  return [
    {
      case: `exec to first answer, ${rows} rows`,
      this: `${shown(startMs)} ms`,
      that: `slowest ${shown(Math.max(...timesMs))} ms`,
      figure: `median of ${STARTS}`,
      target: `≤ ${START_MAX_MS} ms`,
      holds: startMs <= START_MAX_MS,
    },
    {
      case: `idle memory, ${rows} rows`,
      this: megabytes(idleBytes),
      that: '',
      figure: '',
      target: `≤ ${shown(IDLE_MAX_BYTES / 1e6)} MB`,
      holds: idleBytes === null ? null : idleBytes <= IDLE_MAX_BYTES,
    },
  ]
}
