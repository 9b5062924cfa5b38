/**
 * Kills imports at random moments: the list is then as before the import or as after it (contract
 * D5), and the next import works without repair.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Child, launch, succeed } from '../../support/launch.ts'
import { between, pick, randomOf } from '../../support/random.ts'
import { messageOf } from '../support/main.ts'
import { ANONS, addressOf, COUNTRIES, cityEnOf, cityOf, TYPES } from '../support/rows.ts'
import { files } from '../support/serve.ts'
import { count } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'
import { DEADLINE, kill, summaryOf, until } from './support/kill.ts'
import {
  type Content,
  contentOf,
  fullOf,
  listFaults,
  type Watch,
  watchServer,
} from './support/list-state.ts'

/** One kind of import. Variant 1 of a `replace` has some other and some more rows. */
export type Change = {
  name: string
  /** Proxies that only a `replace` changes; without any the directory is missing too. */
  list: number
  /** Proxies in the files, together. */
  rows: number
  files: number
  replace: boolean
  /** Kills in a full run. */
  kills: number
}

/** From 20,000 rows and an eighth of the list, an import rebuilds the indexes. */
export const CHANGES: readonly Change[] = [
  { name: 'small merge', list: 1000, rows: 300, files: 1, replace: false, kills: 60 },
  { name: 'small replace', list: 1000, rows: 900, files: 1, replace: true, kills: 60 },
  { name: 'merge of 4 small files', list: 1000, rows: 800, files: 4, replace: false, kills: 40 },
  { name: 'replace by 4 small files', list: 1000, rows: 800, files: 4, replace: true, kills: 40 },
  { name: 'small first import', list: 0, rows: 500, files: 1, replace: false, kills: 36 },
  { name: 'large merge', list: 10_000, rows: 21_000, files: 1, replace: false, kills: 20 },
  { name: 'large replace', list: 10_000, rows: 21_000, files: 1, replace: true, kills: 20 },
  {
    name: 'replace by 3 large files',
    list: 5000,
    rows: 24_000,
    files: 3,
    replace: true,
    kills: 14,
  },
  { name: 'large first import', list: 0, rows: 25_000, files: 1, replace: false, kills: 10 },
  // More than fits SQLite's cache: the WAL grows long before the commit.
  { name: 'huge first import', list: 0, rows: 180_000, files: 1, replace: false, kills: 4 },
]

export type Variant = 0 | 1
/** The files of a change; `base` is `null` when there is no list to start from. */
type ChangeFiles = { base: string | null; variants: readonly [string[], string[]] }

/** Rows by which the two variants of a replacement differ, as a share of their size. */
const SHIFT = 0.1

type Span = { from: number; to: number }

/** Every row has all members, and is as old in both variants: so the later import wins. */
function rowsOf({ from, to }: Span, random: () => number, name: string, nowMs: number): string {
  let text = ''
  for (let n = from; n < to; n += 1) {
    const country = pick(random, COUNTRIES)
    const city = between(random, 1, 20)
    const row = {
      ip: addressOf(n),
      ip_out: addressOf(n + 1).replace(/:.*/, ''),
      type: TYPES[n % TYPES.length],
      anon: pick(random, ANONS),
      speed: between(random, 1000, 1e6),
      ping: between(random, 1, 5000) / 1000,
      country,
      city: `${cityOf(country, city)} ${name}`,
      city_en: `${cityEnOf(country, city)} ${name}`,
      works: String(between(random, 0, 100)),
      smtp: random() < 0.5,
      telegram: random() < 0.5,
      avito: random() < 0.5,
      google: random() < 0.5,
      'the service': random() < 0.5,
      checked_at: Math.floor(nowMs / 1000) - (n % 600),
    }
    text += `${JSON.stringify(row)}\n`
  }
  return text
}

/** The rows of a variant, in as many parts as there are files. */
function spansOf({ rows, files, replace }: Change, variant: Variant): Span[] {
  const shift = replace ? Math.round(variant * rows * SHIFT) : 0
  const more = replace ? Math.round((variant * rows * SHIFT) / 2) : 0
  const at = (part: number): number => shift + Math.round((part * (rows + more)) / files)
  return Array.from({ length: files }, (_, part) => ({ from: at(part), to: at(part + 1) }))
}

