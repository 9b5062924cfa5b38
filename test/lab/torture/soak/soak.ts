/**
 * A steady load for minutes or hours during imports: memory, descriptors, WALs, disk and latency
 * must stay flat.
 *
 *     bun test/lab/torture/soak/soak.ts                for 300 seconds
 *     SECONDS=7200 RATE=2000 SEED=7 …          longer, faster, repeatable
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY) and /proc. Everything runs on 127.0.0.1 and in a
 * temporary directory. Exits with 1 when something grows.
 *
 * Flat means: the least-squares line through the second half, extended to an hour, rises by no
 * more than a share of the level. The line goes through the lowest value of every half minute: the
 * engine collects garbage every ten to thirty seconds, and what remains then is what counts
 * (observed: a sawtooth from 195 to 270 MB, whose low points lie within 5 MB).
 *
 * Five such points 5 MB apart are a slope of about 100 MB an hour at most; an object of 100 bytes
 * kept for each request is 360 MB an hour at 1,000 requests a second. The bound for memory, its
 * level of about 200 MB, lies between. Descriptors: one kept for each import is 720 an hour, for
 * each connection 180,000. WALs and files: every import rewrites 3,000 MB an hour.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { launch, type Server, succeed } from '../../../support/launch.ts'
import { temporaryDirectory } from '../../../support/temporary.ts'
import { openClient } from '../../support/client.ts'
import { addCustomers } from '../../support/customers.ts'
import {
  binaryPath,
  headline,
  numberFrom,
  print,
  runToEnd,
  say,
  seedFrom,
} from '../../support/main.ts'
import { readMemory } from '../../support/process.ts'
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { files, startServe } from '../../support/serve.ts'
import { count, markdown, median, shown } from '../../support/table.ts'
import type { SoakLoad, Span } from './load.ts'

/** A measured value, `atSeconds` after the beginning. */
type Point = { atSeconds: number; value: number }

/**
 * The lowest point of each `size` points; a shorter rest is left out. The troughs show what is
 * held; above them is what waits to be collected or written back.
 */
function troughsOf(points: readonly Point[], size: number): Point[] {
  const troughs: Point[] = []
  for (let at = 0; at + size <= points.length; at += size) {
    const run = points.slice(at, at + size)
    troughs.push(run.reduce((least, point) => (point.value < least.value ? point : least)))
  }
  return troughs
}

/** Slope of the least-squares line through the points, in units a second; 0 for fewer than two. */
function slopeOf(points: readonly Point[]): number {
  const mean = (pick: (point: Point) => number): number =>
    points.reduce((sum, point) => sum + pick(point), 0) / points.length
  const [atMean, valueMean] = [mean(p => p.atSeconds), mean(p => p.value)]
  let [covariance, variance] = [0, 0]
  for (const { atSeconds, value } of points) {
    covariance += (atSeconds - atMean) * (value - valueMean)
    variance += (atSeconds - atMean) ** 2
  }
  return variance === 0 ? 0 : covariance / variance
}

