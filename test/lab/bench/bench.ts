/**
 * The benchmark: starts the program and what it is compared with, puts load on them, and prints one Markdown table of
 * medians and ratios beside the targets of the project.
 *
 *     bun test/lab/bench/bench.ts              everything, with 100,000 rows
 *     ONLY=repeated,open ROWS=1000000 …        some parts, with more rows
 *     BEFORE=89dd3e6 …                         a commit, or an earlier build, beside this one
 *     DATABASE=1 …                             a node over PostgreSQL beside a server with SQLite
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY). Uses wrk and Node with npm where they are installed. Everything
 * runs on 127.0.0.1 and in a temporary directory (some 4 GB for a million rows, twice that with BEFORE).
 */
import { cpus, totalmem } from 'node:os'
import { endAll } from '../../support/launch.ts'
import { messageOf, onlyFrom, print, runToEnd, say } from '../support/main.ts'
import { count, type Row, resultTable } from '../support/table.ts'
import { checker } from './parts/checker.ts'
import { imports } from './parts/imports.ts'
import { LATENCY } from './parts/latency.ts'
import { start } from './parts/start.ts'
import { CASES, compare } from './parts/throughput.ts'
import {
  commandLine,
  createWorkspace,
  type Options,
  readOptions,
  type Workspace,
} from './workspace.ts'

type Part = (workspace: Workspace) => Promise<Row[]>

/** In their order: starts come before the load, because the first ones are without admissions; imports come last. */
const PARTS: { readonly [name: string]: Part } = {
  start,
  ...Object.fromEntries(
    Object.entries(CASES).map(([name, what]): [string, Part] => [
      name,
      each => compare(each, what),
    ]),
  ),
  ...LATENCY,
  checker,
  import: imports,
}

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

async function main(): Promise<number> {
  const options = await readOptions()
  const workspace = createWorkspace(options)
  const rows: Row[] = []
  let failed = false
  for (const name of onlyFrom(Object.keys(PARTS))) {
    const startMs = performance.now()
    try {
      rows.push(...((await PARTS[name]?.(workspace)) ?? []))
    } catch (error) {
      // A failed part becomes a row, and the others still run.
      failed = true
      say(`${name} failed: ${messageOf(error)}`)
      rows.push({ case: name, this: 'failed', that: '', figure: '', target: '', holds: false })
    }
    await endAll()
    say(`${name}: ${Math.round((performance.now() - startMs) / 1000)} s`)
  }
  print(`${headline(options)}\n`)
  print(resultTable(rows))
  return failed ? 1 : 0
}

await runToEnd(main)
