/**
 * The figures of `import`: rows a second and memory, of this build and an earlier one in turn.
 */
import { rmSync } from 'node:fs'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import type { Build, Finished, Workspace } from '../workspace.ts'

const PEAK_MAX_BYTES = 250e6
const BEFORE_MIN = 1.5

type VariantName = 'sorted' | 'random' | 'csv' | 'untimed'
/** `beside`: another variant, and the share of its speed to reach. */
type Variant = { name: string; beside: { variant: VariantName; least: number } | null }

/** The kinds of import in their order: the last one updates what the others have imported. */
const VARIANTS: { readonly [name in VariantName]: Variant } = {
  sorted: { name: 'NDJSON rows in order', beside: null },
  random: { name: 'NDJSON rows in random order', beside: { variant: 'sorted', least: 0.9 } },
  csv: { name: 'CSV rows in random order', beside: { variant: 'random', least: 0.9 } },
  untimed: { name: 'NDJSON rows, updating every row', beside: null },
}
const NAMES = Object.keys(VARIANTS) as VariantName[] // the keys of the table above

type Runs = Map<VariantName, Finished[]>

/** Imports into an empty list, or again into the list of the import before. */
async function importOnce(workspace: Workspace, build: Build, name: VariantName) {
  const data = build.path('imported')
  const isUpdate = name === 'untimed'
  if (!isUpdate) rmSync(data, { recursive: true, force: true })
  const finished = await build.importFile(await workspace.rowFiles[name](), data)
  const counts: { added?: number; updated?: number } = JSON.parse(finished.stdout)
  const { rows } = workspace.options
  const changed = isUpdate ? counts.updated : counts.added
  if (changed !== rows) throw new Error(`of ${rows} rows, import changed ${changed}`)
  return finished
}

/** The ratio of the speeds of runs that lie next to each other. */
const ratioOf = (runs: readonly Finished[], others: readonly Finished[]): number =>
  median(runs.map(({ seconds }, i) => (others[i]?.seconds ?? Number.NaN) / seconds))

const peakOf = (runs: readonly Finished[]): number | null => {
  const peaks = runs.flatMap(({ peakBytes }) => peakBytes ?? [])
  return peaks.length === 0 ? null : Math.max(...peaks)
}

function speedOf(runs: readonly Finished[], rows: number): string {
  const perSecond = median(runs.map(({ seconds }) => rows / seconds))
  return `${count(Math.round(perSecond))} rows/s, ${megabytes(peakOf(runs))} at most`
}

function rowOf(name: VariantName, rows: number, own: Runs, before: Runs | null): Row {
  const variant = VARIANTS[name]
  const runs = own.get(name) ?? []
  const earlier = before?.get(name)
  const ratios: { of: string; ratio: number; least: number }[] = []
  if (earlier) ratios.push({ of: 'before', ratio: ratioOf(runs, earlier), least: BEFORE_MIN })
  if (variant.beside !== null) {
    const { variant: other, least } = variant.beside
    const ratio = ratioOf(runs, own.get(other) ?? [])
    ratios.push({ of: other === 'sorted' ? 'in order' : 'NDJSON', ratio, least })
  }
  const peak = peakOf(runs)
  return {
    case: `import of ${count(rows)} ${variant.name}`,
    this: speedOf(runs, rows),
    that: earlier ? `before: ${speedOf(earlier, rows)}` : '',
    figure: ratios.map(({ of, ratio }) => `${shown(ratio)} × ${of}`).join(', '),
    target: [
      ...ratios.map(({ of, least }) => `≥ ${least} × ${of}`),
      `≤ ${shown(PEAK_MAX_BYTES / 1e6)} MB`,
    ].join(', '),
    holds: ratios.every(({ ratio, least }) => ratio >= least) && (peak ?? 0) <= PEAK_MAX_BYTES,
  }
}

export async function imports(workspace: Workspace): Promise<Row[]> {
  const { rows, rounds } = workspace.options
  const runs = new Map<Build, Runs>(workspace.builds.map(build => [build, new Map()]))
  for (let round = 0; round < rounds; round += 1) {
    for (const name of NAMES) {
      for (const [build, done] of runs) {
        const finished = await importOnce(workspace, build, name)
        done.set(name, [...(done.get(name) ?? []), finished])
      }
    }
  }
  const own = runs.get(workspace.program) ?? new Map()
  const before = workspace.before && (runs.get(workspace.before) ?? null)
  for (const build of workspace.builds) {
    rmSync(build.path('imported'), { recursive: true, force: true })
  }
  return NAMES.map(name => rowOf(name, rows, own, before))
}
