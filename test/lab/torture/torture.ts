/**
 * The long tests: what the program promises under fault, attack and load, each as a figure.
 *
 *     bun test/lab/torture/torture.ts                   everything once
 *     ONLY=kill-serve,fuzz SEED=7 bun test/lab/torture/torture.ts
 *     ROUNDS=3 …                                    three times, each with the next seed
 *     SECONDS=7200 …                                again and again for this long
 *     SCALE=0.01 …                                  a hundredth of the work, while developing
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY). Everything runs on 127.0.0.1 and in a temporary
 * directory; the seed is printed, and the same seed does the same again.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stopAll } from '../bench/processes.ts'
import { markdown } from '../bench/table.ts'
import { addresses } from './addresses.ts'
import { backup } from './backup.ts'
import { faults } from './faults.ts'
import { fuzz } from './fuzz.ts'
import { killImport } from './kill-import.ts'
import { killServe } from './kill-serve.ts'
import { limiter } from './limiter.ts'
import { directoriesUnder, type Finding, type Part } from './part.ts'
import { binaryPath, headline, numberFrom, print, runToEnd, say, seedFrom } from './program.ts'
import { slow } from './slow.ts'

/** The parts in the order in which they run. */
const PARTS: { [name: string]: Part } = {
  limiter,
  addresses,
  'kill-import': killImport,
  'kill-serve': killServe,
  faults,
  fuzz,
  slow,
  backup,
}

function partsFrom(text: string | undefined): string[] {
  const names = Object.keys(PARTS)
  if (!text) return names
  const wanted = text.split(',').map(name => name.trim())
  const unknown = wanted.filter(name => !names.includes(name))
  if (unknown.length > 0) throw new Error(`ONLY takes ${names.join(', ')}; not ${unknown.join()}`)
  return names.filter(name => wanted.includes(name))
}

function readOptions() {
  return {
    binary: binaryPath(),
    seed: seedFrom(),
    scale: numberFrom('SCALE', 1),
    rounds: numberFrom('ROUNDS', process.env.SECONDS ? Number.MAX_SAFE_INTEGER : 1),
    seconds: numberFrom('SECONDS', Number.MAX_SAFE_INTEGER),
    parts: partsFrom(process.env.ONLY),
  }
}
type Options = ReturnType<typeof readOptions>

/** Runs one part; what it throws becomes a finding, and the others go on. */
async function runPart(name: string, { binary, scale }: Options, seed: number): Promise<Finding[]> {
  const root = mkdtempSync(join(tmpdir(), 'proxylist-torture-'))
  const startMs = performance.now()
  const run = {
    binary,
    seed,
    scale,
    directory: directoriesUnder(root),
    say: (text: string) => say(`${name}: ${text}`),
  }
  try {
    return (await PARTS[name]?.(run)) ?? []
  } catch (error) {
    const figure = error instanceof Error ? error.message : String(error)
    return [{ promise: `${name} runs to its end`, figure, bound: '', holds: false }]
  } finally {
    await stopAll()
    rmSync(root, { recursive: true, force: true })
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
    print(`${headline(seed)}${scale}
`)
    print(table(findings))
  }
  return broken === 0 ? 0 : 1
}

await runToEnd(main)
