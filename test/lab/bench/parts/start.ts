/**
 * The figures of a start: from exec to the first answer, with few and with many admissions in
 * the usage, and memory when idle. A bare `Bun.serve`, compiled too, is started in the same rounds. The
 * figures of an end: from SIGTERM until the server has ended, idle and after an import.
 */
import { freePort, launch } from '../../../support/launch.ts'
import { statusOf } from '../../support/client.ts'
import { keyOf } from '../../support/customers.ts'
import { readMemory } from '../../support/process.ts'
import { TYPICAL } from '../../support/queries.ts'
import { repeat } from '../../support/repeat.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import { ask, bareArgument, compileBare } from '../baselines/baselines.ts'
import { loadByBun } from '../load.ts'
import type { Build, Workspace } from '../workspace.ts'

const STARTS = 7
const IDLE_MAX_BYTES = 80e6
/** How long a server is idle before its memory is read. */
const IDLE_MS = 3_000
const FIRST_ANSWER_MS_MAX = 30_000
/** Between two attempts to connect: the server needs the processor more. */
const RETRY_MS = 0.5
/** Longest time to make the admissions. */
const ADMIT_SECONDS_MAX = 600

/** The states of the usage with which a start is measured, each a continuation of the one before. */
const STATES = [
  { admissions: 0, name: '', maxMs: 100 },
  { admissions: 100_000, name: ', 100,000 admissions', maxMs: 130 },
  { admissions: 1_000_000, name: ', a million admissions', maxMs: 250 },
] as const
/** A plan under which each of them is still counted, in a window of an hour. */
const LONG_WINDOW = ['--burst', '1000/1h']

/** What is started, and its times in milliseconds. */
type Started = { key: string; command: (port: number) => string[]; timesMs: number[] }

/** One start: milliseconds to the first 200, and resident bytes after `idleMs`. */
async function startOnce(command: (port: number) => string[], n: number, idleMs = 0) {
  const port = freePort()
  const target = `/api?key=${keyOf(n)}&${TYPICAL[0]}`
  const startMs = performance.now()
  // Not `startServe`: that waits for a line which is written after the server listens.
  const server = launch(command(port), { stdout: 'ignore', stderr: 'ignore' })
  try {
    const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
    while ((await statusOf(where, target)) !== 200) {
      if (performance.now() - startMs > FIRST_ANSWER_MS_MAX)
        throw new Error('no answer after the start')
      await Bun.sleep(RETRY_MS)
    }
    const elapsedMs = performance.now() - startMs
    await Bun.sleep(idleMs)
    return { elapsedMs, idleBytes: readMemory(server.pid)?.residentBytes ?? null }
  } finally {
    await server.stop()
  }
}

/** The data directories of STATES; the admissions are made by requests to the build's server. */
async function dataDirectories(workspace: Workspace, build: Build): Promise<string[]> {
  const directories = [await build.copy('start-0')]
  for (const [i, { admissions }] of STATES.entries()) {
    const last = directories.at(-1) ?? ''
    if (i === 0) continue
    const data = await build.copy(`start-${i}`, last)
    await build.run(['plans', 'set', 'bench', ...LONG_WINDOW, '--data', data])
    await admit(workspace, build, data, admissions - (STATES[i - 1]?.admissions ?? 0))
    directories.push(data)
  }
  return directories
}

async function admit(workspace: Workspace, build: Build, data: string, requests: number) {
  const { connections } = workspace.options
  const { repeated: targetsFile } = await workspace.targets()
  const server = await build.serve({ data, log: 'off' })
  try {
    const load = { targetsFile, connections, requests, isDistinct: false, startAt: 0 }
    const result = await loadByBun({ port: server.port, seconds: ADMIT_SECONDS_MAX, ...load })
    const admitted = result.requests - result.not2xx
    if (admitted !== requests) throw new Error(`of ${requests} requests ${admitted} were admitted`)
  } finally {
    await server.stop()
  }
}

async function startedBuild(workspace: Workspace, build: Build): Promise<Started[]> {
  const directories = await dataDirectories(workspace, build)
  return directories.map((data, state) => ({
    key: `${build.name} ${state}`,
    command: (port: number) => [
      ...[build.binary, 'serve', '--data', data, '--listen', `127.0.0.1:${port}`],
      ...['--grace', '1s'],
    ],
    timesMs: [],
  }))
}

/** The bare server, compiled, with an answer of the program's. */
async function startedBare(workspace: Workspace): Promise<Started> {
  const binary = await compileBare(workspace)
  const server = await workspace.program.serve()
  const answer = await ask(server, `/api?key=${keyOf(0)}&${TYPICAL[0]}`)
  await server.stop()
  const command = (port: number) => [binary, bareArgument(workspace, answer, port)]
  return { key: 'bare', command, timesMs: [] }
}

export async function start(workspace: Workspace): Promise<Row[]> {
  const all: Started[] = [await startedBare(workspace)]
  for (const build of workspace.builds) all.push(...(await startedBuild(workspace, build)))
  for (let n = 0; n < STARTS; n += 1) {
    for (const { command, timesMs } of all) timesMs.push((await startOnce(command, n)).elapsedMs)
  }
  const timesOf = (key: string): number[] => all.find(one => one.key === key)?.timesMs ?? []
  const rows = count(workspace.options.rows)
  const bareMs = median(timesOf('bare'))
  const timeRows = STATES.map(({ name, maxMs }, state): Row => {
    const timesMs = timesOf(`this ${state}`)
    const earlier = timesOf(`before ${state}`)
    const beforeMs = earlier.length === 0 ? null : median(earlier)
    const startMs = median(timesMs)
    return {
      case: `exec to first answer, ${rows} rows${name}`,
      this: `${shown(startMs)} ms, slowest ${shown(Math.max(...timesMs))} ms`,
      that: `bare Bun.serve, compiled: ${shown(bareMs)} ms${beforeMs === null ? '' : `; before: ${shown(beforeMs)} ms`}`,
      figure: `${shown(startMs / bareMs)} × bare${beforeMs === null ? '' : `, ${shown(startMs / beforeMs)} × before`}`,
      target: `≤ ${maxMs} ms`,
      holds: startMs <= maxMs,
    }
  })
  return [...timeRows, await idleRow(workspace, all, rows)]
}

async function idleRow(workspace: Workspace, all: readonly Started[], rows: string): Promise<Row> {
  const idle: { [key: string]: number | null } = {}
  for (const { name } of workspace.builds) {
    const command = all.find(({ key }) => key === `${name} 0`)?.command
    if (command) idle[name] = (await startOnce(command, STARTS, IDLE_MS)).idleBytes
  }
  const bytes = idle.this ?? null
  return {
    case: `idle memory, ${rows} rows`,
    this: megabytes(bytes),
    that: workspace.before ? `before: ${megabytes(idle.before ?? null)}` : '',
    figure: '',
    target: `≤ ${shown(IDLE_MAX_BYTES / 1e6)} MB`,
    holds: bytes === null ? null : bytes <= IDLE_MAX_BYTES,
  }
}

const STOP_MAX_MS = 150
/** How long an idle server runs before it is ended. */
const RUN_MS = 1_000

/** What happens before SIGTERM. */
const SCENES = {
  'an idle server': () => Bun.sleep(RUN_MS),
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
