/**
 * The benchmark: starts the program and what it is compared with, puts load on them, and prints
 * one Markdown table of medians and ratios beside the targets of the project.
 *
 *     bun test/lab/bench/bench.ts            everything, with 100,000 rows
 *     ROWS=1000000 bun test/lab/bench/bench.ts
 *     ONLY=repeated,open bun test/lab/bench/bench.ts
 *     DATABASE=1 bun test/lab/bench/bench.ts   nodes that share a PostgreSQL, beside one with SQLite
 *     BEFORE=../earlier/dist/proxylist bun test/lab/bench/bench.ts    with an earlier build beside it
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY). Uses wrk, nginx and Node with npm where they are
 * installed. The knobs are in `workspace.ts`; a minute of open loop is OPEN_SECONDS=60. Everything
 * runs on 127.0.0.1 and in a temporary directory (some 4 GB for a million rows, twice that with BEFORE).
 */
import { cpus, totalmem } from 'node:os'
import { endAll } from '../../support/launch.ts'
import { messageOf, onlyFrom, print, runToEnd, say } from '../support/main.ts'
import { count, type Row, resultTable } from '../support/table.ts'
import { checker } from './parts/checker.ts'
import { imports } from './parts/imports.ts'
import { open, openChecker, openImport, openStats, openWhole } from './parts/latency.ts'
import { nodes } from './parts/nodes.ts'
import { select } from './parts/select.ts'
import { start, stop } from './parts/start.ts'
import { distinct, distinctJson, proxied, refused, repeated } from './parts/throughput.ts'
import { stuck, whole } from './parts/whole.ts'
import {
  commandLine,
  createWorkspace,
  type Options,
  readOptions,
  type Workspace,
} from './workspace.ts'

/**
 * The parts in the order in which they run: starts come before the load, because the first ones are
 * without admissions; imports that change the list come last.
 */
const PARTS = {
  select: (workspace: Workspace) => select(workspace, print),
  start,
  repeated,
  proxied,
  distinct,
  'distinct-json': distinctJson,
  refused,
  whole,
  stuck,
  open,
  'open-whole': openWhole,
  'open-stats': openStats,
  checker,
  'open-checker': openChecker,
  import: imports,
  'open-import': openImport,
  stop,
  nodes,
}
type Name = keyof typeof PARTS

/** With DATABASE, only what needs it; without, everything else. */
const partNames = ({ database }: Options): Name[] =>
  (Object.keys(PARTS) as Name[]).filter(name => (name === 'nodes') === (database !== null))

function headline({ rows, connections, rounds, durationSeconds, generator }: Options): string {
  const [cpu] = cpus()
  const gigabytes = Math.round(totalmem() / 1e9)
  const date = new Date().toISOString().slice(0, 10)
  return [
    `${cpu?.model.trim()}, ${cpus().length} cores, ${gigabytes} GB memory; ${date};`,
    `Bun ${Bun.version}; \`${commandLine()}\`:`,
    `${count(rows)} rows, ${connections} connections, medians of ${rounds} alternating rounds`,
    `of ${durationSeconds} s, load from ${generator === 'wrk' ? 'wrk -t1' : 'the Bun client'}.`,
  ].join(' ')
}

/** Runs the parts one after the other; a failed one becomes a row, and the others still run. */
async function runParts(workspace: Workspace): Promise<{ rows: Row[]; failed: boolean }> {
  const rows: Row[] = []
  let failed = false
  for (const part of onlyFrom(partNames(workspace.options))) {
    const startMs = performance.now()
    try {
      rows.push(...(await PARTS[part](workspace)))
    } catch (error) {
      failed = true
      say(`${part} failed: ${messageOf(error)}`)
      rows.push({ case: part, this: 'failed', that: '', figure: '', target: '', holds: false })
    }
    await endAll()
    say(`${part}: ${Math.round((performance.now() - startMs) / 1000)} s`)
  }
  return { rows, failed }
}

async function main(): Promise<number> {
  const options = readOptions()
  const { rows, failed } = await runParts(createWorkspace(options))
  print(`${headline(options)}\n`)
  print(resultTable(rows))
  return failed ? 1 : 0
}

await runToEnd(main)
