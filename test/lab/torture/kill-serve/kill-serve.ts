/**
 * Kills servers under load at random moments: what they answered stays counted (contract B8), and
 * the next start is ready at once without repair and admits exactly what remains.
 */
import { join } from 'node:path'
import { keySubject } from '../../../../src/access/entitlements.ts'
import { openRegistry } from '../../../../src/sqlite/stores.ts'
import { succeed } from '../../../support/launch.ts'
import { between, randomOf } from '../../../support/random.ts'
import { count, shown } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { DEADLINE, kill, summaryOf } from '../support/kill.ts'
import { listFaults } from '../support/list-state.ts'
import { createRestartable, type Restartable, startLoad } from './restart.ts'
import {
  ADDRESSES,
  addPlans,
  addSubjects,
  balanceOf,
  readCounted,
  type Subject,
  takeAllRemaining,
} from './subjects.ts'

/** Ways to run the servers, and the kills of each in a full run. The first server is killed. */
const SETUPS: readonly { name: string; servers: number; unix: boolean; kills: number }[] = [
  { name: 'one server', servers: 1, unix: false, kills: 60 },
  { name: 'one of two servers', servers: 2, unix: false, kills: 40 },
  { name: 'a unix socket left behind', servers: 1, unix: true, kills: 20 },
]
type Setup = (typeof SETUPS)[number]

const CLIENTS = 24
/** Load before a kill lasts up to this, and after the restart too. */
const LOAD_MS_MAX = 400
const LOAD_AFTER_MS_MAX = 60
/** In some rounds a server is killed up to this long after its start, or after SIGTERM. */
const START_MS_MAX = 120
const STOPPING_MS_MAX = 25
/** Shares of the rounds in which it is killed while it stops, or again while it starts. */
const STOPPING_SHARE = 0.2
const STARTING_SHARE = 0.2

const READY_MS_MAX = 1000
/** Admissions of other subjects that the database holds from the beginning. */
const OTHER_SUBJECTS = 20_000
const OTHER_ADMISSIONS_EACH = 5
/** So many of them were made in one turn of the event loop. */
const TURN = 50
/** A daily quota must not start again during a round. */
const DAY_MS = 86_400_000
const MIDNIGHT_MARGIN_MS = 20_000

type Tally = {
  kills: { serving: number; starting: number; stopping: number }
  admitted: number
  unknown: number
  lost: number
  wrong: string[]
  unexpected: string[]
  checks: number
  faults: string[]
  readyMs: number[]
}

/** A list, the plans, and the admissions of a busy service. */
async function prepareData(run: Run, data: string): Promise<void> {
  const file = join(run.directory('list'), 'list.txt')
  await Bun.write(file, ADDRESSES.map(address => `http://${address}\n`).join(''))
  await succeed([run.binary, 'import', file, '--data', data], DEADLINE)
  addPlans(data)
  const { usage, close } = openRegistry(data)
  const sinceMs = Date.now() - DAY_MS / 48 // half an hour ago
  const others = Array.from({ length: OTHER_SUBJECTS }, (_, n) => {
    const window = { name: 'other', limit: OTHER_ADMISSIONS_EACH, ms: DAY_MS }
    return { rules: [{ subject: keySubject(`other-${n}`), window, daily: null }], nowMs: sinceMs }
  })
  for (let n = 0; n < OTHER_ADMISSIONS_EACH; n += 1) {
    for (let from = 0; from < others.length; from += TURN)
      usage.admit(others.slice(from, from + TURN))
  }
  close()
}

async function awayFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < MIDNIGHT_MARGIN_MS) await Bun.sleep(leftMs)
}

/** Kills the server while it serves, stops or starts, and starts it again. */
async function killAndStart(
  victim: Restartable,
  random: () => number,
  tally: Tally,
): Promise<void> {
  const isStopping = random() < STOPPING_SHARE
  if (isStopping) {
    victim.child().kill('SIGTERM')
    await Bun.sleep(random() * STOPPING_MS_MAX)
  }
  if (await kill(victim.child())) tally.kills[isStopping ? 'stopping' : 'serving'] += 1
  victim.start()
  while (random() < STARTING_SHARE) {
    await Bun.sleep(random() * START_MS_MAX)
    if (await kill(victim.child())) tally.kills.starting += 1
    victim.start()
  }
}

