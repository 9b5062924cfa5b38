/** What a soak measures of a running server, from /proc and its data directory. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Server, Where } from '../../../support/launch.ts'
import { readMemory } from '../../support/memory.ts'
import { files } from '../../support/serve.ts'
import { openClient } from '../support/client.ts'

/** One measurement of the server; latencies come from the clients. */
export type Measured = {
  atSeconds: number
  residentBytes: number
  descriptors: number
  listWalBytes: number
  accessWalBytes: number
  diskBytes: number
  /** Round trip of a request that reads no data: how long it waits for the event loop. */
  loopMs: number
}

const PROBES = 11

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** The median time of a few requests for /healthz. */
async function loopMs(where: Where): Promise<number> {
  const client = await openClient(where)
  const timesMs: number[] = []
  while (timesMs.length < PROBES) {
    const startMs = performance.now()
    await client.ask('/healthz')
    timesMs.push(performance.now() - startMs)
  }
  client.close()
  return timesMs.sort((a, b) => a - b)[PROBES >> 1] ?? 0
}

/** @throws Error without /proc, or when the process has ended. */
export async function measure(
  { pid, where }: Server,
  data: string,
  atSeconds: number,
): Promise<Measured> {
  const memory = readMemory(pid)
  if (memory === null) throw new Error('the memory of the server cannot be read from /proc')
  const { list, access } = files(data)
  return {
    atSeconds,
    residentBytes: memory.residentBytes,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    listWalBytes: sizeOf(`${list}-wal`),
    accessWalBytes: sizeOf(`${access}-wal`),
    diskBytes: readdirSync(data).reduce((sum, name) => sum + sizeOf(join(data, name)), 0),
    loopMs: await loopMs(where),
  }
}
