/**
 * Kills imports at random moments: the list is then as before the import or as after it (contract
 * D5), and the next import works without repair.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys } from '../../support/fixtures.ts'
import { type Child, launch, run as runCommand, succeed } from '../../support/launch.ts'
import { randomOf } from '../../support/random.ts'
import { messageOf } from '../support/main.ts'
import { repeat } from '../support/repeat.ts'
import { addressOf } from '../support/rows.ts'
import { files, startServe } from '../support/serve.ts'
import { count } from '../support/table.ts'
import { type Part, type Run, scaled, summaryOf } from './part.ts'
import { kill, listFaults } from './support/kill.ts'
import { tagsIn, writeTagged } from './support/tagged.ts'

/** One kind of import. */
type Change = {
  name: string
  /** Proxies that only a `replace` changes; without any the directory is missing too. */
  list: number
  /** Proxies in the files, together. Every second `replace` has some other and some more. */
  rows: number
  files: number
  replace: boolean
  /** Kills in a full run. */
  kills: number
}

/** From 20,000 rows and an eighth of the list, an import rebuilds the indexes. */
const CHANGES: readonly Change[] = [
  { name: 'small merge', list: 1000, rows: 300, files: 1, replace: false, kills: 60 },
  { name: 'small replace', list: 1000, rows: 900, files: 1, replace: true, kills: 60 },
  { name: 'merge of 4 small files', list: 1000, rows: 800, files: 4, replace: false, kills: 40 },
  { name: 'replace by 4 small files', list: 1000, rows: 800, files: 4, replace: true, kills: 40 },
  { name: 'small first import', list: 0, rows: 500, files: 1, replace: false, kills: 36 },
  { name: 'large merge', list: 10_000, rows: 21_000, files: 1, replace: false, kills: 20 },
  { name: 'large replace', list: 10_000, rows: 21_000, files: 1, replace: true, kills: 20 },
  { name: 'replace by 3 files', list: 5000, rows: 24_000, files: 3, replace: true, kills: 14 },
  { name: 'large first import', list: 0, rows: 25_000, files: 1, replace: false, kills: 10 },
  // More than fits SQLite's cache: the WAL grows long before the commit.
  { name: 'huge first import', list: 0, rows: 180_000, files: 1, replace: false, kills: 4 },
]

/** Rows by which two replacements differ, as a share of their size. */
const SHIFT = 0.1

/** Which addresses the import with a number brings. */
function spanOf({ rows, replace }: Change, tag: number): { from: number; to: number } {
  if (!replace || tag % 2 === 0) return { from: 0, to: rows }
  return { from: Math.round(rows * SHIFT), to: Math.round(rows * (1 + 1.5 * SHIFT)) }
}

function* addresses(from: number, to: number): Generator<string> {
  for (let n = from; n < to; n += 1) yield addressOf(n)
}

const described = (tags: ReadonlyMap<number, number>): string =>
  [...tags]
    .sort(([a], [b]) => a - b)
    .map(([tag, rows]) => `${rows} of import ${tag}`)
    .join(' and ') || 'nothing'

/** What the list holds after the import with a number; the first list has number 1. */
function listAfter(change: Change, tag: number): string {
  const { from, to } = spanOf(change, tag)
  const others = change.replace ? 0 : Math.max(0, change.list - to)
  return described(new Map([...(others > 0 ? [[1, others] as const] : []), [tag, to - from]]))
}

/** Every row of the list: none in a run is older than a day. */
const EVERYTHING = 'time=86400&get=json&fields=speed'
/** What says that there is nothing: a first import may be killed before it has made a file. */
const NOTHING = /no proxies match|there is no /

/** A command that takes this long has failed. */
const DEADLINE = { deadlineSeconds: 60 }

/** What the program lists. @throws Error when it fails. */
async function listed(binary: string, data: string): Promise<string> {
  const command = [binary, 'list', EVERYTHING, '--data', data]
  const { exitCode, stdout, stderr } = await runCommand(command, DEADLINE)
  if (exitCode === 0) return described(tagsIn(stdout))
  if (exitCode === 1 && NOTHING.test(stderr)) return 'nothing'
  throw new Error(`list exited with ${exitCode}: ${stderr}`)
}

const KEY = `pl_${'W'.repeat(32)}`
/** Between two requests to a running server. */
const ASK_EVERY_MS = 15

