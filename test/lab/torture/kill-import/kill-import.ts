/**
 * Kills imports at random moments: the list is then as before the import or as after it (contract
 * D5), and the next import works without repair.
 */
import { readdirSync } from 'node:fs'
import { randomOf } from '../../../support/random.ts'
import { messageOf } from '../../support/main.ts'
import { count } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { summaryOf } from '../support/kill.ts'
import { fullOf, listFaults, type Watch, watchServer } from '../support/list-state.ts'
import { CHANGES, type Change, type Variant } from './changes.ts'
import { isFirst, type Killed, openScene, type Scene, type Stage } from './scene.ts'

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
