/** The figures of streamed answers: speed, the server's memory, and clients that do not read. */
import { readFileSync } from 'node:fs'
import type { Server } from '../../../support/launch.ts'
import { keyOf } from '../../support/customers.ts'
import {
  type Cpu,
  cpuPerUnit,
  type Memory,
  readCpu,
  readMemory,
  resetPeak,
} from '../../support/process.ts'
import { TYPICAL } from '../../support/queries.ts'
import { type Script, script } from '../../support/script.ts'
import { startSlow } from '../../support/slow-client.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import { ask } from '../baselines/baselines.ts'
import type { Build, Workspace } from '../workspace.ts'

const DOWNLOADS = 5
const DOWNLOAD_SECONDS = 60
const STUCK_CLIENTS = 8
const STUCK_SECONDS = 8
const SAMPLE_EVERY_MS = 200
/** Small requests to a new server, so that its first growth is not measured. */
const WARM_UP_REQUESTS = 200

const GROWTH_MAX_BYTES = 80e6
const BEFORE_MIN = 2.5

type WholeInput = {
  port: number
  targetsFile: string
  /** Downloads until one of these is reached. */
  downloads: number
  seconds: number
}
type WholeResult = {
  /** Bytes a second of each complete download. */
  bytesPerSecond: number[]
  /** Size of the full list; 0 without a complete download. */
  bytes: number
  /** Downloads that were truncated, or had another status. */
  errors: number
  /** All bytes, also of the download that is truncated at the end, and their time. */
  totalBytes: number
  seconds: number
}

const CLOSING_BRACKET = 0x5d
/** A server that fails at once is not asked in a tight loop. */
const AFTER_ERROR_MS = 100

/** One download; `count` is called with the size of every chunk. Gives its bytes, 0 on failure. */
async function download(url: string, signal: AbortSignal, count: (bytes: number) => void) {
  let bytes = 0
  let last = 0
  const response = await fetch(url, { headers: { 'accept-encoding': 'identity' }, signal })
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    count(chunk.length)
    last = chunk.at(-1) ?? last
  }
  return response.status === 200 && last === CLOSING_BRACKET ? bytes : 0
}

/** Downloads the full list a few times, or repeatedly for some seconds. */
async function downloadWhole({
  port,
  targetsFile,
  downloads,
  seconds,
}: WholeInput): Promise<WholeResult> {
  const targets = readFileSync(targetsFile, 'utf8').trimEnd().split('\n')
  const result: WholeResult = {
    ...{ bytesPerSecond: [], bytes: 0, errors: 0, totalBytes: 0, seconds: 0 },
  }
  const signal = AbortSignal.timeout(seconds * 1000)
  const count = (bytes: number): void => {
    result.totalBytes += bytes
  }
  const startMs = performance.now()
  for (let n = 0; n < downloads && !signal.aborted; n += 1) {
    const url = `http://127.0.0.1:${port}${targets[n % targets.length]}`
    const beganMs = performance.now()
    const bytes = await download(url, signal, count).catch(() => 0)
    if (bytes > 0) {
      result.bytes = bytes
      result.bytesPerSecond.push((bytes * 1000) / (performance.now() - beganMs))
    } else if (!signal.aborted) {
      result.errors += 1
      await Bun.sleep(AFTER_ERROR_MS)
    }
  }
  result.seconds = (performance.now() - startMs) / 1000
  return result
}

/** Starts the client that downloads the full list until one of the limits is reached. */
export async function startDownloads(
  workspace: Workspace,
  { port }: Server,
  limits: { downloads: number; seconds: number },
  wrapper: readonly string[] = [],
): Promise<Script<WholeResult>> {
  const { whole: targetsFile } = await workspace.targets()
  return start({ port, targetsFile, ...limits }, limits.seconds + DOWNLOAD_SECONDS, wrapper)
}

/** A new server after some small requests, and its memory then. */
async function warmServer(build: Build): Promise<{ server: Server; before: Memory | null }> {
  const server = await build.serve()
  for (let n = 0; n < WARM_UP_REQUESTS; n += 1) {
    await ask(server, `/api?key=${keyOf(n)}&${TYPICAL[n % TYPICAL.length]}`)
  }
  resetPeak(server.pid)
  return { server, before: readMemory(server.pid) }
}

/** How far the memory of the server has risen above `before` since. */
function growthOf(server: Server, before: Memory | null): number | null {
  const after = readMemory(server.pid)
  return before && after ? after.peakBytes - before.residentBytes : null
}

/** The downloads from one build's server. */
type Downloads = Awaited<ReturnType<typeof warmServer>> & {
  cpuAtStart: Cpu | null
  bytesPerSecond: number[]
  bytes: number
  errors: number
}