/** One measurement of the server; latencies come from the clients. */
type Measured = {
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

/** @throws Error without /proc, or when the process has ended. */
async function measure({ pid, where }: Server, data: string, atSeconds: number): Promise<Measured> {
  const memory = readMemory(pid)
  if (memory === null) throw new Error('the memory of the server cannot be read from /proc')
  const { list, access } = files(data)
  const client = await openClient(where)
  const timesMs: number[] = []
  while (timesMs.length < PROBES) {
    const startMs = performance.now()
    await client.ask('/healthz')
    timesMs.push(performance.now() - startMs)
  }
  client.close()
  return {
    atSeconds,
    residentBytes: memory.residentBytes,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    listWalBytes: sizeOf(`${list}-wal`),
    accessWalBytes: sizeOf(`${access}-wal`),
    diskBytes: readdirSync(data).reduce((sum, name) => sum + sizeOf(join(data, name)), 0),
    loopMs: median(timesMs),
  }
}

/** Measurements of clients and server at the end of one span. */
type Sample = Measured & Span & { imports: number }

/** Samples in a line of the table, or a multiple of it; and most lines. */
const SAMPLES_PER_LINE = 5
const LINES_MAX = 30
/** Samples for one trough; fewer when there would not be enough troughs for a line. */
const SAMPLES_PER_TROUGH = 15
const TROUGHS_MIN = 5
const HOUR_SECONDS = 3600
/** Share of the requests that may be left unsent at the end, by timers that are late. */
const UNSENT_SHARE_MAX = 0.01

type Measure = {
  name: string
  unit: string
  of: (sample: Sample) => number
  /** Allowed growth in an hour, as a share of the level. */
  shareMax: number
  /** Growth that is always allowed: a share of a tiny level would be noise. */
  alwaysMax?: number
}

const mb = (of: (sample: Sample) => number) => (sample: Sample) => of(sample) / 1e6

const MEASURES: readonly Measure[] = [
  { name: 'resident memory', unit: 'MB', of: mb(sample => sample.residentBytes), shareMax: 1 },
  { name: 'open descriptors', unit: '', of: sample => sample.descriptors, shareMax: 3 },
  { name: 'WAL of the list', unit: 'MB', of: mb(sample => sample.listWalBytes), shareMax: 10 },
  { name: 'WAL of the usage', unit: 'MB', of: mb(sample => sample.accessWalBytes), shareMax: 3 },
  { name: 'data directory', unit: 'MB', of: mb(sample => sample.diskBytes), shareMax: 1 },
  { name: 'answer, p50', unit: 'ms', of: sample => sample.p50Ms, shareMax: 5, alwaysMax: 5 },
  { name: 'event loop', unit: 'ms', of: sample => sample.loopMs, shareMax: 5, alwaysMax: 2 },
]

type Table = [head: string[], lines: string[][]]

/** At most LINES_MAX lines: the levels at the end of each, its slowest answers and its downloads. */
function timeTable(samples: readonly Sample[]): Table {
  const head = ['s', ...MEASURES.map(({ name, unit }) => (unit ? `${name}, ${unit}` : name))]
  const step = SAMPLES_PER_LINE * Math.ceil(samples.length / (SAMPLES_PER_LINE * LINES_MAX))
  const lines: string[][] = []
  for (let at = step; at <= samples.length; at += step) {
    const part = samples.slice(at - step, at)
    const last = part.at(-1)
    if (last === undefined) break
    lines.push([
      String(Math.round(last.atSeconds)),
      ...MEASURES.map(({ of }) => shown(of(last))),
      shown(Math.max(...part.map(sample => sample.p99Ms))),
      shown(Math.max(...part.map(sample => sample.maxMs))),
      String(part.reduce((sum, sample) => sum + sample.downloads, 0)),
      String(last.imports),
    ])
  }
  return [[...head, 'p99, ms', 'max, ms', 'lists', 'imports'], lines]
}

/** The level of a measure in the second half, and how much it grows in an hour. */
export function growthOf(samples: readonly Sample[], of: Measure['of']) {
  const half = samples.slice(samples.length >> 1)
  const points: Point[] = half.map(sample => ({ atSeconds: sample.atSeconds, value: of(sample) }))
  const size = Math.min(SAMPLES_PER_TROUGH, Math.floor(points.length / TROUGHS_MIN))
  const troughs = troughsOf(points, Math.max(1, size))
  return {
    level: median(troughs.map(({ value }) => value)),
    perHour: slopeOf(troughs) * HOUR_SECONDS,
  }
}

/** The table of figures and bounds, and whether all of them hold. */
function growthTable(samples: readonly Sample[], perSpan: number) {
  const lines = MEASURES.map(({ name, unit, of, shareMax, alwaysMax = 0 }) => {
    const { level, perHour } = growthOf(samples, of)
    const most = Math.max(alwaysMax, shareMax * level)
    const sign = perHour < 0 ? '−' : '+'
    return {
      name,
      figure: `${shown(level)} ${unit}`,
      growth: `${sign}${shown(Math.abs(perHour))} ${unit} an hour`,
      bound: `≤ +${shown(most)} ${unit} an hour`,
      holds: perHour <= most,
    }
  })
  const sum = (of: (sample: Sample) => number): number =>
    samples.reduce((all, sample) => all + of(sample), 0)
  const unexpected = samples.flatMap(sample => sample.unexpected)
  const sent = sum(sample => sample.sent)
  const wanted = perSpan * samples.length
  lines.push({
    name: 'unexpected answers',
    figure: `${unexpected.length} of ${count(sent)}${unexpected[0] ? ` (${unexpected[0]})` : ''}`,
    growth: '',
    bound: '0',
    holds: unexpected.length === 0,
  })
  lines.push({
    name: 'requests answered',
    figure: count(sum(sample => sample.answered)),
    growth: `and ${count(sum(sample => sample.downloads))} full lists`,
    bound: `≥ ${count(Math.ceil(wanted * (1 - UNSENT_SHARE_MAX)))}`,
    holds: sum(sample => sample.answered) >= wanted * (1 - UNSENT_SHARE_MAX),
  })
  const head = ['what', 'second half', 'slope', 'bound', 'ok']
  const cells = lines.map(({ name, figure, growth, bound, holds }) => [
    ...[name, figure, growth, bound],
    holds ? 'ok' : 'BROKEN',
  ])
  return { table: [head, cells] satisfies Table as Table, holds: lines.every(l => l.holds) }
}

const ROWS = 20_000
/** Of a merge: a quarter of the list, with newer checks. */
const MERGED_ROWS = 5_000
/** So many that each stays far below the limits of its plan. */
const KEYS = 10_000
const SPAN_MS = 2_000
const IMPORT_EVERY_MS = 5_000
/** Every third import replaces the list. */
const IMPORTS_PER_REPLACE = 3
/** Rows are up to 590 s old when they are imported: every minute, thousands are removed. */
const RETAIN = '5m'

/** Imports again and again until it is stopped. */
function startImports(binary: string, dir: string, data: string) {
  let imports = 0
  const { stop } = repeat(async () => {
    const startMs = performance.now()
    const isReplace = imports % IMPORTS_PER_REPLACE === 0
    const file = join(dir, 'rows.ndjson')
    await writeRows(file, { rows: isReplace ? ROWS : MERGED_ROWS, nowMs: Date.now() })
    const how = ['--format', 'ndjson', ...(isReplace ? ['--replace'] : [])]
    await succeed([binary, 'import', file, '--data', data, ...how])
    imports += 1
    await Bun.sleep(Math.max(0, IMPORT_EVERY_MS - (performance.now() - startMs)))
  })
  return { count: () => imports, stop }
}

/** What the clients write, span by span. */
async function* spansOf(load: SoakLoad): AsyncGenerator<Span> {
  const command = [process.execPath, join(import.meta.dir, 'load.ts'), JSON.stringify(load)]
  const child = launch(command, { stdout: 'pipe', stderr: 'inherit' })
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of child.stdout ?? []) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as Span // the script exports the type
  }
  if ((await child.exited) !== 0) throw new Error('the clients failed')
}

