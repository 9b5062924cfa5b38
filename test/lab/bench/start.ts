/** Owns the figures of starting: from exec to the first answer, and memory when idle. */
import { connect } from './connection.ts'
import { keyOf } from './customers.ts'
import { readMemory } from './memory.ts'
import { childEnvironment, freePort, keepTrack, stop } from './processes.ts'
import { TYPICAL } from './queries.ts'
import { count, median, megabytes, type Row, shown } from './table.ts'
import type { Workspace } from './workspace.ts'

const STARTS = 7
const START_MAX_MS = 80
const IDLE_MAX_BYTES = 80e6
/** How long a server is left alone before its memory is read. */
const IDLE_MS = 3_000
const PATIENCE_MS = 30_000

/** Asks until there is an answer; gives its status, or 0 when there is no connection. */
function tryOnce(port: number, target: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>()
  void connect(port, {
    open: connection => connection.send(target),
    answer(connection, status) {
      resolve(status)
      connection.close()
    },
    gone: () => resolve(0),
  })
  return promise
}

/** One start: milliseconds to the first 200, and resident bytes after a while when wanted. */
async function startOnce(workspace: Workspace, n: number, isLast: boolean) {
  const data = await workspace.data()
  const port = freePort()
  const target = `/api?key=${keyOf(n)}&${TYPICAL[0]}`
  const command = [workspace.options.binary, 'serve', '--data', data]
  const startMs = performance.now()
  const child = keepTrack(
    Bun.spawn([...command, '--listen', `127.0.0.1:${port}`, '--grace', '1s'], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: Bun.file('/dev/null'),
      stderr: 'ignore',
    }),
  )
  try {
    while ((await tryOnce(port, target)) !== 200) {
      if (performance.now() - startMs > PATIENCE_MS) throw new Error('no answer after the start')
    }
    const elapsedMs = performance.now() - startMs
    if (isLast) await Bun.sleep(IDLE_MS)
    return { elapsedMs, idleBytes: readMemory(child.pid)?.residentBytes ?? null }
  } finally {
    await stop(child)
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
