/** Owns the figures of streamed answers: speed, the server's memory, and clients that do not read. */

import type { Server } from '../../support/launch.ts'
import { keyOf } from '../support/customers.ts'
import { type Memory, readMemory, resetPeak } from '../support/memory.ts'
import { TYPICAL } from '../support/queries.ts'
import { type Script, startScript } from '../support/script.ts'
import { count, median, megabytes, type Row, shown } from '../support/table.ts'
import { ask } from './baselines/baselines.ts'
import type { StuckInput, StuckResult } from './clients/stuck.ts'
import type { WholeInput, WholeResult } from './clients/whole.ts'
import type { Workspace } from './workspace.ts'

const DOWNLOADS = 5
const DOWNLOAD_SECONDS = 60
const STUCK_CLIENTS = 8
const STUCK_SECONDS = 8
const SAMPLE_EVERY_MS = 200
/** Small requests to a new server, so that its first growth is not measured. */
const WARM_UP_REQUESTS = 200

const GROWTH_MAX_BYTES = 100e6
const SPEED_MIN_BYTES = 60e6

/** Starts the client that downloads the full list until one of the limits is reached. */
export async function startDownloads(
  workspace: Workspace,
  { port }: Server,
  { downloads, seconds }: { downloads: number; seconds: number },
): Promise<Script<WholeResult>> {
  const { whole: targetsFile } = await workspace.targets()
  const input: WholeInput = { port, targetsFile, downloads, seconds }
  return startScript<WholeResult>('bench/clients/whole.ts', input, seconds + DOWNLOAD_SECONDS)
}

/** A new server after some small requests, and its memory then. */
async function warmServer(
  workspace: Workspace,
): Promise<{ server: Server; before: Memory | null }> {
  const server = await workspace.serve()
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

/** The full list as JSON: speed, and growth of the server. */
export async function whole(workspace: Workspace): Promise<Row[]> {
  const { server, before } = await warmServer(workspace)
  try {
    const limits = { downloads: DOWNLOADS, seconds: DOWNLOAD_SECONDS }
    const { result } = await startDownloads(workspace, server, limits)
    const { bytes, bytesPerSecond, errors } = await result
    const growth = growthOf(server, before)
    const speed = median(bytesPerSecond)
    const rows = count(workspace.options.rows)
    return [
      {
        case: `whole list as JSON, not cached, ${rows} rows, ${megabytes(bytes)}`,
        this: `${megabytes(speed)}/s`,
        that: `server grows by ${megabytes(growth)}`,
        figure: `median of ${bytesPerSecond.length} downloads, ${errors} errors`,
        target: `≥ ${shown(SPEED_MIN_BYTES / 1e6)} MB/s, ≤ ${shown(GROWTH_MAX_BYTES / 1e6)} MB`,
        holds: errors === 0 && speed >= SPEED_MIN_BYTES && (growth ?? 0) <= GROWTH_MAX_BYTES,
      },
    ]
  } finally {
    await server.stop()
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
  const { server, before } = await warmServer(workspace)
  try {
    const { whole: targetsFile } = await workspace.targets()
    const input: StuckInput = {
      port: server.port,
      targetsFile,
      clients: STUCK_CLIENTS,
      seconds: STUCK_SECONDS,
    }
    const { result } = startScript<StuckResult>('bench/clients/stuck.ts', input, STUCK_SECONDS + 60)
    const held = await lastMemory(server, result)
    const { begun } = await result
    const peak = growthOf(server, before)
    const grown = held && before ? held.residentBytes - before.residentBytes : null
    return [
      {
        case: `${STUCK_CLIENTS} clients stop reading the whole list`,
        this: `server holds ${megabytes(grown)} more`,
        that: `at most ${megabytes(peak)} more`,
        figure: `${begun} of them had begun`,
        target: 'nothing but their sockets',
        holds: null,
      },
    ]
  } finally {
    await server.stop()
  }
}