/** Starts a server on the data and asks it for the list again and again. */
async function watchServer(scene: Scene) {
  const { run, data } = scene
  addKeys(data, { free: {} }, [{ key: KEY, plan: 'free' }])
  const server = await startServe(run.binary, { data, more: ['--grace', '1s', '--log', 'off'] })
  const now = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${server.port}/api?key=${KEY}&${EVERYTHING}`)
    const body = await response.text()
    return response.status === 200 ? described(tagsIn(body)) : `status ${response.status}`
  }
  const seen = { answers: 0, wrong: [] as string[] }
  const asking = repeat(async () => {
    const allowed = [scene.tag - 1, scene.tag, scene.tag + 1]
    const shown = await now().catch(String)
    seen.answers += 1
    if (!allowed.some(tag => listAfter(scene.change, tag) === shown)) seen.wrong.push(shown)
    await Bun.sleep(ASK_EVERY_MS)
  })
  const end = async () => {
    await asking.stop()
    await server.stop()
    return seen
  }
  return { now, end }
}
type Watch = Awaited<ReturnType<typeof watchServer>>

/** Between two checks of a running import's WAL. */
const CHECK_EVERY_MS = 1
/** Moments are drawn from a little more than the duration of the last import. */
const DURATION_FACTOR = 1.05
/** Share of the moments that count from the first write to the WAL, which comes late. */
const FROM_WRITE_SHARE = 0.5
/** A WAL up to this size holds empty tables, which a first import creates as it starts. */
const EMPTY_WAL_BYTES = 40_000

type Scene = {
  run: Run
  change: Change
  data: string
  dir: string
  checkedAt: number
  /** The number of the last import that was made to its end. */
  tag: number
  /** How long it took, and until its first write to the WAL. */
  ms: number
  writtenMs: number
}

/** Whether each import of the change is the first of its directory. */
const isFirst = ({ list }: Change): boolean => list === 0

/** Writes the files of the import with a number, each row a line of JSON; gives its command. */
async function writeImport(scene: Scene, tag: number): Promise<string[]> {
  const { run, change, data, dir, checkedAt } = scene
  const { from, to } = spanOf(change, tag)
  const at = (part: number): number => from + Math.round((part * (to - from)) / change.files)
  const paths = Array.from({ length: change.files }, (_, part) => join(dir, `${part}.ndjson`))
  for (const [part, path] of paths.entries()) {
    await writeTagged(path, addresses(at(part), at(part + 1)), tag, checkedAt)
  }
  const how = ['--format', 'ndjson', '--json', ...(change.replace ? ['--replace'] : [])]
  return [run.binary, 'import', ...paths, '--data', data, ...how]
}

/** Timers are late by up to this; the rest of a wait is spent in a loop. */
const TIMER_SLACK_MS = 2

/** Resolves when `performance.now()` is `dueMs`, to a tenth of a millisecond. */
async function until(dueMs: number): Promise<void> {
  const sleepMs = dueMs - performance.now() - TIMER_SLACK_MS
  if (sleepMs > 0) await Bun.sleep(sleepMs)
  while (performance.now() < dueMs);
}

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

/** Runs the import with a number to its end; gives how many rows it changed. @throws Error when it fails. */
async function finish(scene: Scene, tag: number, command: readonly string[]): Promise<number> {
  const { data } = scene
  const [state, startMs] = [walState(data), performance.now()]
  const child = launch(command, DEADLINE)
  await untilWritten(data, state, child)
  const writtenMs = performance.now() - startMs
  const exitCode = await child.ended
  const { stdout, stderr } = child.written
  if (exitCode !== 0) throw new Error(`import exited with ${exitCode}: ${stderr}`)
  const { added, updated }: { added: number; updated: number } = JSON.parse(stdout)
  scene.tag = tag
  // One that finds nothing to do says nothing of how long another takes.
  if (added + updated > 0) Object.assign(scene, { ms: performance.now() - startMs, writtenMs })
  return added + updated
}

/**
 * Runs an import and kills it, at a moment within the duration of the last one. Gives whether it was
 * still running, and had written to the WAL.
 */
async function killOne({ data, ms, writtenMs }: Scene, command: string[], random: () => number) {
  const isFromWrite = random() < FROM_WRITE_SHARE
  const share = random() * DURATION_FACTOR
  const [state, startMs] = [walState(data), performance.now()]
  const child = launch(command)
  if (isFromWrite) await untilWritten(data, state, child)
  const beganMs = isFromWrite ? performance.now() : startMs
  await until(beganMs + share * (isFromWrite ? ms - writtenMs : ms))
  const wasKilled = await kill(child)
  return { wasKilled, hadWritten: isWritten(data, state) }
}

/** Share of the kills after which another import is the first to open the list. */
const IMPORT_FIRST_SHARE = 0.25
/** Tries for each kill: an import may end before it is killed. */
const ATTEMPTS_PER_KILL = 4

/** What was seen after the kills; texts say what was wrong. */
type Tally = {
  unwritten: number
  written: number
  after: number
  half: string[]
  checks: number
  faults: string[]
  imports: number
  failures: string[]
  answers: number
  unexpected: string[]
}
const killsOf = ({ unwritten, written, after, half }: Tally): number =>
  unwritten + written + after + half.length

/** What the list holds after a kill, through the program and a server, and what is wrong with its file. */
async function check({ run, data }: Scene, watch: Watch | null, tally: Tally): Promise<string[]> {
  tally.checks += 1
  tally.faults.push(...listFaults(data))
  return [await listed(run.binary, data), ...(watch ? [await watch.now()] : [])]
}

/** Makes a killed import to its end; gives what it found: as the list was before, after, or else. */
async function repair(scene: Scene, tag: number, command: string[], before: string, tally: Tally) {
  const { run, change, data } = scene
  const changed = await finish(scene, tag, command)
  const after = listAfter(change, tag)
  const whole = await listed(run.binary, data)
  if (whole !== after) tally.failures.push(`after the next import there are ${whole}`)
  tally.imports += 1
  const { from, to } = spanOf(change, tag)
  if (changed === 0) return after
  return changed === to - from ? before : `the next import changed ${changed} rows`
}

/** One kill, a check of what it left, and the same import to its end. */
async function killAndCheck(
  scene: Scene,
  watch: Watch | null,
  random: () => number,
  tally: Tally,
): Promise<void> {
  const { change, data } = scene
  if (isFirst(change)) rmSync(data, { recursive: true, force: true })
  const tag = scene.tag + 1
  const before = isFirst(change) ? 'nothing' : listAfter(change, scene.tag)
  const after = listAfter(change, tag)
  const command = await writeImport(scene, tag)
  const { wasKilled, hadWritten } = await killOne(scene, command, random)
  const seen = random() < IMPORT_FIRST_SHARE ? [] : await check(scene, watch, tally)
  seen.push(await repair(scene, tag, command, before, tally))
  if (!watch) {
    const left = readdirSync(data).filter(name => name !== 'proxies.db')
    tally.faults.push(...left.map(name => `${name} is left behind`))
  }
  const [first = ''] = new Set(seen)
  const isWhole = new Set(seen).size === 1 && [before, after].includes(first)
  if (!isWhole) tally.half.push(`${change.name}: ${seen.join(', ')}`)
  else if (wasKilled && first === after) tally.after += 1
  else if (wasKilled) tally[hadWritten ? 'written' : 'unwritten'] += 1
  else if (first === before) tally.failures.push('an import was not killed, and changed nothing')
}

/** Kills imports of one kind until there are `kills`. */
async function killMany(scene: Scene, kills: number, watch: Watch | null, tally: Tally) {
  const { run, change } = scene
  const random = randomOf(run.seed, `kills ${change.name} ${watch ? 'served' : 'alone'}`)
  const goal = killsOf(tally) + kills
  for (let n = 0; n < kills * ATTEMPTS_PER_KILL && killsOf(tally) < goal; n += 1) {
    try {
      await killAndCheck(scene, watch, random, tally)
    } catch (error) {
      tally.failures.push(messageOf(error))
      return
    }
  }
}

/** Kills one kind of import, half of the times beside a running server; not so first imports. */
async function killChange(run: Run, change: Change, tally: Tally): Promise<void> {
  const [data, dir] = [run.directory('data'), run.directory('files')]
  const checkedAt = Math.floor(Date.now() / 1000)
  const scene: Scene = { run, change, data, dir, checkedAt, tag: 1, ms: 0, writtenMs: 0 }
  if (!isFirst(change)) {
    const base = join(dir, 'base.ndjson')
    await writeTagged(base, addresses(0, change.list), 1, checkedAt)
    await succeed([run.binary, 'import', base, '--data', data], DEADLINE)
  }
  await finish(scene, 2, await writeImport(scene, 2))
  const kills = scaled(change.kills, run)
  const alone = isFirst(change) ? kills : Math.ceil(kills / 2)
  const before = killsOf(tally)
  await killMany(scene, alone, null, tally)
  if (alone < kills) {
    const watch = await watchServer(scene)
    await killMany(scene, kills - alone, watch, tally)
    const { answers, wrong } = await watch.end()
    tally.answers += answers
    tally.unexpected.push(...wrong)
  }
  run.say(`${change.name}: ${killsOf(tally) - before} kills`)
}

export const killImport: Part = async run => {
  const tally: Tally = {
    ...{ unwritten: 0, written: 0, after: 0, half: [], checks: 0, faults: [] },
    ...{ imports: 0, failures: [], answers: 0, unexpected: [] },
  }
  for (const change of CHANGES) await killChange(run, change, tally)
  const { unwritten, written, after, half, checks, faults, imports, failures } = tally
  const kills = killsOf(tally)
  const wanted = CHANGES.reduce((sum, change) => sum + scaled(change.kills, run), 0)
  return [
    {
      promise: 'an import that is killed leaves the list as it was or as it is after',
      figure:
        `${kills} kills, ${unwritten + written} before the commit (${unwritten} before, ${written} ` +
        `after the WAL's first write), ${after} after it; ${summaryOf(half)} half lists`,
      bound: `${wanted} kills, 0 half lists`,
      holds: kills >= wanted && half.length === 0,
    },
    {
      promise: 'a server never shows half of an import, killed or not',
      figure: `${count(tally.answers)} answers compared, ${summaryOf(tally.unexpected)} unexpected`,
      bound: '0 unexpected',
      holds: tally.answers > 0 && tally.unexpected.length === 0,
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
