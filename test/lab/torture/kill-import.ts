/**
 * Kills imports at random moments of their whole life: the list is then as it was or as it is
 * after (contract D5), nothing has to be mended by hand, and the next import works.
 */
import { readdirSync } from 'node:fs'
import { PROXY_FILE } from '../../../src/app.ts'
import { count } from '../bench/table.ts'
import { CHANGES, type Change, type Variant } from './kill/changes.ts'
import { type Death, isFirst, openScene, type Scene, type Stage } from './kill/import-scene.ts'
import { wrongs } from './kill/kill.ts'
import { faultsOf, type Watch, watchServer, wholeOf } from './kill/list-state.ts'
import { type Finding, type Part, type Run, randomOf, scaled } from './part.ts'

/** Share of the kills after which another import is the first to open the list. */
const IMPORT_FIRST_SHARE = 0.25
/** An import that was over before its kill is tried again, so many times in all. */
const ATTEMPTS_PER_KILL = 4

/** What was seen after the kills; texts say what was wrong. */
type Tally = {
  before: { unwritten: number; written: number }
  after: { open: number; closed: number }
  half: string[]
  looks: number
  faults: string[]
  imports: number
  failures: string[]
  answers: number
  odd: string[]
}

/** What became of an import: `before` and `after` are the list's states, anything else is wrong. */
type Fate = 'before' | 'after' | `half, ${string}`

const sum = (parts: { [name: string]: number }): number =>
  Object.values(parts).reduce((total, part) => total + part, 0)
const killsOf = ({ before, after, half }: Tally): number => sum(before) + sum(after) + half.length

const changedNothing = (counts: string): boolean =>
  /"added":0,"updated":0,.*"removed":0/.test(counts)

/** What the next import's counts tell of the one that was killed. */
function fateByCounts(counts: string, expected: string | undefined): Fate {
  if (counts === expected) return 'before'
  return changedNothing(counts) ? 'after' : `half, the next import says ${counts}`
}

/** What a digest tells. `before` is undefined where there was no list. */
function fateByDigest(found: string, before: string | undefined, after: string | undefined): Fate {
  if (found === after) return 'after'
  return found === (before ?? 'nothing') ? 'before' : `half, digest ${found}`
}

/** Looks at what a kill has left: through the program, a server, and in the file. */
async function look(scene: Scene, state: Variant, target: Variant, watch: Watch | null) {
  const { run, change, data, contents } = scene
  const before = isFirst(change) ? undefined : contents[state]
  const fates = [
    fateByDigest(await wholeOf(run.binary, data), before?.whole, contents[target]?.whole),
  ]
  if (watch) {
    const shown = await watch.now()
    fates.push(fateByDigest(shown, before?.addresses, contents[target]?.addresses))
  }
  return { fates, faults: faultsOf(data) }
}

function tell(tally: Tally, fate: Fate, { hadWritten, hadClosed }: Death): void {
  if (fate === 'before') tally.before[hadWritten ? 'written' : 'unwritten'] += 1
  else if (fate === 'after') tally.after[hadClosed ? 'closed' : 'open'] += 1
  else tally.half.push(fate)
}

/** One kill, a look at what it left, and the next import. */
async function killOnce(
  { scene, cut, finish, clear }: Stage,
  state: Variant,
  watch: Watch | null,
  random: () => number,
  tally: Tally,
): Promise<Variant> {
  const { change, data, counts } = scene
  if (isFirst(change)) clear()
  const target: Variant = isFirst(change) || state === 1 ? 0 : 1
  const death = await cut(target, random)
  const fates: Fate[] = []
  if (random() >= IMPORT_FIRST_SHARE) {
    const seen = await look(scene, state, target, watch)
    fates.push(...seen.fates)
    tally.looks += 1
    tally.faults.push(...seen.faults)
  }
  fates.push(fateByCounts(await finish(target), counts[target]))
  tally.imports += 1
  if (!watch) {
    const left = readdirSync(data).filter(name => name !== PROXY_FILE)
    tally.faults.push(...left.map(name => `${name} is left behind`))
  }
  const [fate = 'before'] = fates
  const isOneVoice = fates.every(each => each === fate)
  const said: Fate = isOneVoice ? fate : `half, ${change.name}: ${fates.join(', ')}`
  if (death.wasKilled) tell(tally, said, death)
  else if (said !== 'after') tally.failures.push(`an import ended by itself, yet ${said}`)
  return target
}

/** Kills imports of one kind until there were `kills`. */
async function killMany(stage: Stage, kills: number, watch: Watch | null, tally: Tally) {
  const { run, change } = stage.scene
  const random = randomOf(run.seed, `kills ${change.name} ${watch ? 'served' : 'alone'}`)
  const goal = killsOf(tally) + kills
  let state: Variant = 0
  for (let n = 0; n < kills * ATTEMPTS_PER_KILL && killsOf(tally) < goal; n += 1) {
    try {
      state = await killOnce(stage, state, watch, random, tally)
    } catch (error) {
      tally.failures.push(error instanceof Error ? error.message : String(error))
      return
    }
  }
}

/** One kind of import: half of the kills beside a running server, save for first imports. */
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
    const { answers, odd } = await watch.end()
    tally.answers += answers
    tally.odd.push(...odd)
  }
  run.say(`${change.name}: ${killsOf(tally) - before} kills`)
}

function findingsOf(tally: Tally, wanted: number): Finding[] {
  const { before, after, half, looks, faults, imports, failures, answers, odd } = tally
  const kills = killsOf(tally)
  const spread =
    `${sum(before)} before the commit (${before.unwritten} before, ${before.written} after the ` +
    `log's first write), ${sum(after)} after it (${after.open} before, ${after.closed} after ` +
    'the log was removed)'
  return [
    {
      promise: 'an import that is killed leaves the list as it was or as it is after',
      figure: `${kills} kills, ${spread}; ${wrongs(half)} half lists`,
      bound: `${wanted} kills, 0 half lists`,
      holds: kills >= wanted && half.length === 0,
    },
    {
      promise: 'a server never shows half of an import, killed or not',
      figure: `${count(answers)} answers compared, ${wrongs(odd)} odd`,
      bound: '0 odd',
      holds: answers > 0 && odd.length === 0,
    },
    {
      promise: 'the file a killed import leaves is whole, its indexes and cities in place',
      figure: `${looks} checks, ${wrongs(faults)} faults`,
      bound: '0 faults',
      holds: looks > 0 && faults.length === 0,
    },
    {
      promise: 'the next import works, with nothing done by hand',
      figure: `${imports} imports after kills, ${wrongs(failures)} failed`,
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
    looks: 0,
    faults: [],
    imports: 0,
    failures: [],
    answers: 0,
    odd: [],
  }
  let wanted = 0
  for (const change of CHANGES) {
    wanted += scaled(change.kills, run)
    await killChange(run, change, tally)
  }
  return findingsOf(tally, wanted)
}
