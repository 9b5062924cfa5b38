/**
 * Faults under running servers while clients ask: every answer is the right one or 503, what was answered stays
 * counted (contract B8), and afterwards all is as before. One table, and one way to cause what it names.
 */
import { Database } from 'bun:sqlite'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { smallDisk } from '../../support/disk.ts'
import { succeed, type Where } from '../../support/launch.ts'
import { randomOf } from '../../support/random.ts'
import { openClient, statusOf } from '../support/client.ts'
import { repeat } from '../support/repeat.ts'
import { addressOf } from '../support/rows.ts'
import { createRestartable, files, type Restartable } from '../support/serve.ts'
import { count, shown } from '../support/table.ts'
import { createFileClock, makeWorld } from './limiter.ts'
import { createLimits, LIST, type LimitsRun } from './limits.ts'
import { type Finding, type Part, type Run, scaled, summaryOf } from './part.ts'
import { integrityFaults, kill, listFaults } from './support/kill.ts'

type Scene = {
  run: Run
  data: string
  random: () => number
  /** The server that is hit. */
  victim: Restartable
  /** Milliseconds from each start after a kill until /readyz said 200. */
  startsMs: number[]
}
/** Causes a fault; gives what ends it. */
type Cause = (scene: Scene) => Promise<() => unknown> | (() => unknown)
type Fault = {
  name: string
  cause: Cause
  /** How long it lasts in a full run, and how often a full run causes it. */
  seconds: number
  times: number
  /** What clients get meanwhile: some 503, no 503, or either; servers that are killed answer some of them. */
  shows: 'refusals' | 'answers' | 'either'
  /** With the data on a small file system, which only root may mount. */
  isSmall?: true
}

const nothing = (): void => {}

/** Kills the server, up to `stopMs` after SIGTERM, and starts it again; up to `againMs` later once more. */
const killed =
  (stopMs: number, againMs: number): Cause =>
  async ({ victim, random, startsMs }) => {
    if (stopMs > 0) {
      victim.child().kill('SIGTERM')
      await Bun.sleep(random() * stopMs)
    }
    await kill(victim.child())
    victim.start()
    if (againMs > 0) {
      await Bun.sleep(random() * againMs)
      await kill(victim.child())
      victim.start()
    }
    startsMs.push(await victim.ready())
    return nothing
  }

/** A new server takes the address over from the one that runs (contract G6). */
async function takeOver({ victim }: Scene) {
  const old = victim.child()
  victim.start()
  const code = await old.exited
  if (code !== 0) throw new Error(`the old server ended with ${code}`)
  return nothing
}

const KILLS: readonly Fault[] = [
  { name: 'killed', cause: killed(0, 0), seconds: 0, times: 40, shows: 'either' },
  { name: 'killed while it stops', cause: killed(25, 0), seconds: 0, times: 12, shows: 'either' },
  { name: 'killed while it starts', cause: killed(0, 120), seconds: 0, times: 12, shows: 'either' },
  { name: 'taken over', cause: takeOver, seconds: 0, times: 12, shows: 'answers' },
]

