/**
 * Mutation score: makes one small error at a time in the limiter, the query parser and the import,
 * and runs the tests that cover it. An error that no test notices is a survivor.
 *
 *     bun test/lab/mutation/mutate.ts                    a sample of each group
 *     SAMPLE=all ONLY=limits …                       every mutant of a group, or of a source file
 *     SEED=7 SAMPLE=50 …                             another sample; the same seed draws the same
 *     LEAST=85                                       lowest score in percent, else exit status 1
 *
 * Score: noticed (a test failed, or ran into the time limit) of all mutants that compile.
 */
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../support/program.ts'
import { randomOf, shuffled } from '../../support/random.ts'
import { numberFrom, onlyFrom, print, runToEnd, say } from '../support/main.ts'
import { markdown } from '../support/table.ts'
import { type Mutant, openCompiler } from './check.ts'
import { EQUIVALENT } from './equivalent.ts'
import { GROUPS } from './groups.ts'
import { createWorkspace, type Fate, type Workspace } from './workspace.ts'

/** The groups and their source files. */
const NAMES = Object.entries(GROUPS).flatMap(([group, sources]) => [group, ...Object.keys(sources)])
const SAMPLE_USUAL = 120
const readOptions = () => ({
  seed: numberFrom('SEED', 1, 0),
  sample: process.env.SAMPLE === 'all' ? Infinity : numberFrom('SAMPLE', SAMPLE_USUAL, 0),
  least: numberFrom('LEAST', 85, 0),
  only: onlyFrom(NAMES),
})
type Options = ReturnType<typeof readOptions>

type Compiler = Awaited<ReturnType<typeof openCompiler>>
type Tests = readonly string[]
type Result = { mutant: Mutant; fate: Fate }

const isEquivalent = ({ source, mutatedLine }: Mutant): boolean =>
  EQUIVALENT.some(known => known.source === source && known.lines.includes(mutatedLine))

/** Reports known equivalents that are no mutants any more, because their line has changed. */
function sayOutdated(mutants: readonly Mutant[], sources: readonly string[]): void {
  const lines = new Set(mutants.map(({ source, mutatedLine }) => `${source}: ${mutatedLine}`))
  for (const { source, lines: known } of EQUIVALENT) {
    if (!sources.includes(source)) continue
    const outdated = known.map(line => `${source}: ${line}`).filter(line => !lines.has(line))
    for (const line of outdated) say(`equivalent.ts holds a line that is no mutant: ${line}`)
  }
}

/** Mutants to try, up to the sample: those that compile and are not known as equivalent. */
async function sampleOf(
  compiler: Compiler,
  { seed, sample: size }: Options,
  name: string,
  sources: readonly string[],
): Promise<Mutant[]> {
  const all: Mutant[] = []
  for (const source of sources) all.push(...(await compiler.mutantsOf(source)))
  sayOutdated(all, sources)
  const sample: Mutant[] = []
  for (const mutant of shuffled(randomOf(seed, name), all)) {
    if (sample.length >= size) break
    if (!isEquivalent(mutant) && (await compiler.compiles(mutant))) sample.push(mutant)
  }
  return sample
}

/** The processor time that each list of tests may take, measured without any mutant. */
async function limitsOf(lists: Iterable<Tests>, workspaces: readonly Workspace[]) {
  const limits = new Map<Tests, number>()
  for (const tests of new Set(lists)) {
    const runs = await Promise.all(workspaces.map(workspace => workspace.run(tests, 600)))
    const failed = runs.find(({ fate }) => fate !== 'survived')
    if (failed) throw new Error(`without any mutant, ${tests.join()} are ${failed.fate}`)
    limits.set(tests, Math.ceil(2 * Math.max(...runs.map(({ seconds }) => seconds))) + 2)
  }
  return limits
}

/** Tries every mutant, one in each workspace at a time. */
async function tryAll(
  mutants: readonly Mutant[],
  testsOf: { readonly [source: string]: Tests },
  workspaces: readonly Workspace[],
): Promise<Result[]> {
  const wanted = mutants.map(mutant => ({ mutant, tests: testsOf[mutant.source] ?? [] }))
  const limits = await limitsOf(new Set(wanted.map(({ tests }) => tests)), workspaces)
  const queue = wanted.values()
  const results: Result[] = []
  const work = async (workspace: Workspace): Promise<void> => {
    for (const { mutant, tests } of queue) {
      workspace.put(mutant.source, mutant.text)
      const { fate } = await workspace.run(tests, limits.get(tests) ?? 0)
      results.push({ mutant, fate })
      workspace.put(mutant.source, readFileSync(join(ROOT, mutant.source), 'utf8'))
      if (results.length % 50 === 0) say(`${results.length} of ${mutants.length}`)
    }
  }
  await Promise.all(workspaces.map(work))
  return results
}

const shortened = (text: string): string => (text.length > 60 ? `${text.slice(0, 59)}…` : text)

function survivorsOf(results: readonly Result[]): string[] {
  return results
    .filter(({ fate }) => fate === 'survived')
    .map(({ mutant }) => mutant)
    .sort((a, b) => a.source.localeCompare(b.source) || a.line - b.line)
    .map(({ source, line, before, after }) => {
      return `${source}:${line}  ${shortened(before)}  →  ${shortened(after) || '(nothing)'}`
    })
}

const countOf = (results: readonly Result[], fate: Fate): number =>
  results.filter(result => result.fate === fate).length
const scoreOf = (results: readonly Result[]): number =>
  results.length === 0 ? 100 : 100 * (1 - countOf(results, 'survived') / results.length)

const rowOf = (name: string, results: readonly Result[]): string[] => [
  name,
  String(results.length),
  ...(['killed', 'survived', 'timed out'] as const).map(fate => String(countOf(results, fate))),
  `${scoreOf(results).toFixed(1)} %`,
]

async function tryGroups(
  options: Options,
  workspaces: readonly Workspace[],
  compiler: Compiler,
): Promise<number> {
  const rows: string[][] = []
  let isEnough = true
  for (const [name, testsOf] of Object.entries(GROUPS)) {
    const wanted = Object.keys(testsOf).filter(source =>
      [name, source].some(it => options.only.includes(it)),
    )
    if (wanted.length === 0) continue
    const mutants = await sampleOf(compiler, options, name, wanted)
    say(`${name}: ${mutants.length} mutants`)
    const results = await tryAll(mutants, testsOf, workspaces)
    for (const survivor of survivorsOf(results)) print(survivor)
    rows.push(rowOf(name, results))
    isEnough &&= scoreOf(results) >= options.least
  }
  print(
    `\nseed ${options.seed}, ${Number.isFinite(options.sample) ? `up to ${options.sample} mutants a group` : 'every mutant'}\n`,
  )
  print(markdown(['group', 'mutants', 'killed', 'survived', 'timed out', 'score'], rows))
  return isEnough ? 0 : 1
}

async function main(): Promise<number> {
  const options = readOptions()
  const workspaces = Array.from({ length: availableParallelism() }, () =>
    createWorkspace(options.seed),
  )
  const compiler = await openCompiler()
  try {
    return await tryGroups(options, workspaces, compiler)
  } finally {
    await compiler.close()
  }
}

await runToEnd(main)
