/**
 * Kills servers under load at random moments: what they answered stays counted (contract B8),
 * the next start is ready at once with nothing done by hand, and admits exactly what is left.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { ACCESS_FILE } from '../../../src/app.ts'
import { DAY_MS, HOUR_MS } from '../../../src/lib/time.ts'
import { count, shown } from '../bench/table.ts'
import { kill, succeed, wrongs } from './kill/kill.ts'
import { balanceOf, takeAllRests } from './kill/left.ts'
import { faultsOf } from './kill/list-state.ts'
import { createServing, type Serving, startLoad } from './kill/serving.ts'
import { ADDRESSES, addPlans, addSubjects, readCounted, type Subject } from './kill/subjects.ts'
import { between, type Finding, type Part, type Run, randomOf, scaled } from './part.ts'

/** Ways the servers stand, and the kills of each in a full run. The first server is killed. */
const SETUPS: readonly { name: string; servers: number; unix: boolean; kills: number }[] = [
  { name: 'one server', servers: 1, unix: false, kills: 60 },
  { name: 'one of two servers', servers: 2, unix: false, kills: 40 },
  { name: 'a unix socket left behind', servers: 1, unix: true, kills: 20 },
]
type Setup = (typeof SETUPS)[number]

const WORKERS = 24
/** Load before a kill lasts up to this, and after the restart too. */
const LOAD_MS_MAX = 400
const LOAD_AFTER_MS_MAX = 60
/** A server is killed this long after its start, or its SIGTERM, in some rounds. */
const START_MS_MAX = 120
const ENDING_MS_MAX = 25
/** Shares of the rounds in which the kill comes while it ends, or again while it starts. */
const ENDING_SHARE = 0.2
const STARTING_SHARE = 0.2

const READY_MS_MAX = 1000
/** Admissions of others that stand in the log from the beginning. */
const LOG_SUBJECTS = 20_000
const LOG_ROWS_EACH = 5
/** No round may see a daily quota begin anew. */
const MIDNIGHT_MARGIN_MS = 20_000

type Tally = {
  kills: { serving: number; starting: number; ending: number }
  admitted: number
  unknown: number
  lost: number
  wrong: string[]
  odd: string[]
  checks: number
  faults: string[]
  readyMs: number[]
}

/** A list, the plans, and a log as a busy service has it. */
async function prepareData(run: Run, data: string): Promise<void> {
  const file = join(run.directory('list'), 'list.txt')
  await Bun.write(file, ADDRESSES.map(address => `http://${address}\n`).join(''))
  await succeed(run.binary, ['import', file, '--data', data])
  addPlans(data)
  const db = new Database(join(data, ACCESS_FILE), { readwrite: true })
  const insert = db.prepare(
    'insert into admissions (subject, at, requests, kept) values (?, ?, ?, ?)',
  )
  const sinceMs = Date.now() - HOUR_MS / 2
  db.transaction(() => {
    for (let row = 1; row <= LOG_ROWS_EACH; row += 1) {
      for (let n = 0; n < LOG_SUBJECTS; n += 1) insert.run(`key:old-${n}`, sinceMs, row, row)
    }
  })()
  insert.finalize()
  db.close(true)
}

async function awayFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < MIDNIGHT_MARGIN_MS) await Bun.sleep(leftMs)
}

/** Kills the server at one of the moments, and starts it again. */
async function killAndStart(victim: Serving, random: () => number, tally: Tally): Promise<void> {
  const isEnding = random() < ENDING_SHARE
  if (isEnding) {
    victim.child().kill('SIGTERM')
    await Bun.sleep(random() * ENDING_MS_MAX)
  }
  if (await kill(victim.child())) tally.kills[isEnding ? 'ending' : 'serving'] += 1
  victim.start()
  while (random() < STARTING_SHARE) {
    await Bun.sleep(random() * START_MS_MAX)
    if (await kill(victim.child())) tally.kills.starting += 1
    victim.start()
  }
}

