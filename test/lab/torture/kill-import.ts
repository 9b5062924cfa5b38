/**
 * Kills imports at random moments: the list is then as before the import or as after it (contract D5), also for a
 * server beside it, and the next import works without repair.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys } from '../../support/fixtures.ts'
import { launch, run as runCommand, succeed } from '../../support/launch.ts'
import { randomOf } from '../../support/random.ts'
import { messageOf } from '../support/main.ts'
import { repeat } from '../support/repeat.ts'
import { addressOf } from '../support/rows.ts'
import { files, startServe } from '../support/serve.ts'
import { count } from '../support/table.ts'
import { type Part, type Run, scaled, summaryOf } from './part.ts'
import { kill, listFaults } from './support/kill.ts'
import { tagsIn, writeTagged } from './support/tagged.ts'

/**
 * One kind of import: proxies of the list before it (without any, its file is missing too), proxies and files that it
 * brings, and the kills of a full run.
 */
type Change = { list: number; rows: number; files: number; replace: boolean; kills: number }

/** From 20,000 rows and an eighth of the list, an import rebuilds the indexes. */
const CHANGES: readonly Change[] = [
  { list: 1_000, rows: 300, files: 1, replace: false, kills: 60 },
  { list: 1_000, rows: 900, files: 1, replace: true, kills: 60 },
  { list: 1_000, rows: 800, files: 4, replace: false, kills: 40 },
  { list: 0, rows: 500, files: 1, replace: false, kills: 40 },
  { list: 10_000, rows: 21_000, files: 1, replace: false, kills: 20 },
  { list: 5_000, rows: 24_000, files: 3, replace: true, kills: 20 },
  // More than fits SQLite's cache: the WAL grows long before the commit.
  { list: 0, rows: 180_000, files: 1, replace: false, kills: 4 },
]

/** Replacements with an odd number lack this share of the addresses, and bring as many others. */
const SHIFT = 0.1

const firstOf = ({ rows, replace }: Change, tag: number): number =>
  replace && tag % 2 === 1 ? Math.round(rows * SHIFT) : 0

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
  if (tag === 1) return described(new Map(change.list > 0 ? [[1, change.list]] : []))
  const others = change.replace ? 0 : Math.max(0, change.list - change.rows)
  return described(new Map([...(others > 0 ? [[1, others] as const] : []), [tag, change.rows]]))
}

/** Every row of the list: none in a run is older than a day. */
const EVERYTHING = 'time=86400&get=json&fields=speed'
/** What says that there is nothing: a first import may be killed before it has made a file, or a table in it. */
const NOTHING = /no proxies match|there is no |it is empty|by an earlier proxylist/
const KEY = `pl_${'W'.repeat(32)}`
const DEADLINE = { deadlineSeconds: 60 }
const ASK_EVERY_MS = 15

type Scene = {
  run: Run
  change: Change
  data: string
  dir: string
  checkedAt: number
  /** The number of the last import that was made to its end, how long it took, and until it first wrote to the WAL. */
  tag: number
  ms: number
  writtenMs: number
}

/** What was seen; texts say what was wrong. */
const createTally = () => ({
  ...{ before: 0, after: 0, checks: 0, answers: 0 },
  ...{ half: [] as string[], faults: [] as string[], failures: [] as string[] },
  unexpected: [] as string[],
})
type Tally = ReturnType<typeof createTally>
const killsOf = ({ before, after, half }: Tally): number => before + after + half.length

/** What the program lists. @throws Error when it fails. */
async function listed({ run, data }: Scene): Promise<string> {
  const command = [run.binary, 'list', EVERYTHING, '--data', data]
  const { exitCode, stdout, stderr } = await runCommand(command, DEADLINE)
  if (exitCode === 0) return described(tagsIn(stdout))
  if (exitCode === 1 && NOTHING.test(stderr)) return 'nothing'
  throw new Error(`list exited with ${exitCode}: ${stderr}`)
}

