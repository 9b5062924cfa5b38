/**
 * Latency at a fixed rate: alone, and beside another load on the server. The clients are processes of their own, and
 * this one has priority: what is measured is how long the server takes, not how long its client waits for a processor.
 */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET } from '../../../support/judge.ts'
import { launch, type Server } from '../../../support/launch.ts'
import { keyOf } from '../../support/customers.ts'
import { type OpenLoopResult, startOpenLoop } from '../../support/open-loop.ts'
import { cpuPerUnit, readCpu, readMemory, resetPeak } from '../../support/process.ts'
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { script } from '../../support/script.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import type { Build, Workspace } from '../workspace.ts'
import { startWorld } from './world.ts'

/** Time for the client to start and end, beside the run. */
const GRACE_SECONDS = 20
const WARM_UP_SECONDS = 2
const SETTLE_MS = 500

/** Only root may raise the client's priority; others lower that of everything else. */
const IS_ROOT = process.getuid?.() === 0
const CLIENT = IS_ROOT ? ['nice', '-n', '-5'] : []
const OTHERS = IS_ROOT ? [] : ['nice', '-n', '5']

/** Another load on a server; the returned function ends it and says what it has done. */
type Beside = (workspace: Workspace, build: Build, server: Server) => Promise<() => Promise<string>>
/** Most milliseconds of the percentiles, and most bytes that the server may grow by. */
type Target = { p99Ms: number; p999Ms?: number; grownBytes?: number }

/** How fast full lists were downloaded. */
async function download({ port, keys, seconds }: { port: number; keys: number; seconds: number }) {
  const result = { bytes: 0, failures: 0, seconds: 0 }
  const signal = AbortSignal.timeout(seconds * 1000)
  const startMs = performance.now()
  for (let n = 0; !signal.aborted; n += 1) {
    // Each `time` finds the same rows and is another filter: no download is served from the cache.
    const url = `http://127.0.0.1:${port}/api?key=${keyOf(n % keys)}&time=${86_400 + n}&get=json`
    try {
      const response = await fetch(url, { headers: { 'accept-encoding': 'identity' }, signal })
      let last = 0
      for await (const chunk of response.body ?? []) {
        result.bytes += chunk.length
        last = chunk.at(-1) ?? last
      }
      if (response.status !== 200 || last !== 0x5d) result.failures += 1
    } catch {
      if (!signal.aborted) result.failures += 1
    }
  }
  result.seconds = (performance.now() - startMs) / 1000
  return result
}

const alone: Beside = async () => async () => 'alone'

const downloads: Beside = async ({ options }, _, { port }) => {
  const input = { port, keys: options.keys, seconds: options.openSeconds + 1 }
  const { result } = startDownload(input, input.seconds + GRACE_SECONDS, OTHERS)
  return async () => {
    const { bytes, seconds, failures } = await result
    return `while the whole list is downloaded (${megabytes(bytes / seconds)}/s, ${failures} failures)`
  }
}

/** Statistics are asked for all the time, each time with another filter by another client, of a list that changes. */
const stats: Beside = async ({ dir }, build, { port }) => {
  const file = join(dir, 'one-row.txt')
  await Bun.write(file, 'socks5://192.0.2.1:1080\n')
  const data = await build.data()
  const changing = repeat(async () => {
    await build.importFile(file, data, OTHERS)
    await Bun.sleep(5_000)
  })
  let answered = 0
  const asking = repeat(async n => {
    const headers = { 'x-forwarded-for': `198.18.${n >> 8}.${n & 255}` }
    const { ok } = await fetch(`http://127.0.0.1:${port}/stats?ping=${n}`, { headers })
    if (ok) answered += 1
    await Bun.sleep(100)
  })
  return async () => {
    await Promise.all([asking.stop(), changing.stop()])
    return `while /stats answers ${answered} filters`
  }
}

/** Imports follow one another until the client is done; each updates every row. */
const importing: Beside = async ({ options, rowFiles }, build) => {
  const [file, data] = [await rowFiles.untimed(), await build.data()]
  const rates: number[] = []
  const imports = repeat(async () => {
    const { seconds } = await build.importFile(file, data, OTHERS)
    rates.push(options.rows / seconds)
  })
  return async () => {
    await imports.stop()
    return `during ${rates.length} imports (${count(Math.round(median(rates)))} rows/s)`
  }
}

const CHECKER_RATE = 200
const CHECKED = 20_000
const DUE_MS = 120_000