/** Writes the files of a change, each row a line of JSON. */
async function writeChange(
  dir: string,
  change: Change,
  seed: number,
  nowMs: number,
): Promise<ChangeFiles> {
  const random = randomOf(seed, `rows ${change.name}`)
  const write = async (name: string, span: Span): Promise<string> => {
    const file = join(dir, `${name}.ndjson`)
    await Bun.write(file, rowsOf(span, random, name, nowMs))
    return file
  }
  const writeVariant = async (variant: Variant): Promise<string[]> => {
    const files: string[] = []
    for (const span of spansOf(change, variant)) {
      files.push(await write(`variant-${variant}-${files.length + 1}`, span))
    }
    return files
  }
  const { list } = change
  const base = list === 0 ? null : await write('base', { from: 0, to: list })
  return { base, variants: [await writeVariant(0), await writeVariant(1)] }
}

/** Between two checks of a running import's WAL. */
const CHECK_EVERY_MS = 1
/** Moments are drawn from a little more than the duration of the last import. */
const DURATION_FACTOR = 1.05
/** Share of the moments that count from the first write to the WAL, which comes late. */
const FROM_WRITE_SHARE = 0.5

/** A WAL up to this size holds empty tables, which a first import creates as it starts. */
const EMPTY_WAL_BYTES = 40_000

/** An import that was not killed; `counts` is what it printed. */
type Completed = { ms: number; writtenMs: number; counts: string }

/** A killed import: whether it was still running, had written to the WAL, had removed it. */
type Killed = { wasKilled: boolean; hadWritten: boolean; hadClosed: boolean }

export type Scene = {
  run: Run
  change: Change
  data: string
  /** What the list holds in each variant. */
  contents: readonly Content[]
  /** What an import that makes each variant prints. */
  counts: readonly string[]
  /** The last import that was not killed. */
  last: Completed
}

/** Whether each import of the change is the first of its directory: then there is one variant. */
export const isFirst = ({ list }: Change): boolean => list === 0

const importArgs = (change: Change, files: readonly string[], data: string): string[] => [
  ...['import', ...files, '--data', data, '--format', 'ndjson', '--json'],
  ...(change.replace ? ['--replace'] : []),
]

/** A text that changes with every write to the WAL; `''` while it holds no rows. */
function walState(data: string): string {
  const found = statSync(`${files(data).list}-wal`, { throwIfNoEntry: false })
  const hasRows = found !== undefined && found.size > EMPTY_WAL_BYTES
  return hasRows ? `${found.size} ${found.mtimeMs}` : ''
}

const isWritten = (data: string, stateBefore: string): boolean =>
  !['', stateBefore].includes(walState(data))

async function untilWritten(data: string, stateBefore: string, child: Child): Promise<void> {
  while (child.isRunning() && !isWritten(data, stateBefore)) await Bun.sleep(CHECK_EVERY_MS)
}

/** Runs an import to its end. @throws Error with its stderr when it fails. */
async function importFully(
  binary: string,
  args: readonly string[],
  data: string,
): Promise<Completed> {
  const [state, startMs] = [walState(data), performance.now()]
  const child = launch([binary, ...args], DEADLINE)
  await untilWritten(data, state, child)
  const writtenMs = performance.now() - startMs
  const exitCode = await child.ended
  const { stdout, stderr } = child.written
  if (exitCode !== 0) throw new Error(`import exited with ${exitCode}: ${stderr}`)
  return { ms: performance.now() - startMs, writtenMs, counts: stdout.trim() }
}

