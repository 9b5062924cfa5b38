/**
 * Kills servers under load at random moments: what they answered stays counted (contract B8), and
 * the next start is ready at once without repair and admits exactly what remains, as the judge of the
 * limiter finds.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { keySubject } from '../../../src/access/entitlements.ts'
import { openRegistry } from '../../../src/sqlite/stores.ts'
import { randomOf } from '../../support/random.ts'
import { createRestartable, files, type Restartable } from '../support/serve.ts'
import { count, shown } from '../support/table.ts'
import { startClients } from './limiter/client.ts'
import { findingsOf, judgeNotes } from './limiter/judge.ts'
import { makeWorld, readJournal } from './limiter/world.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'
import { integrityFaults, kill, listFaults, summaryOf } from './support/kill.ts'

/** Ways to run the servers, and the kills of each in a full run. The first server is killed. */
const SETUPS: readonly { name: string; servers: number; unix: boolean; kills: number }[] = [
  { name: 'one server', servers: 1, unix: false, kills: 60 },
  { name: 'one of two servers', servers: 2, unix: false, kills: 40 },
  { name: 'a unix socket left behind', servers: 1, unix: true, kills: 20 },
]
type Setup = (typeof SETUPS)[number]

const CLIENTS = 12
/** The clients go over all subjects in so many seconds; how many requests that is says how many there are. */
const LAP_SECONDS = 20
const LAP_REQUESTS = 100_000
/** A kill comes up to this long after the one before. */
const LOAD_MS_MAX = 400
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
const DAY_MS = 86_400_000

/** What all kills did, and what was found in the files after them. */
type Tally = {
  serving: number
  starting: number
  stopping: number
  checks: number
  faults: string[]
  readyMs: number[]
}

const killsOf = ({ serving, starting, stopping }: Tally) => serving + starting + stopping

/** Adds the admissions of a busy service. */
function addOthers(data: string): void {
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
  if (await kill(victim.child())) tally[isStopping ? 'stopping' : 'serving'] += 1
  victim.start()
  while (random() < STARTING_SHARE) {
    await Bun.sleep(random() * START_MS_MAX)
    if (await kill(victim.child())) tally.starting += 1
    victim.start()
  }
}

function faultsIn(data: string): string[] {
  const db = new Database(files(data).access, { readwrite: true })
  try {
    return [...integrityFaults(db), ...listFaults(data)]
  } finally {
    db.close()
  }
}

/** Kills the first server of a setup again and again under load, and judges all answers. */
async function killSetup(run: Run, setup: Setup, tally: Tally): Promise<Finding[]> {
  const { name, servers, unix, kills } = setup
  const random = randomOf(run.seed, `kills ${name}`)
  const data = run.directory('data')
  addOthers(data)
  const ids = await makeWorld(run.binary, data, LAP_REQUESTS)
  const running = Array.from({ length: servers }, (_, n) => {
    const socket = unix ? join(run.directory('socket'), `${n}`) : null
    return createRestartable({ program: [run.binary], data, socket })
  })
  for (const server of running) server.start()
  for (const server of running) await server.ready()
  const clients = startClients(run, [running.map(({ where }) => where)], {
    ...{ clients: CLIENTS, allRequests: LAP_REQUESTS },
    length: { kind: 'steady', lapSeconds: LAP_SECONDS },
  })
  const [victim] = running
  const before = killsOf(tally)
  const goal = before + scaled(kills, run)
  while (victim && killsOf(tally) < goal) {
    await Bun.sleep(random() * LOAD_MS_MAX)
    await killAndStart(victim, random, tally)
    tally.readyMs.push(await victim.ready())
    tally.faults.push(...faultsIn(data))
    tally.checks += 1
  }
  await clients.stop()
  for (const server of running) await kill(server.child())
  const { judged } = await judgeNotes(run, clients.files, ids, readJournal(data))
  return findingsOf(judged, 1, `after ${killsOf(tally) - before} kills, ${name}`)
}

export const killServe: Part = async run => {
  const tally: Tally = { serving: 0, starting: 0, stopping: 0, checks: 0, faults: [], readyMs: [] }
  const findings: Finding[] = []
  for (const setup of SETUPS) findings.push(...(await killSetup(run, setup, tally)))
  const { serving, starting, stopping, checks, faults, readyMs } = tally
  const wanted = SETUPS.reduce((sum, { kills }) => sum + scaled(kills, run), 0)
  const slowestMs = Math.max(...readyMs)
  return [
    ...findings,
    {
      promise: 'the files a killed server leaves are intact',
      figure:
        `${killsOf(tally)} kills (${serving} under load, ${stopping} while stopping, ` +
        `${starting} while starting), ${checks} checks of both, ${summaryOf(faults)} faults`,
      bound: `${wanted} kills, 0 faults`,
      holds: killsOf(tally) >= wanted && checks > 0 && faults.length === 0,
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
