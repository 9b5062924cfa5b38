/**
 * The figures of a start: from exec to the first answer, with few and with many admissions in the usage, and memory
 * when idle. A bare `Bun.serve`, compiled too, is started in the same rounds.
 */
import { freePort, launch } from '../../../support/launch.ts'
import { statusOf } from '../../support/client.ts'
import { keyOf } from '../../support/customers.ts'
import { readMemory } from '../../support/process.ts'
import { TYPICAL } from '../../support/queries.ts'
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

const targetOf = (n: number): string => `/api?key=${keyOf(n)}&${TYPICAL[n % TYPICAL.length]}`

/** What is started, and its times in milliseconds. */
type Started = { key: string; command: (port: number) => string[]; timesMs: number[] }

/** One start: milliseconds to the first 200, and resident bytes after `idleMs`. */
async function startOnce(command: (port: number) => string[], n: number, idleMs = 0) {
  const port = freePort()
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  const startMs = performance.now()
  // Not `startServe`: that waits for a line which is written after the server listens.
  const server = launch(command(port), { stdout: 'ignore', stderr: 'ignore' })
  try {
    while ((await statusOf(where, targetOf(n))) !== 200) {
      if (performance.now() - startMs > FIRST_ANSWER_MS_MAX) throw new Error('no answer')
      await Bun.sleep(RETRY_MS)
    }
    const elapsedMs = performance.now() - startMs
    await Bun.sleep(idleMs)
    return { elapsedMs, idleBytes: readMemory(server.pid)?.residentBytes ?? null }
  } finally {
    await server.stop()
  }
}

/** Makes admissions by requests to the build's server. */
async function admit(workspace: Workspace, build: Build, data: string, requests: number) {
  const { connections } = workspace.options
  const { repeated: targetsFile } = await workspace.targets()
  const server = await build.serve({ data, log: 'off' })
  const load = { targetsFile, connections, requests, isDistinct: false, startAt: 0, fields: '' }
  const result = await loadByBun({ port: server.port, seconds: ADMIT_SECONDS_MAX, ...load })
  await server.stop()
  const admitted = result.requests - result.not2xx
  if (admitted !== requests) throw new Error(`of ${requests} requests ${admitted} were admitted`)
}

/** The build on a data directory for each of STATES. */
async function startedBuild(workspace: Workspace, build: Build): Promise<Started[]> {
  const all: Started[] = []
  let data = await build.data()
  let had = 0
  for (const [state, { admissions }] of STATES.entries()) {
    data = await build.copy(`start-${state}`, data)
    if (admissions > 0) {
      await build.run(['plans', 'set', 'bench', ...LONG_WINDOW, '--data', data])
      await admit(workspace, build, data, admissions - had)
    }
    had = admissions
    const of = ['serve', '--data', data, '--grace', '1s']
    const command = (port: number) => [build.binary, ...of, '--listen', `127.0.0.1:${port}`]
    all.push({ key: `${build.name} ${state}`, command, timesMs: [] })
  }
  return all
}

/** The bare server, compiled, with an answer of the program's. */
async function startedBare(workspace: Workspace): Promise<Started> {
  const binary = await compileBare(workspace)
  const server = await workspace.program.serve()
  const answer = await ask(server, targetOf(0))
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
    const beforeMs = median(timesOf(`before ${state}`))
    const startMs = median(timesMs)
    const hasBefore = !Number.isNaN(beforeMs)
    return {
      case: `exec to first answer, ${rows} rows${name}`,
      this: `${shown(startMs)} ms, slowest ${shown(Math.max(...timesMs))} ms`,
      that: `bare Bun.serve, compiled: ${shown(bareMs)} ms${hasBefore ? `; before: ${shown(beforeMs)} ms` : ''}`,
      figure: `${shown(startMs / bareMs)} × bare${hasBefore ? `, ${shown(startMs / beforeMs)} × before` : ''}`,
      target: `≤ ${maxMs} ms`,
      holds: startMs <= maxMs,
    }
  })
  const idle = await Promise.all(
    ['this 0', 'before 0'].map(async key => {
      const command = all.find(one => one.key === key)?.command
      return command ? (await startOnce(command, STARTS, IDLE_MS)).idleBytes : null
    }),
  )
  const [bytes = null, before = null] = idle
  return [
    ...timeRows,
    {
      case: `idle memory, ${rows} rows`,
      this: megabytes(bytes),
      that: before === null ? '' : `before: ${megabytes(before)}`,
      figure: '',
      target: `≤ ${shown(IDLE_MAX_BYTES / 1e6)} MB`,
      holds: bytes === null ? null : bytes <= IDLE_MAX_BYTES,
    },
  ]
}