/** Starts a server on the data and asks it for the list again and again: only whole lists may show. */
async function watchServer(scene: Scene, tally: Tally) {
  const { run, data, change } = scene
  addKeys(data, { free: {} }, [{ key: KEY, plan: 'free' }])
  const server = await startServe(run.binary, { data, more: ['--grace', '1s', '--log', 'off'] })
  const now = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${server.port}/api?key=${KEY}&${EVERYTHING}`)
    const body = await response.text()
    return response.status === 200 ? described(tagsIn(body)) : `status ${response.status}`
  }
  const asking = repeat(async () => {
    const allowed = [scene.tag - 1, scene.tag, scene.tag + 1]
    const shown = await now().catch(String)
    tally.answers += 1
    if (!allowed.some(tag => listAfter(change, tag) === shown)) tally.unexpected.push(shown)
    await Bun.sleep(ASK_EVERY_MS)
  })
  return {
    now,
    async end(): Promise<void> {
      await asking.stop()
      await server.stop()
    },
  }
}

/** Writes the files of the import with a number; gives its command. */
async function writeImport(scene: Scene, tag: number): Promise<string[]> {
  const { run, change, data, dir, checkedAt } = scene
  const from = firstOf(change, tag)
  const at = (part: number): number => from + Math.round((part * change.rows) / change.files)
  const paths = Array.from({ length: change.files }, (_, part) => join(dir, `${part}.ndjson`))
  for (const [part, path] of paths.entries()) {
    await writeTagged(path, addresses(at(part), at(part + 1)), tag, checkedAt)
  }
  const how = ['--format', 'ndjson', '--json', ...(change.replace ? ['--replace'] : [])]
  return [run.binary, 'import', ...paths, '--data', data, ...how]
}

/** A WAL up to this size holds empty tables, which a first import creates as it starts. */
const EMPTY_WAL_BYTES = 40_000

/** A text that changes with every write to the WAL; `''` while it holds no rows. */
function walState({ data }: Scene): string {
  const found = statSync(`${files(data).list}-wal`, { throwIfNoEntry: false })
  return found && found.size > EMPTY_WAL_BYTES ? `${found.size} ${found.mtimeMs}` : ''
}

/** Starts an import; `written` resolves when it first writes to the WAL, or has ended. */
function startImport(scene: Scene, command: readonly string[]) {
  const before = walState(scene)
  const child = launch(command, DEADLINE)
  const isWritten = (): boolean => !['', before].includes(walState(scene))
  const written = async (): Promise<void> => {
    while (child.isRunning() && !isWritten()) await Bun.sleep(1)
  }
  return { child, written }
}

/** Runs the import with a number to its end; gives how many rows it changed. @throws Error when it fails. */
async function finish(scene: Scene, tag: number, command: readonly string[]): Promise<number> {
  const startMs = performance.now()
  const { child, written } = startImport(scene, command)
  await written()
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

/** Kills an import within the time that the last one took, half of the times after its first write to the WAL. */
async function killOne(scene: Scene, command: readonly string[], random: () => number) {
  const { child, written } = startImport(scene, command)
  const isAfterWrite = random() < 0.5
  if (isAfterWrite) await written()
  const lengthMs = isAfterWrite ? scene.ms - scene.writtenMs : scene.ms
  await Bun.sleep(random() * lengthMs * 1.05)
  return await kill(child)
}

type Watch = Awaited<ReturnType<typeof watchServer>> | null

/** One kill, a check of what it left, and the same import to its end. */
async function killAndCheck(scene: Scene, watch: Watch, random: () => number, tally: Tally) {
  const { change, data } = scene
  const isFirst = change.list === 0
  if (isFirst) rmSync(data, { recursive: true, force: true })
  const tag = scene.tag + 1
  const before = isFirst ? 'nothing' : listAfter(change, scene.tag)
  const after = listAfter(change, tag)
  const command = await writeImport(scene, tag)
  const wasKilled = await killOne(scene, command, random)
  tally.checks += 1
  tally.faults.push(...listFaults(data))
  const seen = new Set([await listed(scene), ...(watch ? [await watch.now()] : [])])
  const changed = await finish(scene, tag, command)
  const [first = ''] = seen
  const isWhole = seen.size === 1 && changed === (first === before ? change.rows : 0)
  if (!isWhole || ![before, after].includes(first)) {
    tally.half.push(`${[...seen].join(', ')}; then ${changed} rows changed`)
  } else if (wasKilled) {
    tally[first === after ? 'after' : 'before'] += 1
  }
  const end = await listed(scene)
  if (end !== after) tally.failures.push(`after the next import there are ${end}`)
  if (watch) return
  const left = readdirSync(data).filter(name => name !== 'proxies.db')
  tally.faults.push(...left.map(name => `${name} is left behind`))
}

/** Tries for each kill: an import may end before it is killed. */
const ATTEMPTS_PER_KILL = 4

/** Kills one kind of import, half of the times beside a running server; not so first imports. */
async function killChange(run: Run, change: Change, tally: Tally): Promise<void> {
  const [data, dir] = [run.directory('data'), run.directory('files')]
  const checkedAt = Math.floor(Date.now() / 1000)
  const scene: Scene = { run, change, data, dir, checkedAt, tag: 1, ms: 0, writtenMs: 0 }
  const random = randomOf(run.seed, `kills ${JSON.stringify(change)}`)
  if (change.list > 0) {
    const base = join(dir, 'base.ndjson')
    await writeTagged(base, addresses(0, change.list), 1, checkedAt)
    await succeed([run.binary, 'import', base, '--data', data], DEADLINE)
  }
  await finish(scene, 2, await writeImport(scene, 2))
  const kills = scaled(change.kills, run)
  async function killMany(times: number, watch: Watch): Promise<void> {
    const goal = killsOf(tally) + times
    for (let n = 0; n < times * ATTEMPTS_PER_KILL && killsOf(tally) < goal; n += 1) {
      try {
        await killAndCheck(scene, watch, random, tally)
      } catch (error) {
        tally.failures.push(messageOf(error))
        if (change.list > 0) return
      }
    }
  }
  const beside = change.list === 0 ? 0 : Math.ceil(kills / 2)
  await killMany(kills - beside, null)
  if (beside === 0) return
  const watch = await watchServer(scene, tally)
  await killMany(beside, watch)
  await watch.end()
}

export const killImport: Part = async run => {
  const tally = createTally()
  for (const change of CHANGES) await killChange(run, change, tally)
  const { before, after, half, checks, faults, failures, answers, unexpected } = tally
  const wanted = CHANGES.reduce((sum, change) => sum + scaled(change.kills, run), 0)
  return [
    {
      promise: 'an import that is killed leaves the list as it was or as it is after',
      figure:
        `${before + after} kills, ${before} before the commit, ${after} after it; ` +
        `${summaryOf(half)} half lists`,
      bound: `${wanted} kills, 0 half lists`,
      holds: killsOf(tally) >= wanted && half.length === 0,
    },
    {
      promise: 'a server never shows half of an import, killed or not',
      figure: `${count(answers)} answers compared, ${summaryOf(unexpected)} unexpected`,
      bound: '0 unexpected',
      holds: answers > 0 && unexpected.length === 0,
    },
    {
      promise:
        'the file that a killed import leaves is intact, and the next import works without repair',
      figure: `${checks} checks, ${summaryOf(faults)} faults, ${summaryOf(failures)} failures`,
      bound: '0',
      holds: checks > 0 && faults.length + failures.length === 0,
    },
  ]
}