/** Compares what was answered with what is counted, then consumes the rest. */
async function check(
  data: string,
  running: readonly Restartable[],
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
  tally.wrong.push(...(await takeAllRemaining(running, subjects, before.counted, random)))
  const after = readCounted(data, subjects)
  for (const [subject, counted] of after.counted) {
    tally.wrong.push(...balanceOf(subject, counted).wrong)
  }
  tally.faults.push(...before.faults, ...after.faults, ...listFaults(data))
  tally.checks += 1
}

async function killSetup(run: Run, setup: Setup, tally: Tally): Promise<void> {
  const { name, servers, unix, kills } = setup
  const random = randomOf(run.seed, `kills ${name}`)
  const data = run.directory('data')
  await prepareData(run, data)
  const socketAt = (n: number) => (unix ? join(run.directory('socket'), `${n}`) : null)
  const running = Array.from({ length: servers }, (_, n) =>
    createRestartable({ program: [run.binary], data, socket: socketAt(n) }),
  )
  for (const server of running) server.start()
  for (const server of running) await server.ready()
  const [victim] = running
  const goal = sumOf(tally) + scaled(kills, run)
  for (let n = 0; victim && sumOf(tally) < goal; n += 1) {
    await awayFromMidnight()
    const subjects = addSubjects(data, n)
    const load = startLoad(running, CLIENTS, subjects, random)
    await Bun.sleep(random() * LOAD_MS_MAX)
    await killAndStart(victim, random, tally)
    tally.readyMs.push(await victim.ready())
    await Bun.sleep(between(random, 0, LOAD_AFTER_MS_MAX))
    tally.unexpected.push(...(await load.stop()))
    await check(data, running, subjects, random, tally)
  }
  for (const server of running) await kill(server.child())
  run.say(`${name}: ${sumOf(tally)} kills so far`)
}

const sumOf = ({ kills: { serving, starting, stopping } }: Tally) => serving + starting + stopping

function findingsOf(tally: Tally, wanted: number): Finding[] {
  const { kills, admitted, unknown, lost, wrong, unexpected, checks, faults, readyMs } = tally
  const slowestMs = Math.max(...readyMs)
  const setups = SETUPS.map(({ name }) => name).join(', ')
  return [
    {
      promise: 'an admission that was answered is counted after its server was killed',
      figure:
        `${sumOf(tally)} kills (${kills.serving} under load, ${kills.stopping} while stopping, ` +
        `${kills.starting} while starting; ${setups}), ${count(admitted)} answered, ` +
        `${count(unknown)} not; ${lost} lost`,
      bound: `${wanted} kills, 0 lost`,
      holds: sumOf(tally) >= wanted && admitted > 0 && lost === 0,
    },
    {
      promise: 'a restarted server admits exactly what remains, and its headers say so',
      figure: `${summaryOf(wrong)} wrong`,
      bound: '0 wrong',
      holds: checks > 0 && wrong.length === 0,
    },
    {
      promise: 'a server beside a killed one, or restarted, gives only usual answers',
      figure: `${summaryOf(unexpected)} unexpected`,
      bound: '0 unexpected',
      holds: unexpected.length === 0,
    },
    {
      promise: 'the files a killed server leaves are intact',
      figure: `${checks} checks of both, ${summaryOf(faults)} faults`,
      bound: '0 faults',
      holds: checks > 0 && faults.length === 0,
    },
    {
      promise: 'a killed server is ready again within a second, without repair',
      figure:
        `${shown(slowestMs)} ms at most of ${readyMs.length} starts under load, ` +
        `with ${count(OTHER_SUBJECTS * OTHER_ADMISSIONS_EACH)} other admissions`,
      bound: `≤ ${count(READY_MS_MAX)} ms`,
      holds: readyMs.length > 0 && slowestMs <= READY_MS_MAX,
    },
  ]
}

export const killServe: Part = async run => {
  const tally: Tally = {
    kills: { serving: 0, starting: 0, stopping: 0 },
    admitted: 0,
    unknown: 0,
    lost: 0,
    wrong: [],
    unexpected: [],
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