/** A checker on the data of the server: 200 checks a second of its rows that live, each a row that is written. */
const checking: Beside = async ({ dir, rowFiles }, build) => {
  const world = await startWorld()
  const secret = join(dir, 'secret')
  await Bun.write(secret, `${Buffer.from(SECRET).toString('base64url')}\n`)
  chmodSync(secret, 0o600)
  const data = await build.data()
  // All others were checked just now, and are not due.
  const living = join(dir, 'living.ndjson')
  const at = (n: number): string =>
    `127.${1 + (n % 250)}.${Math.floor(n / 250)}.1:${world.everywhere}`
  await writeRows(living, { rows: CHECKED, nowMs: Date.now() - DUE_MS, at })
  for (const file of [await rowFiles.untimed(), living]) await build.importFile(file, data, OTHERS)
  const checker = launch([
    ...[...OTHERS, build.binary, 'check', '--data', data, '--allow-private'],
    ...['--judge', `http://127.0.0.1:${world.judge.port}`, '--judge-secret', secret],
    ...['--contact', 'https://example.com/', '--rate', `${CHECKER_RATE}/s`, '--json'],
  ])
  return async () => {
    await checker.stop()
    const lines = checker.written.stderr.trim().split('\n')
    const last = lines.findLast(line => line.startsWith('{'))
    const { checked = 0, alive = 0 } = JSON.parse(last ?? '{}')
    return `beside a checker (${count(checked)} checks, ${count(alive)} alive)`
  }
}

async function openLoop(workspace: Workspace, { port }: Server, seconds: number) {
  const { ratePerSecond, connections } = workspace.options
  const { repeated: targetsFile } = await workspace.targets()
  const input = { port, targetsFile, ratePerSecond, seconds, connections }
  return startOpenLoop(input, seconds + GRACE_SECONDS, CLIENT).result
}

/** Runs the open-loop client on a warm server, beside another load. */
async function measure(workspace: Workspace, build: Build, beside: Beside) {
  // `/stats` counts clients by their address.
  const more = ['--trust-proxy', '127.0.0.1']
  const server = await build.serve({ wrapper: OTHERS, more })
  try {
    await openLoop(workspace, server, WARM_UP_SECONDS)
    resetPeak(server.pid)
    const memory = readMemory(server.pid)
    const finish = await beside(workspace, build, server)
    await Bun.sleep(SETTLE_MS)
    const before = readCpu(server.pid)
    const result = await openLoop(workspace, server, workspace.options.openSeconds)
    const used = cpuPerUnit(server.pid, before, result.answered)
    const meanwhile = await finish()
    const grownBytes = (readMemory(server.pid)?.peakBytes ?? 0) - (memory?.residentBytes ?? 0)
    return { meanwhile, result, grownBytes, cpu: used === null ? '?' : `${shown(used.mainUs)} µs` }
  } finally {
    await server.stop()
  }
}

function percentiles({ p50Ms, p99Ms, p999Ms, maxMs }: OpenLoopResult): string {
  const [p50, p99, p999] = [p50Ms, p99Ms, p999Ms].map(shown)
  return `p50 ${p50}, p99 ${p99}, p99.9 ${p999}, max ${shown(maxMs)} ms`
}

/** Measures this build, and then the earlier one. */
const measured =
  (beside: Beside, target: Target) =>
  async (workspace: Workspace): Promise<Row[]> => {
    const { ratePerSecond, openSeconds } = workspace.options
    const own = await measure(workspace, workspace.program, beside)
    const before = workspace.before && (await measure(workspace, workspace.before, beside))
    const { p99Ms, p999Ms, dueP99Ms, lateP99Ms, errors } = own.result
    const isGrown = own.grownBytes > (target.grownBytes ?? Infinity)
    return [
      {
        case: `open loop, ${count(ratePerSecond)}/s for ${openSeconds} s, ${own.meanwhile}`,
        this: percentiles(own.result),
        that: before ? `before: ${percentiles(before.result)} (${before.meanwhile})` : '',
        cpu: before ? `${own.cpu} : ${before.cpu}` : own.cpu,
        figure:
          `p99 from the intended send ${shown(dueP99Ms)} ms, sent late by p99 ${shown(lateP99Ms)} ms, ` +
          `${count(errors)} errors, the server grows by ${megabytes(own.grownBytes)}`,
        target: [
          `p99 ≤ ${shown(target.p99Ms)} ms`,
          ...(target.p999Ms ? [`p99.9 ≤ ${target.p999Ms} ms`] : []),
          ...(target.grownBytes ? [`≤ ${megabytes(target.grownBytes)}`] : []),
          'no errors',
        ].join(', '),
        holds:
          errors === 0 && !isGrown && p99Ms <= target.p99Ms && p999Ms <= (target.p999Ms ?? p999Ms),
      },
    ]
  }

export const LATENCY = {
  open: measured(alone, { p99Ms: 5, p999Ms: 25 }),
  'open-whole': measured(downloads, { p99Ms: 15, grownBytes: 120e6 }),
  'open-stats': measured(stats, { p99Ms: 15 }),
  'open-checker': measured(checking, { p99Ms: 15 }),
  'open-import': measured(importing, { p99Ms: 15 }),
}

const startDownload = script(import.meta, download)
