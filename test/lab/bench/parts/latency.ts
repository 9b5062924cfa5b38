/**
 * Latency at a fixed rate: alone, while ROWS rows are imported, while another client downloads the
 * full list, and while statistics are asked for. The clients are processes of their own, and this one has priority: what
 * is measured is how long the server takes, not how long its client waits for a processor.
 */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET } from '../../../support/judge.ts'
import { launch, type Server } from '../../../support/launch.ts'
import { type OpenLoopResult, startOpenLoop } from '../../support/open-loop.ts'
import { cpuPerUnit, readCpu } from '../../support/process.ts'
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import type { Build, Workspace } from '../workspace.ts'
import { startWorld } from './checker.ts'
import { startDownloads } from './whole.ts'

/** Time for the client to start and end, beside the run. */
const GRACE_SECONDS = 20
const WARM_UP_SECONDS = 2
const SETTLE_MS = 500
/** Time between two requests for statistics, and between two changes of the list beside them. */
const ASK_EVERY_MS = 100
const CHANGE_EVERY_MS = 5_000
/** How much slower requests may be beside statistics. */
const STATS_SHARE = 1.2
/** How much slower requests may be beside a checker, in share or time, and what that checks. */
const CHECKER_SHARE = 1.5
const CHECKER_MS = 10
const CHECKER_RATE = 200
const CHECKED = 20_000
const DUE_MS = 120_000
/** More than there is time for. */
const DOWNLOADS_MAX = 1_000_000

type Target = { p99Ms: number; p999Ms: number | null }
const ALONE: Target = { p99Ms: 5, p999Ms: 25 }
const UNDER_LOAD: Target = { p99Ms: 15, p999Ms: null }

/** Only root may raise the client's priority; others lower that of everything else. */
const IS_ROOT = process.getuid?.() === 0
const CLIENT = IS_ROOT ? ['nice', '-n', '-5'] : []
const OTHERS = IS_ROOT ? [] : ['nice', '-n', '5']

type Measured = { meanwhile: string; result: OpenLoopResult; cpu: string }
/** Another load on the server; `finish` ends it and gives its name, with what it has done. */
type Beside = (build: Build, server: Server) => Promise<{ finish: () => Promise<string> }>

async function openLoop(workspace: Workspace, { port }: Server, seconds: number) {
  const { ratePerSecond, connections } = workspace.options
  const { repeated: targetsFile } = await workspace.targets()
  const input = { port, targetsFile, ratePerSecond, seconds, connections }
  return startOpenLoop(input, seconds + GRACE_SECONDS, CLIENT).result
}

/** Runs the open-loop client on a warm server, beside another load. */
async function measure(workspace: Workspace, build: Build, beside: Beside): Promise<Measured> {
  const { openSeconds } = workspace.options
  const server = await build.serve({ wrapper: OTHERS })
  try {
    await openLoop(workspace, server, WARM_UP_SECONDS)
    const { finish } = await beside(build, server)
    await Bun.sleep(SETTLE_MS)
    let meanwhile = ''
    const before = readCpu(server.pid)
    const measured = openLoop(workspace, server, openSeconds)
    const result = await measured.finally(async () => {
      meanwhile = await finish()
    })
    const used = cpuPerUnit(server.pid, before, result.answered)
    return { meanwhile, result, cpu: used === null ? '?' : `${shown(used.mainUs)} µs` }
  } finally {
    await server.stop()
  }
}

function percentiles({ p50Ms, p99Ms, p999Ms, maxMs }: OpenLoopResult): string {
  const [p50, p99, p999] = [p50Ms, p99Ms, p999Ms].map(shown)
  return `p50 ${p50}, p99 ${p99}, p99.9 ${p999}, max ${shown(maxMs)} ms`
}

/** Measures this build, and then the earlier one. */
async function measureAll(workspace: Workspace, target: Target, beside: Beside): Promise<Row[]> {
  const { ratePerSecond, openSeconds } = workspace.options
  const own = await measure(workspace, workspace.program, beside)
  const before = workspace.before && (await measure(workspace, workspace.before, beside))
  const { result, meanwhile, cpu } = own
  const { p99Ms, p999Ms, dueP99Ms, lateP99Ms, errors } = result
  const tail = target.p999Ms === null ? '' : `, p99.9 ≤ ${target.p999Ms} ms`
  return [
    {
      case: `open loop, ${count(ratePerSecond)}/s for ${openSeconds} s, ${meanwhile}`,
      this: percentiles(result),
      that: before ? `before: ${percentiles(before.result)} (${before.meanwhile})` : '',
      cpu: before ? `${cpu} : ${before.cpu}` : cpu,
      figure:
        `p99 from the intended send ${shown(dueP99Ms)} ms, ` +
        `sent late by p99 ${shown(lateP99Ms)} ms, ${count(errors)} errors`,
      target: `p99 ≤ ${shown(target.p99Ms)} ms${tail}, no errors`,
      holds: errors === 0 && p99Ms <= target.p99Ms && p999Ms <= (target.p999Ms ?? p999Ms),
    },
  ]
}

const NOTHING: Beside = async () => ({ finish: async () => 'alone' })

export const open = (workspace: Workspace): Promise<Row[]> => measureAll(workspace, ALONE, NOTHING)

export const openWhole = (workspace: Workspace): Promise<Row[]> =>
  measureAll(workspace, UNDER_LOAD, async (_, server) => {
    const limits = { downloads: DOWNLOADS_MAX, seconds: workspace.options.openSeconds + 1 }
    const { result } = await startDownloads(workspace, server, limits, OTHERS)
    const finish = async (): Promise<string> => {
      const { totalBytes, seconds, errors } = await result
      const speed = `${megabytes(totalBytes / seconds)}/s`
      return `while the whole list is downloaded (${speed}, ${errors} failures)`
    }
    return { finish }
  })