function fillDisk({ data }: Scene) {
  const filler = join(data, 'filler')
  Bun.spawnSync(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=4k'])
  return () => rmSync(filler)
}

/** More than the small disk holds. */
const TOO_MANY_ROWS = 300_000

async function overfillDisk({ run, data }: Scene) {
  const file = join(run.directory('rows'), 'too-many.txt')
  writeFileSync(
    file,
    Array.from({ length: TOO_MANY_ROWS }, (_, n) => `http://${addressOf(n)}\n`).join(''),
  )
  const said = await succeed([run.binary, 'import', file, '--data', data]).catch(String)
  if (!said.includes('is the disk full')) throw new Error(`the import said ${said}`)
  return nothing
}

const lock =
  (which: 'list' | 'access'): Cause =>
  ({ data }) => {
    const db = new Database(files(data)[which], { readwrite: true, create: false })
    db.run('pragma busy_timeout = 5000')
    db.run('begin immediate')
    return () => {
      db.run('rollback')
      db.close()
    }
  }

function removeList({ run, data }: Scene) {
  for (const end of ['', '-wal', '-shm']) rmSync(files(data).list + end, { force: true })
  return () =>
    succeed([run.binary, 'import', '-', '--data', data], { stdin: new TextEncoder().encode(LIST) })
}

function replaceList({ data }: Scene) {
  const { list } = files(data)
  using db = new Database(list)
  db.run(`vacuum into '${list}.copy'`)
  renameSync(`${list}.copy`, list)
  return nothing
}

const FAULTS: readonly Fault[] = [
  {
    name: 'a full disk',
    cause: fillDisk,
    seconds: 3,
    times: 1,
    shows: 'refusals',
    isSmall: true,
  },
  {
    name: 'an import that fills the disk',
    ...({ cause: overfillDisk, seconds: 2, times: 1, shows: 'either', isSmall: true } as const),
  },
  { name: 'access.db locked', cause: lock('access'), seconds: 12, times: 1, shows: 'refusals' },
  { name: 'proxies.db locked', cause: lock('list'), seconds: 3, times: 1, shows: 'answers' },
  { name: 'proxies.db removed', cause: removeList, seconds: 2, times: 1, shows: 'either' },
  {
    name: 'proxies.db replaced by a copy',
    cause: replaceList,
    seconds: 2,
    times: 1,
    shows: 'answers',
  },
]

/** Between two groups of requests, and until all must be right again. */
const PAUSE_MS = 15
const RIGHT_MS_MAX = 5_000
const READY_MS_MAX = 1_000
/** Most lines that a fault is worth on stderr. */
const SENTENCES_MAX = 6

const readyz = async ({ where }: { where: Where }): Promise<number> =>
  openClient(where)
    .then(async client => (await client.ask('/readyz')).status)
    .catch(() => 0)

/** What is wrong while a fault lasts. */
async function complaintsOf({ shows, name }: Fault, victim: Restartable, refused: number) {
  const ready = await readyz(victim)
  return [
    (await statusOf(victim.where, '/healthz')) === 200 ? '' : '/healthz is not 200',
    shows === 'refusals' && refused === 0 ? 'nothing was refused' : '',
    shows === 'refusals' && ready !== 503 ? `/readyz ${ready}` : '',
    shows === 'answers' && refused > 0 ? `${refused} were refused` : '',
    shows === 'answers' && ready !== 200 ? `/readyz ${ready}` : '',
  ].flatMap(text => (text === '' ? [] : [`${name}: ${text}`]))
}

type Clock = ReturnType<typeof createFileClock>
type Seen = { caused: number; slowestMs: number; wrong: string[] }

/** Causes a fault during a round of requests, ends it, and sends another round, of which none may fail. */
async function cause(fault: Fault, scene: Scene, limits: LimitsRun, clock: Clock, seen: Seen) {
  const { victim, random, run } = scene
  const lengthMs = 1_000 * fault.seconds * Math.min(1, Math.max(run.scale, 0.5))
  const before = victim.child().written.stderr.length
  let refused = 0
  const round = limits.open(clock.now(), { isAlike: true })
  const load = repeat(async () => {
    const answers = await round.send(6)
    refused += answers.filter(answer => answer === null || answer.status === 503).length
    await Bun.sleep(PAUSE_MS)
  })
  await Bun.sleep(30 + 30 * random())
  const end = await fault.cause(scene)
  await Bun.sleep(lengthMs)
  seen.wrong.push(...(await complaintsOf(fault, victim, refused)))
  await end()
  const endMs = performance.now()
  while ((await readyz(victim)) !== 200 && performance.now() - endMs < RIGHT_MS_MAX) {
    await Bun.sleep(PAUSE_MS)
  }
  const rightMs = performance.now() - endMs
  await load.stop()
  await round.settle()
  clock.move(Math.round(2_000 * random()))
  const unknown = limits.seen.unknown
  const after = limits.open(clock.now())
  await after.send()
  await after.settle()
  if (limits.seen.unknown > unknown) seen.wrong.push(`${fault.name}: 503 afterwards`)
  seen.wrong.push(...listFaults(scene.data), ...accessFaults(scene.data))
  const said = victim.child().written.stderr.slice(before).split('\n').filter(Boolean)
  if (said.length > SENTENCES_MAX) seen.wrong.push(`${fault.name}: ${said.length} lines on stderr`)
  seen.slowestMs = Math.max(seen.slowestMs, rightMs)
  seen.caused += 1
}

function accessFaults(data: string): string[] {
  using db = new Database(files(data).access, { readwrite: true })
  return integrityFaults(db)
}

/** Causes faults of one kind of disk again and again on some servers of one data directory. */
async function torture(run: Run, faults: readonly Fault[], servers: number): Promise<Finding[]> {
  const name = faults.length === 1 ? (faults[0]?.name ?? '') : `${servers} servers that are killed`
  const disk = faults[0]?.isSmall ? smallDisk('12m') : run.directory('fault')
  if (disk === null) {
    return [{ promise: name, figure: 'cannot be caused by this user', bound: '', holds: true }]
  }
  const data = join(disk, 'data')
  const random = randomOf(run.seed, `${name} ${servers}`)
  const ids = await makeWorld(run, data)
  const clockDirectory = run.directory('clock')
  const clock = createFileClock(clockDirectory)
  const running = Array.from({ length: servers }, () =>
    createRestartable({
      ...{ program: [run.binary], data, more: ['--log', 'off'] },
      env: { PROXYLIST_TEST_CLOCK: clock.file },
    }),
  )
  for (const server of running) server.start()
  for (const server of running) await server.ready()
  const [victim] = running
  if (victim === undefined) throw new Error('there is no server')
  const where = running.map(one => one.where)
  const limits = createLimits({ random, ids, servers: () => where })
  const scene: Scene = { run, data, random, victim, startsMs: [] }
  const seen: Seen = { caused: 0, slowestMs: 0, wrong: [] }
  for (const fault of faults) {
    for (let n = 0; n < scaled(fault.times, run); n += 1) {
      await cause(fault, scene, limits, clock, seen)
    }
  }
  const findings = await limits.end(clock.now(), name)
  for (const server of running) await server.child().stop()
  for (const text of [...seen.wrong, ...limits.wrong].slice(0, 20)) run.say(text)
  const { startsMs } = scene
  const slowestMs = Math.max(0, ...startsMs)
  return [
    ...findings.map(finding => ({ ...finding, holds: limits.wrong.length === 0 })),
    {
      promise: `${name}: right answers or 503, then all as before`,
      figure:
        `${seen.caused} times, right after ${shown(seen.slowestMs)} ms at most; ` +
        `${summaryOf(seen.wrong)} wrong`,
      bound: `0; ≤ ${count(RIGHT_MS_MAX)} ms`,
      holds: seen.caused > 0 && seen.wrong.length === 0 && seen.slowestMs <= RIGHT_MS_MAX,
    },
    ...(startsMs.length === 0
      ? []
      : [
          {
            promise: `${name}: ready again within a second, without repair`,
            figure: `${shown(slowestMs)} ms at most of ${startsMs.length} starts`,
            bound: `≤ ${count(READY_MS_MAX)} ms`,
            holds: slowestMs <= READY_MS_MAX,
          },
        ]),
  ]
}

export const killServe: Part = async run => [
  ...(await torture(run, KILLS, 1)),
  ...(await torture(run, KILLS, 2)),
]

export const faults: Part = async run => {
  const findings: Finding[] = []
  for (const fault of FAULTS) {
    run.say(fault.name)
    findings.push(...(await torture(run, [fault], 1)))
  }
  return findings
}
