/**
 * A steady load for minutes or hours, with imports going on: memory, descriptors, logs, disk and
 * latency must stay flat.
 *
 *     bun test/lab/torture/soak.ts                 for 300 seconds
 *     SECONDS=7200 RATE=2000 SEED=7 …          longer, faster, repeatable
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY) and /proc. Everything runs on 127.0.0.1 and in a
 * temporary directory. Exits with 1 when something grows.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addKeys } from '../bench/customers.ts'
import { childEnvironment, keepTrack, startServer } from '../bench/processes.ts'
import { writeRows } from '../bench/rows.ts'
import { markdown } from '../bench/table.ts'
import { succeed } from './kill/kill.ts'
import { binaryPath, headline, numberFrom, print, runToEnd, say, seedFrom } from './program.ts'
import { growthTable, type Look, timeTable } from './soak/growth.ts'
import type { SoakLoad, Span } from './soak/load.ts'
import { measure } from './soak/measures.ts'

const ROWS = 20_000
/** Of a merge: a quarter of the list, with newer checks. */
const MERGED_ROWS = 5_000
/** Each key asks far below what its plan allows. */
const KEYS = 10_000
const SPAN_MS = 2_000
const IMPORT_EVERY_MS = 5_000
/** Every third import replaces the list. */
const IMPORTS_PER_REPLACE = 3
/** Rows are up to 590 s old when they are imported: every minute, thousands are forgotten. */
const RETAIN = '5m'

/** Imports again and again until told to stop; says how many there were. */
function startImports(binary: string, dir: string, data: string) {
  let imports = 0
  let isOver = false
  const importOnce = async (): Promise<void> => {
    const isReplace = imports % IMPORTS_PER_REPLACE === 0
    const file = join(dir, 'rows.ndjson')
    await writeRows(file, isReplace ? ROWS : MERGED_ROWS, Date.now())
    const how = ['--format', 'ndjson', ...(isReplace ? ['--replace'] : [])]
    await succeed(binary, ['import', file, '--data', data, ...how])
    imports += 1
  }
  const importing = (async (): Promise<void> => {
    while (!isOver) {
      const beganMs = performance.now()
      await importOnce()
      await Bun.sleep(Math.max(0, IMPORT_EVERY_MS - (performance.now() - beganMs)))
    }
  })()
  importing.catch(() => {}) // `stop` throws it
  return {
    count: () => imports,
    async stop(): Promise<void> {
      isOver = true
      await importing
    },
  }
}

/** What the clients write, span by span. */
async function* spansOf(load: SoakLoad): AsyncGenerator<Span> {
  const script = join(import.meta.dir, 'soak/load.ts')
  const child = keepTrack(
    Bun.spawn([process.execPath, script, JSON.stringify(load)], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    }),
  )
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of child.stdout) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as Span // the script exports the type
  }
  if ((await child.exited) !== 0) throw new Error('the clients failed')
}

async function soak(binary: string, dir: string, seconds: number, load: Omit<SoakLoad, 'port'>) {
  const data = join(dir, 'data')
  const file = join(dir, 'first.ndjson')
  await writeRows(file, ROWS, Date.now())
  await succeed(binary, ['import', file, '--data', data])
  addKeys(data, KEYS)
  const server = await startServer('serve', [
    ...[binary, 'serve', '--data', data, '--listen', '127.0.0.1:0'],
    ...['--retain', RETAIN, '--cache-bytes', '16MiB'],
  ])
  const imports = startImports(binary, dir, data)
  const startMs = performance.now()
  const looks: Look[] = []
  for await (const span of spansOf({ ...load, port: server.port })) {
    const atSeconds = (performance.now() - startMs) / 1000
    const sample = await measure(server, data, atSeconds)
    looks.push({ ...span, ...sample, imports: imports.count() })
    const { odd } = span
    if (odd.length > 0) say(`${Math.round(atSeconds)} s: ${odd.join('; ')}`)
    if (looks.length % 15 === 0) say(`${Math.round(atSeconds)} of ${seconds} s`)
  }
  await imports.stop()
  await server.stop()
  return looks
}

async function main(): Promise<number> {
  const binary = binaryPath()
  const seconds = numberFrom('SECONDS', 300)
  const seed = seedFrom()
  const ratePerSecond = numberFrom('RATE', 1_000)
  const dir = mkdtempSync(join(tmpdir(), 'proxylist-soak-'))
  say(`seed ${seed}`)
  try {
    const spans = Math.ceil((seconds * 1000) / SPAN_MS)
    const load = { seed, ratePerSecond, keys: KEYS, spanMs: SPAN_MS, spans }
    const looks = await soak(binary, dir, seconds, load)
    const growth = growthTable(looks, (ratePerSecond * SPAN_MS) / 1000)
    print(`${headline(seed)}; ${ratePerSecond} requests/s for ${seconds} s\n`)
    print(markdown(...timeTable(looks)))
    print(markdown(...growth.table))
    return growth.holds ? 0 : 1
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

await runToEnd(main)
