/** Owns what a soak measures of a running server, from /proc and its data directory. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../../../src/app.ts'
import { readMemory } from '../../bench/memory.ts'
import { openAsker } from '../kill/asker.ts'

/** One look at the server; latencies come from the clients. */
export type Sample = {
  atSeconds: number
  residentBytes: number
  descriptors: number
  listLogBytes: number
  accessLogBytes: number
  diskBytes: number
  /** Round trip of a request that touches nothing: how long the event loop lets it wait. */
  loopMs: number
}

const PROBES = 11

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** The median time of a few requests for /healthz. */
async function loopMs(port: number): Promise<number> {
  const asker = await openAsker({ port })
  const timesMs: number[] = []
  while (timesMs.length < PROBES) {
    const startMs = performance.now()
    await asker.ask('/healthz')
    timesMs.push(performance.now() - startMs)
  }
  asker.close()
  return timesMs.sort((a, b) => a - b)[PROBES >> 1] ?? 0
}

/** @throws Error where there is no /proc, or no such process any more. */
export async function measure(
  { pid, port }: { pid: number; port: number },
  data: string,
  atSeconds: number,
): Promise<Sample> {
  const memory = readMemory(pid)
  if (memory === null) throw new Error('the memory of the server cannot be read from /proc')
  const log = (name: string): number => sizeOf(join(data, `${name}-wal`))
  return {
    atSeconds,
    residentBytes: memory.residentBytes,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    listLogBytes: log(PROXY_FILE),
    accessLogBytes: log(ACCESS_FILE),
    diskBytes: readdirSync(data).reduce((sum, name) => sum + sizeOf(join(data, name)), 0),
    loopMs: await loopMs(port),
  }
}
