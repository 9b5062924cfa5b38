/** The figures of `import`: rows a second and memory, of this build and an earlier one in turn. */
import { rmSync } from 'node:fs'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import type { Build, Finished, Workspace } from '../workspace.ts'

const PEAK_MAX_BYTES = 250e6
/** The share of the speed of the variant before that one must reach. */
const BESIDE_MIN = 0.9

/** The kinds of import in their order: the last one updates what the others have imported. */
const VARIANTS = [
  { file: 'sorted', name: 'NDJSON rows in order', beside: '' },
  { file: 'random', name: 'NDJSON rows in random order', beside: 'in order' },
  { file: 'csv', name: 'CSV rows in random order', beside: 'NDJSON' },
  { file: 'untimed', name: 'NDJSON rows, updating every row', beside: '' },
] as const
type File = (typeof VARIANTS)[number]['file']

/** Imports into an empty list, or again into the list of the import before. */
async function importOnce(workspace: Workspace, build: Build, file: File): Promise<Finished> {
  const data = build.path('imported')
  const isUpdate = file === 'untimed'
  if (!isUpdate) rmSync(data, { recursive: true, force: true })
  const finished = await build.importFile(await workspace.rowFiles[file](), data)
  const counts: { added?: number; updated?: number } = JSON.parse(finished.stdout)
  const { rows } = workspace.options
  const changed = isUpdate ? counts.updated : counts.added
  if (changed !== rows) throw new Error(`of ${rows} rows, import changed ${changed}`)
  return finished
}

/** The ratio of the speeds of runs that lie next to each other. */
const ratioOf = (runs: readonly Finished[], others: readonly Finished[]): number =>
  median(runs.map(({ seconds }, i) => (others[i]?.seconds ?? Number.NaN) / seconds))

const peakOf = (runs: readonly Finished[]): number =>
  Math.max(0, ...runs.flatMap(({ peakBytes }) => peakBytes ?? []))

function speedOf(runs: readonly Finished[], rows: number): string {
  const perSecond = median(runs.map(({ seconds }) => rows / seconds))
  return `${count(Math.round(perSecond))} rows/s, ${megabytes(peakOf(runs))} at most`
}

export async function imports(workspace: Workspace): Promise<Row[]> {
  const { builds, program, before } = workspace
  const { rows, rounds } = workspace.options
  const all = new Map<string, Finished[]>()
  const runsOf = (build: Build | null, file: string): Finished[] =>
    all.get(`${build?.name} ${file}`) ?? []
  for (let round = 0; round < rounds; round += 1) {
    for (const { file } of VARIANTS) {
      for (const build of builds) {
        const done = await importOnce(workspace, build, file)
        all.set(`${build.name} ${file}`, [...runsOf(build, file), done])
      }
    }
  }
  for (const build of builds) rmSync(build.path('imported'), { recursive: true, force: true })
  return VARIANTS.map(({ file, name, beside }, n): Row => {
    const runs = runsOf(program, file)
    const earlier = runsOf(before, file)
    const ratio = ratioOf(runs, runsOf(program, VARIANTS[n - 1]?.file ?? ''))
    const figures = [
      ...(before ? [`${shown(ratioOf(runs, earlier))} × before`] : []),
      ...(beside ? [`${shown(ratio)} × ${beside}`] : []),
    ]
    return {
      case: `import of ${count(rows)} ${name}`,
      this: speedOf(runs, rows),
      that: before ? `before: ${speedOf(earlier, rows)}` : '',
      figure: figures.join(', '),
      target: `${beside ? `≥ ${BESIDE_MIN} × ${beside}, ` : ''}≤ ${megabytes(PEAK_MAX_BYTES)}`,
      holds: peakOf(runs) <= PEAK_MAX_BYTES && (!beside || ratio >= BESIDE_MIN),
    }
  })
}