/** A row is imported now and then: the list has to be read again. */
const changes = (workspace: Workspace) => async (build: Build) => {
  const file = join(workspace.dir, 'one-row.txt')
  await Bun.write(file, 'socks5://192.0.2.1:1080\n')
  const data = await build.data()
  const changing = repeat(async () => {
    await build.importFile(file, data, OTHERS)
    await Bun.sleep(CHANGE_EVERY_MS)
  })
  const finish = async (): Promise<string> => {
    await changing.stop()
    return ''
  }
  return { finish }
}

/** The same, while statistics are asked for all the time, each time with another filter by another client. */
const queries = (workspace: Workspace) => async (build: Build, server: Server) => {
  const changing = await changes(workspace)(build)
  let [asked, answered] = [0, 0]
  const asking = repeat(async () => {
    asked += 1
    const { ok } = await fetch(`http://127.0.0.1:${server.port}/stats?ping=${asked}`, {
      headers: { 'x-forwarded-for': `198.18.${asked >> 8}.${asked & 255}` },
    })
    if (ok) answered += 1
    await Bun.sleep(ASK_EVERY_MS)
  })
  const finish = async (): Promise<string> => {
    await Promise.all([asking.stop(), changing.finish()])
    return `while /stats answers ${answered} of ${asked} filters`
  }
  return { finish }
}

/** Alternating rounds without and with statistics, the list changing in both; compares the medians of their p99. */
export async function openStats(workspace: Workspace): Promise<Row[]> {
  const { ratePerSecond, openSeconds, rounds } = workspace.options
  const without: OpenLoopResult[] = []
  const beside: Measured[] = []
  for (let round = 0; round < rounds; round += 1) {
    without.push((await measure(workspace, workspace.program, changes(workspace))).result)
    beside.push(await measure(workspace, workspace.program, queries(workspace)))
  }
  const middle = beside.toSorted((a, b) => a.result.p99Ms - b.result.p99Ms)[rounds >> 1]
  if (middle === undefined) return []
  const aloneMs = median(without.map(({ p99Ms }) => p99Ms))
  const errors = beside.reduce((sum, { result }) => sum + result.errors, 0)
  const ratios = beside.map(({ result }, n) => shown(result.p99Ms / (without[n]?.p99Ms ?? 0)))
  return [
    {
      case: `open loop, ${count(ratePerSecond)}/s for ${openSeconds} s, ${middle.meanwhile}`,
      this: percentiles(middle.result),
      that: `without: p99 ${shown(aloneMs)} ms`,
      cpu: middle.cpu,
      figure: `p99 ${shown(middle.result.p99Ms / aloneMs)} times (by round ${ratios.join(', ')}), ${count(errors)} errors`,
      target: `≤ ${STATS_SHARE} times, no errors`,
      holds: errors === 0 && middle.result.p99Ms <= STATS_SHARE * aloneMs,
    },
  ]
}

/** A checker on the data of the server: 200 checks a second of its rows that live, each a row that is written. */
export async function openChecker(workspace: Workspace): Promise<Row[]> {
  const alone = await measure(workspace, workspace.program, NOTHING)
  const aloneMs = alone.result.p99Ms
  const target = { p99Ms: Math.max(CHECKER_SHARE * aloneMs, aloneMs + CHECKER_MS), p999Ms: null }
  const world = await startWorld()
  const secret = join(workspace.dir, 'secret')
  await Bun.write(secret, `${Buffer.from(SECRET).toString('base64url')}\n`)
  chmodSync(secret, 0o600)
  return measureAll(workspace, target, async build => {
    const data = await build.data()
    // All others were checked just now, and are not due.
    const living = join(workspace.dir, 'living.ndjson')
    const at = (n: number): string =>
      `127.${1 + (n % 250)}.${Math.floor(n / 250)}.1:${world.everywhere}`
    await writeRows(living, { rows: CHECKED, nowMs: Date.now() - DUE_MS, at })
    for (const file of [await workspace.rowFiles.untimed(), living]) {
      await build.importFile(file, data, OTHERS)
    }
    const command = [
      ...[...OTHERS, build.binary, 'check', '--data', data, '--allow-private'],
      ...['--judge', `http://127.0.0.1:${world.judge.port}`, '--judge-secret', secret],
      ...['--contact', 'https://example.com/', '--rate', `${CHECKER_RATE}/s`, '--json'],
    ]
    const checker = launch(command)
    const finish = async (): Promise<string> => {
      await checker.stop()
      const last = checker.written.stderr
        .trim()
        .split('\n')
        .findLast(line => line.startsWith('{'))
      const { checked = 0, alive = 0 } = JSON.parse(last ?? '{}')
      return `beside a checker (${count(checked)} checks, ${count(alive)} alive; alone: p99 ${shown(aloneMs)} ms)`
    }
    return { finish }
  })
}

/** Imports follow one another until the client is done; each updates every row. */
export const openImport = (workspace: Workspace): Promise<Row[]> =>
  measureAll(workspace, UNDER_LOAD, async build => {
    const [file, data] = [await workspace.rowFiles.untimed(), await build.data()]
    const rates: number[] = []
    const imports = repeat(async () => {
      const { seconds } = await build.importFile(file, data, OTHERS)
      rates.push(workspace.options.rows / seconds)
    })
    const finish = async (): Promise<string> => {
      await imports.stop()
      const perSecond = count(Math.round(median(rates)))
      return `during ${rates.length} import${rates.length === 1 ? '' : 's'} (${perSecond} rows/s)`
    }
    return { finish }
  })
