/**
 * The long tests: what the program promises under fault, attack and load, each as a figure.
 *
 *     bun test/lab/torture/torture.ts                   everything once
 *     ONLY=kill-serve,fuzz SEED=7 bun test/lab/torture/torture.ts
 *     ROUNDS=3 …                                    three times, each with the next seed
 *     SECONDS=7200 …                                again and again for this long
 *     SCALE=0.01 …                                  a hundredth of the work, while developing
 *     PG_BIN=/usr/lib/postgresql/15/bin …           nodes over this PostgreSQL
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY). Everything runs on 127.0.0.1 and in a temporary
 * directory; the seed is printed, and the same seed does the same again.
 */

import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'
import {
  binaryPath,
  headline,
  messageOf,
  numberFrom,
  onlyFrom,
  print,
  runToEnd,
  say,
  seedFrom,
} from '../support/main.ts'
import { markdown } from '../support/table.ts'
import { checkerFaults } from './checker-faults.ts'
import { faults, killServe } from './faults.ts'
import { fuzz } from './fuzz/fuzz.ts'
import { killImport } from './kill-import.ts'
import { limiter } from './limiter.ts'
import { nodesImports } from './nodes/imports.ts'
import { nodes } from './nodes/nodes.ts'
import { directoriesUnder, type Finding, type Part } from './part.ts'
import { release } from './release.ts'

/** The parts in the order in which they run. */
const PARTS = {
  limiter,
  'kill-import': killImport,
  'kill-serve': killServe,
  faults,
  fuzz,
  'checker-faults': checkerFaults,
  release,
  nodes,
  'nodes-imports': nodesImports,
} satisfies { [name: string]: Part }
type Name = keyof typeof PARTS

function readOptions() {
  return {
    binary: binaryPath(),
    seed: seedFrom(),
    scale: numberFrom('SCALE', 1),
    rounds: numberFrom('ROUNDS', process.env.SECONDS ? Number.MAX_SAFE_INTEGER : 1),
    seconds: numberFrom('SECONDS', Number.MAX_SAFE_INTEGER),
    parts: onlyFrom(Object.keys(PARTS) as Name[]),
  }
}
type Options = ReturnType<typeof readOptions>

/** Runs one part; what it throws becomes a finding, and the others still run. */
async function runPart(name: Name, { binary, scale }: Options, seed: number): Promise<Finding[]> {
  const root = temporaryDirectory('torture')
  const startMs = performance.now()
  const run = {
    binary,
    seed,
    scale,
    directory: directoriesUnder(root),
    say: (text: string) => say(`${name}: ${text}`),
  }
  try {
    return await PARTS[name](run)
  } catch (error) {
    return [{ promise: `${name} completes`, figure: messageOf(error), bound: '', holds: false }]
  } finally {
    await cleanUp()
    say(`${name}: ${Math.round((performance.now() - startMs) / 1000)} s`)
  }
}

async function runRound(options: Options, seed: number): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const name of options.parts) {
    const found = await runPart(name, options, seed)
    for (const { promise, figure, holds } of found) {
      say(`  ${holds ? 'ok' : 'BROKEN'}  ${promise}: ${figure}`)
    }
    findings.push(...found)
  }
  return findings
}

const table = (findings: readonly Finding[]): string =>
  markdown(
    ['promise', 'figure', 'bound', 'ok'],
    findings.map(({ promise, figure, bound, holds }) => [
      promise,
      figure,
      bound,
      holds ? 'ok' : 'BROKEN',
    ]),
  )

async function main(): Promise<number> {
  const options = readOptions()
  const startMs = performance.now()
  const isTimeLeft = () => performance.now() - startMs < options.seconds * 1000
  let broken = 0
  for (let round = 0; round < options.rounds && isTimeLeft(); round += 1) {
    const seed = options.seed + round
    say(`seed ${seed}`)
    const findings = await runRound(options, seed)
    broken += findings.filter(({ holds }) => !holds).length
    const scale = options.scale === 1 ? '' : `, SCALE=${options.scale}`
    print(`${headline(seed)}${scale}\n`)
    print(table(findings))
  }
  return broken === 0 ? 0 : 1
}

await runToEnd(main)
