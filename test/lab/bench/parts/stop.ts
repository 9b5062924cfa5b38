/** The figures of an end: from SIGTERM until the server has ended, idle and after an import. */
import { keyOf } from '../../support/customers.ts'
import { TYPICAL } from '../../support/queries.ts'
import { repeat } from '../../support/repeat.ts'
import { count, median, type Row, shown } from '../../support/table.ts'
import { ask } from '../baselines/baselines.ts'
import type { Build, Workspace } from '../workspace.ts'

const STOP_MAX_MS = 150
/** How long an idle server runs before it is ended. */
const IDLE_MS = 1_000

/** What happens before SIGTERM. */
const SCENES = {
  'an idle server': () => Bun.sleep(IDLE_MS),
  'right after an import of every row, beside requests and a download': afterImport,
} as const
type Scene = keyof typeof SCENES
const NAMES = Object.keys(SCENES) as Scene[] // the keys of the table above

/** The import cannot empty its WAL: the download, which nobody reads on, is of the list before it. */
async function afterImport(workspace: Workspace, build: Build, port: number): Promise<void> {
  const file = await workspace.rowFiles.untimed()
  const end = new AbortController()
  const whole = `/api?key=${keyOf(0)}&time=86400&get=json`
  await fetch(`http://127.0.0.1:${port}${whole}`, { signal: end.signal })
  const requests = repeat(n => ask({ port }, `/api?key=${keyOf(n)}&${TYPICAL[n % TYPICAL.length]}`))
  await build.importFile(file, await build.data())
  await requests.stop()
  end.abort()
}

/** Milliseconds from SIGTERM to the end. */
async function stopOnce(workspace: Workspace, build: Build, scene: Scene): Promise<number> {
  const server = await build.serve()
  await ask(server, `/api?key=${keyOf(0)}&${TYPICAL[0]}`)
  await SCENES[scene](workspace, build, server.port)
  const startMs = performance.now()
  const status = await server.stop()
  if (status !== 0) throw new Error(`the server ended with status ${status}`)
  return performance.now() - startMs
}

export async function stop(workspace: Workspace): Promise<Row[]> {
  const { builds, program, before, options } = workspace
  const rows: Row[] = []
  for (const scene of NAMES) {
    const timesMs = new Map<Build, number[]>(builds.map(build => [build, []]))
    for (let round = 0; round < options.rounds; round += 1) {
      for (const [build, times] of timesMs) times.push(await stopOnce(workspace, build, scene))
    }
    const own = timesMs.get(program) ?? []
    const earlier = before && timesMs.get(before)
    rows.push({
      case: `SIGTERM to the end, ${count(options.rows)} rows, ${scene}`,
      this: `${shown(median(own))} ms, slowest ${shown(Math.max(...own))} ms`,
      that: earlier
        ? `before: ${shown(median(earlier))} ms, slowest ${shown(Math.max(...earlier))} ms`
        : '',
      figure: `${own.length} times`,
      target: `≤ ${STOP_MAX_MS} ms`,
      holds: Math.max(...own) <= STOP_MAX_MS,
    })
  }
  return rows
}
