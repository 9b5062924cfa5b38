/**
 * A steady load for minutes or hours during imports: memory, descriptors, WALs, disk and latency
 * must stay flat.
 *
 *     bun test/lab/torture/soak/soak.ts                for 300 seconds
 *     SECONDS=7200 RATE=2000 SEED=7 …          longer, faster, repeatable
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY) and /proc. Everything runs on 127.0.0.1 and in a
 * temporary directory. Exits with 1 when something grows.
 */

import { join } from 'node:path'
import { launch, succeed } from '../../../support/launch.ts'
import { temporaryDirectory } from '../../../support/temporary.ts'
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
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { startServe } from '../../support/serve.ts'
import { markdown } from '../../support/table.ts'
import { growthTable, measure, type Sample, timeTable } from './growth.ts'
import type { SoakLoad, Span } from './load.ts'

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

await runToEnd(main)