/** Writes the files of a change and imports the list; gives also what acts on it. */
async function openScene(run: Run, change: Change) {
  const data = run.directory('data')
  const { base, variants }: ChangeFiles = await writeChange(
    run.directory('files'),
    change,
    run.seed,
    Date.now(),
  )
  const argsFor = (variant: Variant): string[] => importArgs(change, variants[variant], data)
  const importVariant = (variant: Variant) => importFully(run.binary, argsFor(variant), data)

  if (base === null) rmSync(data, { recursive: true })
  else await succeed([run.binary, 'import', base, '--data', data], DEADLINE)
  const contents: Content[] = []
  const counts: string[] = []
  let last: Completed = { ms: 0, writtenMs: 0, counts: '' }
  for (const variant of isFirst(change) ? ([0] as const) : ([0, 1, 0] as const)) {
    last = await importVariant(variant)
    counts[variant] = last.counts
    contents[variant] = await contentOf(run.binary, data)
  }
  const scene: Scene = { run, change, data, contents, counts, last }

  return {
    scene,
    /** Runs an import to its end, which becomes `last`; gives its counts. */
    async finish(variant: Variant): Promise<string> {
      scene.last = await importVariant(variant)
      return scene.last.counts
    },
    /** Runs an import and kills it, at a moment within the duration of the last one. */
    async kill(variant: Variant, random: () => number): Promise<Killed> {
      const { ms, writtenMs } = scene.last
      const isFromWrite = random() < FROM_WRITE_SHARE
      const share = random() * DURATION_FACTOR
      const [state, startMs] = [walState(data), performance.now()]
      const child = launch([run.binary, ...argsFor(variant)])
      if (isFromWrite) await untilWritten(data, state, child)
      const beganMs = isFromWrite ? performance.now() : startMs
      await until(beganMs + share * (isFromWrite ? ms - writtenMs : ms))
      const wasKilled = await kill(child)
      const hadClosed = state === '' && walState(data) === ''
      return { wasKilled, hadWritten: isWritten(data, state), hadClosed }
    },
    /** Removes the data directory, for a first import. */
    clear(): void {
      rmSync(data, { recursive: true, force: true })
    },
  }
}
type Stage = Awaited<ReturnType<typeof openScene>>

/** Share of the kills after which another import is the first to open the list. */
const IMPORT_FIRST_SHARE = 0.25
/** Tries for each kill: an import may end before it is killed. */
const ATTEMPTS_PER_KILL = 4

/** What was seen after the kills; texts say what was wrong. */
type Tally = {
  before: { unwritten: number; written: number }
  after: { open: number; closed: number }
  half: string[]
  checks: number
  faults: string[]
  imports: number
  failures: string[]
  answers: number
  unexpected: string[]
}

/** The list after an import: as before it, as after it, or wrong. */
type Result = 'before' | 'after' | `half, ${string}`

const sum = (parts: { [name: string]: number }): number =>
  Object.values(parts).reduce((total, part) => total + part, 0)
const killsOf = ({ before, after, half }: Tally): number => sum(before) + sum(after) + half.length

const changedNothing = (counts: string): boolean =>
  /"added":0,"updated":0,.*"removed":0/.test(counts)

/** What the counts of the next import say of the killed one. */
function resultByCounts(counts: string, expected: string | undefined): Result {
  if (counts === expected) return 'before'
  return changedNothing(counts) ? 'after' : `half, the next import says ${counts}`
}

/** What a fingerprint says. `before` is undefined where there was no list. */
function resultByFingerprint(
  found: string,
  before: string | undefined,
  after: string | undefined,
): Result {
  if (found === after) return 'after'
  return found === (before ?? 'nothing') ? 'before' : `half, fingerprint ${found}`
}

/** Checks what a kill has left: through the program, a server, and in the file. */
async function check(scene: Scene, state: Variant, target: Variant, watch: Watch | null) {
  const { run, change, data, contents } = scene
  const before = isFirst(change) ? undefined : contents[state]
  const results = [
    resultByFingerprint(await fullOf(run.binary, data), before?.full, contents[target]?.full),
  ]
  if (watch) {
    const shown = await watch.now()
    results.push(resultByFingerprint(shown, before?.addresses, contents[target]?.addresses))
  }
  return { results, faults: listFaults(data) }
}

function countKill(tally: Tally, result: Result, { hadWritten, hadClosed }: Killed): void {
  if (result === 'before') tally.before[hadWritten ? 'written' : 'unwritten'] += 1
  else if (result === 'after') tally.after[hadClosed ? 'closed' : 'open'] += 1
  else tally.half.push(result)
}