async function soak(binary: string, dir: string, seconds: number, load: Omit<SoakLoad, 'port'>) {
  const data = join(dir, 'data')
  const file = join(dir, 'first.ndjson')
  await writeRows(file, { rows: ROWS, nowMs: Date.now() })
  await succeed([binary, 'import', file, '--data', data])
  addCustomers(data, KEYS)
  const more = ['--retain', RETAIN, '--cache-bytes', '16MiB']
  const server = await startServe(binary, { data, more })
  const imports = startImports(binary, dir, data)
  const startMs = performance.now()
  const samples: Sample[] = []
  for await (const span of spansOf({ ...load, port: server.port })) {
    const atSeconds = (performance.now() - startMs) / 1000
    const measured = await measure(server, data, atSeconds)
    samples.push({ ...span, ...measured, imports: imports.count() })
    const { unexpected } = span
    if (unexpected.length > 0) say(`${Math.round(atSeconds)} s: ${unexpected.join('; ')}`)
    if (samples.length % 15 === 0) say(`${Math.round(atSeconds)} of ${seconds} s`)
  }
  await imports.stop()
  await server.stop()
  return samples
}

async function main(): Promise<number> {
  const binary = binaryPath()
  const seconds = numberFrom('SECONDS', 300)
  const seed = seedFrom()
  const ratePerSecond = numberFrom('RATE', 1_000)
  say(`seed ${seed}`)
  const spans = Math.ceil((seconds * 1000) / SPAN_MS)
  const load = { seed, ratePerSecond, keys: KEYS, spanMs: SPAN_MS, spans }
  const samples = await soak(binary, temporaryDirectory('soak'), seconds, load)
  const growth = growthTable(samples, (ratePerSecond * SPAN_MS) / 1000)
  print(`${headline(seed)}; ${ratePerSecond} requests/s for ${seconds} s\n`)
  print(markdown(...timeTable(samples)))
  print(markdown(...growth.table))
  return growth.holds ? 0 : 1
}

if (import.meta.main) await runToEnd(main)