/** Compares what was answered with what is counted, then asks for the rest. */
async function judge(
  data: string,
  servings: readonly Serving[],
  subjects: readonly Subject[],
  random: () => number,
  tally: Tally,
): Promise<void> {
  const before = readCounted(data, subjects)
  for (const [subject, counted] of before.counted) {
    const { admitted, lost, wrong } = balanceOf(subject, counted)
    tally.admitted += admitted
    tally.unknown += subject.unknown
    tally.lost += lost
    tally.wrong.push(...wrong)
  }
  tally.wrong.push(...(await takeAllRests(servings, subjects, before.counted, random)))
  const after = readCounted(data, subjects)
  for (const [subject, counted] of after.counted) {
    tally.wrong.push(...balanceOf(subject, counted).wrong)
  }
  tally.faults.push(...before.faults, ...after.faults, ...faultsOf(data))
  tally.checks += 1
}

async function killSetup(run: Run, setup: Setup, tally: Tally): Promise<void> {
  const { name, servers, unix, kills } = setup
  const random = randomOf(run.seed, `kills ${name}`)
  const data = run.directory('data')
  await prepareData(run, data)
  const socketAt = (n: number) => (unix ? join(run.directory('socket'), `${n}`) : null)
  const servings = Array.from({ length: servers }, (_, n) =>
    createServing(run.binary, data, socketAt(n)),
  )
  for (const serving of servings) serving.start()
  for (const serving of servings) await serving.ready()
  const [victim] = servings
  const goal = sumOf(tally) + scaled(kills, run)
  for (let n = 0; victim && sumOf(tally) < goal; n += 1) {
    await awayFromMidnight()
    const subjects = addSubjects(data, n)
    const load = startLoad(servings, WORKERS, subjects, random)
    await Bun.sleep(random() * LOAD_MS_MAX)
    await killAndStart(victim, random, tally)
    tally.readyMs.push(await victim.ready())
    await Bun.sleep(between(random, 0, LOAD_AFTER_MS_MAX))
    tally.odd.push(...(await load.stop()))
    await judge(data, servings, subjects, random, tally)
  }
  for (const serving of servings) await kill(serving.child())
  run.say(`${name}: ${sumOf(tally)} kills so far`)
}

const sumOf = ({ kills: { serving, starting, ending } }: Tally) => serving + starting + ending

function findingsOf(tally: Tally, wanted: number): Finding[] {
  const { kills, admitted, unknown, lost, wrong, odd, checks, faults, readyMs } = tally
  const slowestMs = Math.max(...readyMs)
  const setups = SETUPS.map(({ name }) => name).join(', ')
  return [
    {
      promise: 'an admission that was answered is counted after its server was killed',
      figure:
        `${sumOf(tally)} kills (${kills.serving} under load, ${kills.ending} while ending, ` +
        `${kills.starting} while starting; ${setups}), ${count(admitted)} answered, ` +
        `${count(unknown)} not; ${lost} lost`,
      bound: `${wanted} kills, 0 lost`,
      holds: sumOf(tally) >= wanted && admitted > 0 && lost === 0,
    },
    {
      promise: 'a server started anew admits exactly what is left, and its headers say so',
      figure: `${wrongs(wrong)} wrong`,
      bound: '0 wrong',
      holds: checks > 0 && wrong.length === 0,
    },
    {
      promise: 'nobody gets another answer than usual from a server beside, or started anew',
      figure: `${wrongs(odd)} odd`,
      bound: '0 odd',
      holds: odd.length === 0,
    },
    {
      promise: 'the files a killed server leaves are whole',
      figure: `${checks} checks of both, ${wrongs(faults)} faults`,
      bound: '0 faults',
      holds: checks > 0 && faults.length === 0,
    },
    {
      promise: 'a killed server is ready again within a second, with nothing done by hand',
      figure:
        `${shown(slowestMs)} ms at most of ${readyMs.length} starts under load, ` +
        `with ${count(LOG_SUBJECTS * LOG_ROWS_EACH)} admissions in the log`,
      bound: `≤ ${count(READY_MS_MAX)} ms`,
      holds: readyMs.length > 0 && slowestMs <= READY_MS_MAX,
    },
  ]
}

export const killServe: Part = async run => {
  const tally: Tally = {
    kills: { serving: 0, starting: 0, ending: 0 },
    admitted: 0,
    unknown: 0,
    lost: 0,
    wrong: [],
    odd: [],
    checks: 0,
    faults: [],
    readyMs: [],
  }
  let wanted = 0
  for (const setup of SETUPS) {
    wanted += scaled(setup.kills, run)
    await killSetup(run, setup, tally)
  }
  return findingsOf(tally, wanted)
}
