/**
 * Owns latency at a fixed rate: alone, while ROWS rows are imported, and while another client
 * downloads the full list. The clients are processes of their own.
 */

import type { Server } from '../../support/launch.ts'
import type { OpenLoopInput, OpenLoopResult } from '../support/open-loop.ts'
import { repeat } from '../support/repeat.ts'
import { startScript } from '../support/script.ts'
import { count, median, megabytes, type Row, shown } from '../support/table.ts'
import { startDownloads } from './whole.ts'
import type { Workspace } from './workspace.ts'

/** Time for the client to start and end, beside the run. */
const GRACE_SECONDS = 20
const WARM_UP_SECONDS = 2
const SETTLE_MS = 500
/** More than there is time for. */
const DOWNLOADS_MAX = 1_000_000

type Target = { p99Ms: number; p999Ms: number | null }
const ALONE: Target = { p99Ms: 5, p999Ms: 25 }
const UNDER_LOAD: Target = { p99Ms: 25, p999Ms: null }

async function openLoop(workspace: Workspace, { port }: Server, seconds: number) {
  const { ratePerSecond, connections } = workspace.options
  const { repeated: targetsFile } = await workspace.targets()
  const input: OpenLoopInput = { port, targetsFile, ratePerSecond, seconds, connections }
  return startScript<OpenLoopResult>('support/open-loop.ts', input, seconds + GRACE_SECONDS).result
}

function rowOf(
  workspace: Workspace,
  meanwhile: string,
  result: OpenLoopResult,
  target: Target,
): Row {
  const { ratePerSecond, openSeconds } = workspace.options
  const { p50Ms, p99Ms, p999Ms, maxMs, delayP99Ms, errors } = result
  const tail = target.p999Ms === null ? '' : `, p99.9 ≤ ${target.p999Ms} ms`
  const percentiles = `p50 ${shown(p50Ms)}, p99 ${shown(p99Ms)}, p99.9 ${shown(p999Ms)}`
  return {
    case: `open loop, ${count(ratePerSecond)}/s for ${openSeconds} s, ${meanwhile}`,
    this: `${percentiles}, max ${shown(maxMs)} ms`,
    that: `sent late by p99 ${shown(delayP99Ms)} ms`,
    figure: `${count(errors)} errors`,
    target: `p99 ≤ ${target.p99Ms} ms${tail}, no errors`,
    holds: errors === 0 && p99Ms <= target.p99Ms && p999Ms <= (target.p999Ms ?? p999Ms),
  }
}

/** Runs the open-loop client on a warm server, beside another load. */
async function measure(
  workspace: Workspace,
  target: Target,
  beside: (server: Server) => Promise<{ finish: () => Promise<string> }>,
): Promise<Row[]> {
  const server = await workspace.serve()
  try {
    await openLoop(workspace, server, WARM_UP_SECONDS)
    const { finish } = await beside(server)
    await Bun.sleep(SETTLE_MS)
    let meanwhile = ''
    const measured = openLoop(workspace, server, workspace.options.openSeconds)
    const result = await measured.finally(async () => {
      meanwhile = await finish()
    })
    return [rowOf(workspace, meanwhile, result, target)]
  } finally {
    await server.stop()
  }
}

export const open = (workspace: Workspace): Promise<Row[]> =>
  measure(workspace, ALONE, async () => ({ finish: async () => 'alone' }))

export const openWhole = (workspace: Workspace): Promise<Row[]> =>
  measure(workspace, UNDER_LOAD, async server => {
    const limits = { downloads: DOWNLOADS_MAX, seconds: workspace.options.openSeconds + 1 }
    const { result } = await startDownloads(workspace, server, limits)
    const finish = async (): Promise<string> => {
      const { totalBytes, seconds, errors } = await result
      const speed = `${megabytes(totalBytes / seconds)}/s`
      return `while the whole list is downloaded (${speed}, ${errors} failures)`
    }
    return { finish }
  })

/** Imports follow one another until the client is done; each updates every row. */
export const openImport = (workspace: Workspace): Promise<Row[]> =>
  measure(workspace, UNDER_LOAD, async () => {
    const [file, data] = [await workspace.untimedRows(), await workspace.data()]
    const rates: number[] = []
    const imports = repeat(async () => {
      const { seconds } = await workspace.importFile(file, data)
      rates.push(workspace.options.rows / seconds)
    })
    const finish = async (): Promise<string> => {
      await imports.stop()
      const perSecond = count(Math.round(median(rates)))
      return `during ${rates.length} import${rates.length === 1 ? '' : 's'} (${perSecond} rows/s)`
    }
    return { finish }
  })
