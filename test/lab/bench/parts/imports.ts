/**
 * The figures of `import`: rows a second and memory, of this build, an earlier one and the sqlite3 shell in turn.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../../support/program.ts'
import { files } from '../../support/serve.ts'
import { count, median, megabytes, type Row, shown } from '../../support/table.ts'
import { type Build, type Finished, runCommand, type Workspace } from '../workspace.ts'

const PEAK_MAX_BYTES = 250e6
const BEFORE_MIN = 1.5
const SHELL_MIN = 0.95

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

/**
 * The sqlite3 shell imports the rows of the list in `data`, as CSV of its columns and in their order, into the same
 * table and indexes: what SQLite takes without anybody who reads, checks and converts a list.
 */
async function importByShell(workspace: Workspace, data: string): Promise<Finished> {
  const [csv, db, script] = ['rows.csv', 'shell.db', 'shell.sql'].map(name =>
    join(workspace.dir, name),
  )
  const run = (command: string) => runCommand(['sh', '-c', command])
  if (!existsSync(`${csv}`)) {
    await run(`sqlite3 -csv ${files(data).list} 'select * from proxies' > ${csv}`)
    const schema = await Bun.file(join(ROOT, 'src/sqlite/proxies/schema.sql')).text()
    const [tables, ...indexes] = schema.split(/^(?=create index)/m)
    const pragmas =
      'pragma journal_mode = wal; pragma synchronous = normal; pragma cache_size = -65536;'
    const steps = [pragmas, tables, 'begin;', `.import --csv ${csv} proxies`, ...indexes, 'commit;']
    writeFileSync(`${script}`, `${steps.join('\n')}\n`)
  }
  for (const end of ['', '-wal', '-shm']) rmSync(`${db}${end}`, { force: true })
  return run(`sqlite3 ${db} < ${script} > /dev/null`)
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

function rowOf(
  name: VariantName,
  rows: number,
  own: Runs,
  before: Runs | null,
  shell: readonly Finished[],
): Row {
  const variant = VARIANTS[name]
  const runs = own.get(name) ?? []
  const earlier = before?.get(name)
  const ratios: { of: string; ratio: number; least: number }[] = []
  if (earlier) ratios.push({ of: 'before', ratio: ratioOf(runs, earlier), least: BEFORE_MIN })
  if (name === 'sorted' && shell.length > 0) {
    ratios.push({ of: 'the sqlite3 shell', ratio: ratioOf(runs, shell), least: SHELL_MIN })
  }
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
  const shell: Finished[] = []
  const hasShell = Bun.which('sqlite3') !== null
  const runs = new Map<Build, Runs>(workspace.builds.map(build => [build, new Map()]))
  const steps = NAMES.flatMap(name => workspace.builds.map(build => ({ name, build })))
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, build } of steps) {
      const done = runs.get(build)
      done?.set(name, [...(done.get(name) ?? []), await importOnce(workspace, build, name)])
      if (name !== 'sorted' || build !== workspace.program || !hasShell) continue
      shell.push(await importByShell(workspace, build.path('imported')))
    }
  }
  const own = runs.get(workspace.program) ?? new Map()
  const before = workspace.before && (runs.get(workspace.before) ?? null)
  for (const build of workspace.builds) {
    rmSync(build.path('imported'), { recursive: true, force: true })
  }
  return NAMES.map(name => rowOf(name, rows, own, before, shell))
}
