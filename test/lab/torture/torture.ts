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
 * Needs dist/proxylist (or PROXYLIST_BINARY). Everything runs on 127.0.0.1 and in a temporary directory.
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
import { directoriesUnder, type Finding, type Part, type Run } from './part.ts'
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

/** Runs one part; what it throws becomes a finding, and the others still run. */
async function runPart(name: Name, run: Omit<Run, 'directory' | 'say'>): Promise<Finding[]> {
  const directory = directoriesUnder(temporaryDirectory('torture'))
  const startMs = performance.now()
  try {
    return await PARTS[name]({ ...run, directory, say: text => say(`${name}: ${text}`) })
  } catch (error) {
    return [{ promise: `${name} completes`, figure: messageOf(error), bound: '', holds: false }]
  } finally {
    await cleanUp()
    say(`${name}: ${Math.round((performance.now() - startMs) / 1000)} s`)
  }
}

async function main(): Promise<number> {
  const binary = binaryPath()
  const [firstSeed, scale] = [seedFrom(), numberFrom('SCALE', 1)]
  const seconds = numberFrom('SECONDS', Number.MAX_SAFE_INTEGER)
  const rounds = numberFrom('ROUNDS', process.env.SECONDS ? Number.MAX_SAFE_INTEGER : 1)
  const parts = onlyFrom(Object.keys(PARTS) as Name[])
  const startMs = performance.now()
  let broken = 0
  for (let n = 0; n < rounds && performance.now() - startMs < seconds * 1000; n += 1) {
    const seed = firstSeed + n
    say(`seed ${seed}`)
    const lines: string[][] = []
    for (const name of parts) {
      for (const { promise, figure, bound, holds } of await runPart(name, {
        binary,
        seed,
        scale,
      })) {
        const word = holds ? 'ok' : 'BROKEN'
        say(`  ${word}  ${promise}: ${figure}`)
        lines.push([promise, figure, bound, word])
        if (!holds) broken += 1
      }
    }
    print(`${headline(seed)}${scale === 1 ? '' : `, SCALE=${scale}`}\n`)
    print(markdown(['promise', 'figure', 'bound', 'ok'], lines))
  }
  return broken === 0 ? 0 : 1
}

await runToEnd(main)