async function downloadOnce(workspace: Workspace, downloads: Downloads): Promise<void> {
  const limits = { downloads: 1, seconds: DOWNLOAD_SECONDS }
  const { result } = await startDownloads(workspace, downloads.server, limits)
  const { bytes, bytesPerSecond, errors } = await result
  downloads.bytesPerSecond.push(...bytesPerSecond)
  downloads.bytes = bytes
  downloads.errors += errors
}

function describe({ server, before, bytesPerSecond }: Downloads): string {
  const growth = growthOf(server, before)
  return `${megabytes(median(bytesPerSecond))}/s, grows by ${megabytes(growth)}`
}

/** CPU time of all threads for each row that was sent. */
function cpuOf({ server, cpuAtStart }: Downloads, rows: number): string {
  const cpu = cpuPerUnit(server.pid, cpuAtStart, DOWNLOADS * rows)
  return cpu === null ? '?' : `${shown(cpu.allUs)} µs a row, all threads`
}

function wholeRow(own: Downloads, earlier: Downloads | undefined, rows: number): Row {
  const growth = growthOf(own.server, own.before)
  const ratio = median(
    own.bytesPerSecond.map((speed, i) => speed / (earlier?.bytesPerSecond[i] ?? Number.NaN)),
  )
  const isFast = earlier === undefined || ratio >= BEFORE_MIN
  const least = earlier ? `≥ ${BEFORE_MIN} × before, ` : ''
  const times = `${own.bytesPerSecond.length} downloads, ${own.errors} errors`
  return {
    case: `whole list as JSON, not cached, ${count(rows)} rows, ${megabytes(own.bytes)}`,
    this: describe(own),
    that: earlier ? `before: ${describe(earlier)}` : '',
    cpu: [own, ...(earlier ? [earlier] : [])].map(one => cpuOf(one, rows)).join(' : '),
    figure: earlier ? `${shown(ratio)} × before, ${times}` : times,
    target: `${least}≤ ${shown(GROWTH_MAX_BYTES / 1e6)} MB`,
    holds: own.errors === 0 && isFast && (growth ?? 0) <= GROWTH_MAX_BYTES,
  }
}

/** The full list as JSON: speed, and growth of the server, of the builds in turn. */
export async function whole(workspace: Workspace): Promise<Row[]> {
  const all: Downloads[] = []
  try {
    for (const build of workspace.builds) {
      const warm = await warmServer(build)
      const cpuAtStart = readCpu(warm.server.pid)
      all.push({ ...warm, cpuAtStart, bytesPerSecond: [], bytes: 0, errors: 0 })
    }
    for (let n = 0; n < DOWNLOADS; n += 1) {
      for (const downloads of all) await downloadOnce(workspace, downloads)
    }
    const [own, earlier] = all
    return own ? [wholeRow(own, earlier, workspace.options.rows)] : []
  } finally {
    for (const { server } of all) await server.stop()
  }
}

/** The last sample of the server's memory before `until` is settled. */
async function lastMemory(server: Server, until: Promise<unknown>): Promise<Memory | null> {
  let isSettled = false
  const settle = (): void => {
    isSettled = true
  }
  void until.then(settle, settle)
  for (;;) {
    const memory = readMemory(server.pid)
    await Bun.sleep(SAMPLE_EVERY_MS)
    if (isSettled) return memory
  }
}

/** Clients that stop reading the full list: their memory while they wait. */
export async function stuck(workspace: Workspace): Promise<Row[]> {
  const { server, before } = await warmServer(workspace.program)
  try {
    const { whole: targetsFile } = await workspace.targets()
    const targets = readFileSync(targetsFile, 'utf8').split('\n').slice(0, STUCK_CLIENTS)
    const { where } = server
    const { result } = startSlow(
      {
        where,
        manner: 'stall',
        clients: STUCK_CLIENTS,
        targets,
        seconds: STUCK_SECONDS,
        again: false,
      },
      STUCK_SECONDS + 60,
    )
    const held = await lastMemory(server, result)
    const { begun } = await result
    const peak = growthOf(server, before)
    const grown = held && before ? held.residentBytes - before.residentBytes : null
    return [
      {
        case: `${STUCK_CLIENTS} clients stop reading the whole list`,
        this: `server holds ${megabytes(grown)} more`,
        that: `at most ${megabytes(peak)} more`,
        figure: `${begun.length} of them had begun`,
        target: 'nothing but their sockets',
        holds: null,
      },
    ]
  } finally {
    await server.stop()
  }
}

const start = script(import.meta, downloadWhole)