/** One kill, a check of what it left, and the next import. */
async function killOnce(
  { scene, kill, finish, clear }: Stage,
  state: Variant,
  watch: Watch | null,
  random: () => number,
  tally: Tally,
): Promise<Variant> {
  const { change, data, counts } = scene
  if (isFirst(change)) clear()
  const target: Variant = isFirst(change) || state === 1 ? 0 : 1
  const killed = await kill(target, random)
  const results: Result[] = []
  if (random() >= IMPORT_FIRST_SHARE) {
    const seen = await check(scene, state, target, watch)
    results.push(...seen.results)
    tally.checks += 1
    tally.faults.push(...seen.faults)
  }
  results.push(resultByCounts(await finish(target), counts[target]))
  tally.imports += 1
  if (!watch) {
    const left = readdirSync(data).filter(name => name !== 'proxies.db')
    tally.faults.push(...left.map(name => `${name} is left behind`))
  }
  const [first = 'before'] = results
  const agree = results.every(each => each === first)
  const result: Result = agree ? first : `half, ${change.name}: ${results.join(', ')}`
  if (killed.wasKilled) countKill(tally, result, killed)
  else if (result !== 'after') tally.failures.push(`an import was not killed, yet ${result}`)
  return target
}

/** Kills imports of one kind until there are `kills`. */
async function killMany(stage: Stage, kills: number, watch: Watch | null, tally: Tally) {
  const { run, change } = stage.scene
  const random = randomOf(run.seed, `kills ${change.name} ${watch ? 'served' : 'alone'}`)
  const goal = killsOf(tally) + kills
  let state: Variant = 0
  for (let n = 0; n < kills * ATTEMPTS_PER_KILL && killsOf(tally) < goal; n += 1) {
    try {
      state = await killOnce(stage, state, watch, random, tally)
    } catch (error) {
      tally.failures.push(messageOf(error))
      return
    }
  }
}

/** Kills one kind of import, half of the times beside a running server; not so first imports. */
async function killChange(run: Run, change: Change, tally: Tally): Promise<void> {
  const stage = await openScene(run, change)
  const { data, contents } = stage.scene
  const kills = scaled(change.kills, run)
  const alone = isFirst(change) ? kills : Math.ceil(kills / 2)
  const before = killsOf(tally)
  await killMany(stage, alone, null, tally)
  if (alone < kills) {
    const allowed = contents.map(({ addresses }) => addresses)
    const watch = await watchServer(run.binary, data, allowed)
    await killMany(stage, kills - alone, watch, tally)
    const { answers, wrong } = await watch.end()
    tally.answers += answers
    tally.unexpected.push(...wrong)
  }
  run.say(`${change.name}: ${killsOf(tally) - before} kills`)
}

function findingsOf(tally: Tally, wanted: number): Finding[] {
  const { before, after, half, checks, faults, imports, failures, answers, unexpected } = tally
  const kills = killsOf(tally)
  const spread =
    `${sum(before)} before the commit (${before.unwritten} before, ${before.written} after the ` +
    `WAL's first write), ${sum(after)} after it (${after.open} before, ${after.closed} after ` +
    'the WAL was removed)'
  return [
    {
      promise: 'an import that is killed leaves the list as it was or as it is after',
      figure: `${kills} kills, ${spread}; ${summaryOf(half)} half lists`,
      bound: `${wanted} kills, 0 half lists`,
      holds: kills >= wanted && half.length === 0,
    },
    {
      promise: 'a server never shows half of an import, killed or not',
      figure: `${count(answers)} answers compared, ${summaryOf(unexpected)} unexpected`,
      bound: '0 unexpected',
      holds: answers > 0 && unexpected.length === 0,
    },
    {
      promise: 'the file a killed import leaves is intact, with its indexes and cities',
      figure: `${checks} checks, ${summaryOf(faults)} faults`,
      bound: '0 faults',
      holds: checks > 0 && faults.length === 0,
    },
    {
      promise: 'the next import works, without repair',
      figure: `${imports} imports after kills, ${summaryOf(failures)} failed`,
      bound: '0 failed',
      holds: imports > 0 && failures.length === 0,
    },
  ]
}

export const killImport: Part = async run => {
  const tally: Tally = {
    before: { unwritten: 0, written: 0 },
    after: { open: 0, closed: 0 },
    half: [],
    checks: 0,
    faults: [],
    imports: 0,
    failures: [],
    answers: 0,
    unexpected: [],
  }
  let wanted = 0
  for (const change of CHANGES) {
    wanted += scaled(change.kills, run)
    await killChange(run, change, tally)
  }
  return findingsOf(tally, wanted)
}
