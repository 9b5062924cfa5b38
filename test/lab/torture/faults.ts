/**
 * Faults under a running server: disks, locks, damaged and missing files, descriptors. Every
 * answer is the right one or 503, and after the fault all is as before.
 */

import { Database } from 'bun:sqlite'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import type { Socket } from 'bun'
import { addKeys } from '../../support/fixtures.ts'
import { succeed } from '../../support/launch.ts'
import { between, randomOf } from '../../support/random.ts'
import { type Client, openClient, requestOf } from '../support/client.ts'
import { repeat } from '../support/repeat.ts'
import { addressOf, writeRows } from '../support/rows.ts'
import { files, startServe } from '../support/serve.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

const KEY = `pl_${'F'.repeat(32)}`
/** Longest wait for an answer. */
const ANSWER_MS_MAX = 20_000
/** Between two requests of a client. */
const PAUSE_MS = 15
/** Longest wait for a recovery. */
const RECOVERY_MS_MAX = 15_000
/** Longest wait for the first refusal: the first check of the list begins a minute after the start. */
const REFUSED_MS_MAX = 65_000

/** Queries that read indexes, rows, names, and one with a long answer; none depends on the time. */
const QUERIES = [
  'get=json&count=40',
  'country=de,us&count=30',
  'country=fr&get=json&ping=900',
  'port=8080&count=50&get=json',
  `city=${encodeURIComponent('Город DE 3')},City%20US%201&get=json`,
  'type=socks5&works=80&get=json&count=25&lang=en',
  'cm=except&country=us,cn&anon=elite&count=60',
  'get=json&fields=ip,ip_out,city',
].map(query => `${query}&time=999999999`)

/** Imports `rows` into `dir` and adds an unlimited key; gives the file they came from. */
async function makeData(binary: string, dir: string, rows: number): Promise<string> {
  const source = `${dir}.ndjson`
  await writeRows(source, { rows, nowMs: Date.now() })
  await succeed([binary, 'import', source, '--data', dir])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free' }])
  return source
}

const TRUNCATED = '(truncated)'

type Seen = { status: number; body: string; retryAfter: string | null; ms: number }
type Watched = Awaited<ReturnType<typeof startWatched>>

/** Starts a server; `wrapper` is a command that runs it. */
async function startWatched(binary: string, dir: string, wrapper: readonly string[] = []) {
  const more = ['--log', 'off', '--grace', '1s']
  const server = await startServe(binary, { data: dir, more, wrapper })
  const url = `http://127.0.0.1:${server.port}`

  async function get(path: string): Promise<Seen> {
    const startMs = performance.now()
    const taken = () => performance.now() - startMs
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX)
      const response = await fetch(`${url}${path}`, { signal })
      // A stream that fails is truncated: its status is sent already.
      const body = await response.text().catch(() => TRUNCATED)
      const retryAfter = response.headers.get('retry-after')
      return { status: response.status, body, retryAfter, ms: taken() }
    } catch (error) {
      return { status: 0, body: String(error), retryAfter: null, ms: taken() }
    }
  }
  return {
    ...server,
    get,
    ask: (query: string) => get(`/api?key=${KEY}&${query}`),
  }
}

/** The right answers, from a server without a fault. */
async function answersOf(server: Watched): Promise<Map<string, string>> {
  const right = new Map<string, string>()
  for (const query of QUERIES) {
    const { status, body } = await server.ask(query)
    if (status !== 200) throw new Error(`${query}: ${status} ${body}`)
    right.set(query, body)
  }
  return right
}

/** Whether an answer is allowed: the right one, or 503. */
const isAllowed = ({ status, body, retryAfter }: Seen, right: string | undefined) =>
  (status === 200 && (body === right || body === TRUNCATED)) ||
  (status === 503 && retryAfter === '1' && body.includes('"DB_EXECUTE_FAILED"'))

/** Clients that ask until they are stopped. */
function startLoad(server: Watched, right: ReadonlyMap<string, string>, clients = 3) {
  const seen = { answers: 0, refused: 0, wrong: [] as string[], slowestMs: 0 }
  const { stop } = repeat(async (turn, client) => {
    const query = QUERIES[(client * 3 + turn) % QUERIES.length] ?? ''
    const answer = await server.ask(query)
    seen.answers += 1
    if (answer.status === 503) seen.refused += 1
    seen.slowestMs = Math.max(seen.slowestMs, answer.ms)
    if (!isAllowed(answer, right.get(query))) {
      seen.wrong.push(`${query}: ${answer.status} ${answer.body.slice(0, 80)}`)
    }
    await Bun.sleep(PAUSE_MS)
  }, clients)
  return {
    seen,
    async end() {
      await stop()
      return seen
    },
  }
}

/** Milliseconds until every query has its right answer again and /readyz is 200, or null. */
async function untilRight(server: Watched, right: ReadonlyMap<string, string>) {
  const startMs = performance.now()
  while (performance.now() - startMs < RECOVERY_MS_MAX) {
    const answers = await Promise.all(QUERIES.map(server.ask))
    const ready = await server.get('/readyz')
    const isRight = answers.every(({ body }, i) => body === right.get(QUERIES[i] ?? ''))
    if (isRight && ready.status === 200) return performance.now() - startMs
    await Bun.sleep(20)
  }
  return null
}

type Scene = {
  binary: string
  dir: string
  /** The list as a file to import. */
  source: string
  /** A copy of access.db. */
  accessCopy: string
  server: Watched
}
/** Causes a fault; gives what ends it. */
type Begin = (scene: Scene) => (() => void | Promise<void>) | Promise<() => void | Promise<void>>

type Fault = readonly [
  name: string,
  begin: Begin,
  /** What clients must get meanwhile: 503 and no answers, only right answers, or either. */
  shows: 'refusals' | 'answers' | 'either',
  /** How long it lasts at full scale. */
  seconds: number,
  /** With the data on a small file system, or with a server of another user. */
  on?: 'small disk' | 'another user',
]

/** The fault cannot be caused on this machine, for this reason. */
class Unavailable extends Error {}

/** @throws Unavailable when the command fails. */
function run(...command: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(command)
  if (exitCode !== 0) throw new Unavailable(`${command[0]}: ${stderr.toString().trim()}`)
}

const importAgain = async ({ binary, dir, source }: Scene): Promise<void> => {
  await succeed([binary, 'import', source, '--replace', '--data', dir])
}

/** Renames a copy over the file, as an operator would restore a backup. */
function restoreAccess({ dir, accessCopy }: Scene): void {
  const fresh = `${files(dir).access}.restored`
  copyFileSync(accessCopy, fresh)
  renameSync(fresh, files(dir).access)
}

const lock =
  (which: 'list' | 'access'): Begin =>
  ({ dir }) => {
    const db = new Database(files(dir)[which], { readwrite: true, create: false })
    db.run('pragma busy_timeout = 5000')
    db.run('begin immediate')
    return () => {
      db.run('rollback')
      db.close()
    }
  }

const remove =
  (which: 'list' | 'access', ends: readonly string[]): Begin =>
  scene => {
    for (const end of ends) rmSync(files(scene.dir)[which] + end, { force: true })
    return () => (which === 'list' ? importAgain(scene) : restoreAccess(scene))
  }

function fillDisk({ dir }: Scene) {
  const filler = `${dir}/filler`
  Bun.spawnSync(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=4k'])
  return () => unlinkSync(filler)
}

/** More than the small disk holds. */
const TOO_MANY_ROWS = 300_000

/** Imports more than the disk holds; nothing is done afterwards. */
async function overfillDisk({ binary, dir }: Scene) {
  const source = `${dir}/../too-many.txt`
  const rows = Array.from({ length: TOO_MANY_ROWS }, (_, n) => `http://${addressOf(n)}\n`)
  writeFileSync(source, rows.join(''))
  const { exited, stderr } = Bun.spawn([binary, 'import', source, '--data', dir], {
    stderr: 'pipe',
  })
  const said = await new Response(stderr).text()
  if ((await exited) !== 1 || !said.includes('the disk is full')) {
    throw new Error(`the import did not fail because of the disk: ${said}`)
  }
  return () => {}
}

function limitFileSize({ server }: Scene) {
  run('prlimit', '--pid', String(server.pid), '--fsize=4096:unlimited')
  return () => run('prlimit', '--pid', String(server.pid), '--fsize=unlimited:unlimited')
}

function makeImmutable({ dir }: Scene) {
  const { list, access } = files(dir)
  const all = [list, access, `${access}-wal`, dir]
  run('chattr', '+i', ...all)
  return () => run('chattr', '-i', ...all.reverse())
}

const changeMode =
  (mode: string) =>
  ({ dir }: Scene) => {
    run('chmod', mode, dir)
    return () => run('chmod', '0700', dir)
  }

/** Overwrites the middle of the list. What the server has in memory is right until a check finds it. */
function overwrite(scene: Scene) {
  const { list } = files(scene.dir)
  const fd = openSync(list, 'r+')
  writeSync(fd, Buffer.alloc(20_000, 0x5a), 0, 20_000, Math.floor(statSync(list).size / 2))
  closeSync(fd)
  return () => importAgain(scene)
}

async function replaceList(scene: Scene) {
  const { list } = files(scene.dir)
  const fresh = `${list}.restored`
  const db = new Database(list)
  db.run(`vacuum into '${fresh}'`)
  db.close()
  renameSync(fresh, list)
  return () => {}
}

const FAULTS: readonly Fault[] = [
  ['full disk', fillDisk, 'refusals', 3, 'small disk'],
  ['import that fills the disk', overfillDisk, 'either', 3, 'small disk'],
  ['file-size limit', limitFileSize, 'refusals', 3],
  ['files and directory made immutable', makeImmutable, 'refusals', 3],
  [
    'directory without write permission, server of another user',
    changeMode('0500'),
    'answers',
    2,
    'another user',
  ],
  [
    'directory closed to the server, which is of another user',
    changeMode('0000'),
    'refusals',
    2,
    'another user',
  ],
  ['access.db locked', lock('access'), 'refusals', 30],
  ['proxies.db locked', lock('list'), 'answers', 3],
  ['proxies.db overwritten in part', overwrite, 'either', 2],
  ['access.db deleted', remove('access', ['']), 'refusals', 2],
  ['access.db deleted with its WAL', remove('access', ['', '-wal', '-shm']), 'refusals', 2],
  ['proxies.db deleted', remove('list', ['']), 'either', 2],
  ['proxies.db deleted with its WAL', remove('list', ['', '-wal', '-shm']), 'either', 2],
  ['proxies.db replaced by a copy', replaceList, 'either', 1],
]

const ROWS = 3_000
/** A user who owns nothing. */
const NOBODY = 65_534
/** Longest wait for an answer, and for the recovery. */
const SILENCE_MS = 5_000
const RECOVERY_MS = 5_000

/** What one fault caused. */
type Outcome = {
  name: string
  answers: number
  refused: number
  wrong: readonly string[]
  slowestMs: number
  recoveryMs: number | null
  crashed: boolean
  sentences: number
  complaints: string[]
}

/** Copies `pristine` to where the fault can be caused; gives the command that runs the server. */
function stage(on: Fault[4], pristine: string, dir: string) {
  if (on === 'small disk') {
    mkdirSync(dir, { recursive: true })
    run('mount', '-t', 'tmpfs', '-o', 'size=12m,mode=0700', 'tmpfs', dir)
  }
  cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
  const asNobody = on === 'another user' && process.getuid?.() === 0
  if (asNobody) run('chown', '-R', `${NOBODY}:${NOBODY}`, dir)
  const wrapper = asNobody
    ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups']
    : []
  return {
    wrapper,
    leave: () => {
      if (on === 'small disk') Bun.spawnSync(['umount', '-l', dir])
    },
  }
}

/** What is wrong with the answers and health checks while a fault lasts. */
async function complaintsOf(shows: Fault[2], server: Watched, refused: number): Promise<string[]> {
  const ready = await server.get('/readyz')
  const health = await server.get('/healthz')
  const complaints: string[] = []
  if (health.status !== 200) complaints.push(`/healthz said ${health.status}`)
  if (shows === 'refusals' && refused === 0) complaints.push('nothing was refused')
  if (shows === 'refusals' && ready.status !== 503) complaints.push(`/readyz ${ready.status}`)
  if (shows === 'answers' && refused > 0) complaints.push(`${refused} were refused`)
  if (shows === 'answers' && ready.status !== 200) complaints.push(`/readyz ${ready.status}`)
  return complaints
}

async function cause(
  [name, begin, shows, seconds, on]: Fault,
  run: Run,
  pristine: string,
  source: string,
): Promise<Outcome> {
  const dir = `${run.directory('fault')}/data`
  const { wrapper, leave } = stage(on, pristine, dir)
  if (wrapper.length > 0)
    for (const above of [dir, `${dir}/..`, `${dir}/../..`]) chmodSync(above, 0o711)
  const accessCopy = `${source}.access`
  copyFileSync(files(pristine).access, accessCopy)
  const server = await startWatched(run.binary, dir, wrapper).catch(error => {
    leave()
    throw error
  })
  try {
    const right = await answersOf(server)
    const load = startLoad(server, right)
    await Bun.sleep(300)
    await server.get('/readyz') // the server has been verified before the fault
    const before = server.written.stderr.length
    const end = await begin({ binary: run.binary, dir, source, accessCopy, server })
    const refusedBefore = load.seen.refused
    await Bun.sleep(Math.max(1500, seconds * 1000 * Math.min(1, run.scale)))
    const begunMs = performance.now()
    while (shows === 'refusals' && performance.now() - begunMs < REFUSED_MS_MAX) {
      if (load.seen.refused > refusedBefore) break
      await Bun.sleep(100)
    }
    const complaints = await complaintsOf(shows, server, load.seen.refused - refusedBefore)
    await end()
    const recoveryMs = await untilRight(server, right)
    const seen = await load.end()
    await Bun.sleep(1100) // the next tick, a second later, logs the recovery
    const sentences = server.written.stderr.slice(before).split('\n').filter(Boolean).length
    const crashed = !server.isRunning()
    return { name, ...seen, recoveryMs, crashed, sentences, complaints }
  } finally {
    await server.stop()
    leave()
  }
}

/** The finding of a fault, with everything that is wrong. */
function findingOf(outcome: Outcome): Finding {
  const { name, answers, refused, wrong, slowestMs, recoveryMs, crashed, sentences } = outcome
  const faults = [
    ...outcome.complaints,
    ...(crashed ? ['it ended'] : []),
    ...(wrong.length > 0 ? [`${wrong.length} wrong answers, such as ${wrong[0]}`] : []),
  ]
  const recovered =
    recoveryMs === null ? 'not recovered' : `right after ${Math.round(recoveryMs)} ms`
  const isQuick = recoveryMs !== null && recoveryMs <= RECOVERY_MS && slowestMs <= SILENCE_MS
  return {
    promise: `${name}: right answers or 503, then all as before`,
    figure:
      `${answers} answers, ${refused} of them 503, slowest ${Math.round(slowestMs)} ms; ` +
      `${recovered}; ${sentences} sentences${faults.map(fault => `; ${fault}`).join('')}`,
    bound: '0 wrong, 0 crashes, ≤ 5 s each, ≤ 6 sentences',
    holds: faults.length === 0 && isQuick && sentences <= 6,
  }
}

/** Moves what the WALs hold into the files, so that copies of the directory are complete. */
function checkpoint(dir: string): void {
  for (const file of Object.values(files(dir))) {
    const db = new Database(file)
    db.run('pragma wal_checkpoint(truncate)')
    db.close(true)
  }
}

export const faults: Part = async run => {
  const pristine = `${run.directory('pristine')}/data`
  const source = await makeData(run.binary, pristine, ROWS)
  checkpoint(pristine)
  const findings: Finding[] = []
  for (const fault of FAULTS) {
    run.say(fault[0])
    try {
      findings.push(findingOf(await cause(fault, run, pristine, source)))
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      const figure = `not caused on this machine (${error.message})`
      findings.push({ promise: fault[0], figure, bound: '', holds: true })
    }
  }
  return [...findings, ...(await exhaust(run, pristine)), ...(await flips(run, pristine))]
}

/** Descriptors of the server, and the larger number of idle connections. */
const DESCRIPTORS = 96
const IDLE = 300
const ASKED = 300
/** Sends requests one after the other on one connection; gives statuses and the slowest answer. */
async function askInTurn(client: Client, times: number) {
  const statuses = new Map<number, number>()
  let slowestMs = 0
  for (let n = 0; n < times && client.isOpen(); n += 1) {
    const startMs = performance.now()
    const { answer } = await client.exchange(
      requestOf(`/api?key=${KEY}&${QUERIES[n % QUERIES.length]}`),
    )
    const status = answer?.status ?? 0
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    slowestMs = Math.max(slowestMs, performance.now() - startMs)
    await Bun.sleep(5)
  }
  return { statuses, slowestMs }
}

async function exhaust(run: Run, pristine: string): Promise<Finding[]> {
  run.say('out of file descriptors')
  const dir = `${run.directory('descriptors')}/data`
  cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
  const server = await startWatched(run.binary, dir, [
    'prlimit',
    `--nofile=${DESCRIPTORS}:${DESCRIPTORS}`,
  ])
  try {
    const right = await answersOf(server)
    const client = await openClient(server.where)
    await Bun.sleep(100)
    const idle: Socket[] = []
    for (let n = 0; n < IDLE; n += 1) {
      idle.push(
        await Bun.connect({ hostname: '127.0.0.1', port: server.port, socket: { data() {} } }),
      )
    }
    await Bun.sleep(500)
    const { statuses, slowestMs } = await askInTurn(client, ASKED)
    for (const socket of idle) socket.end()
    const recoveryMs = await untilRight(server, right)
    const good = statuses.get(200) ?? 0
    const refused = statuses.get(503) ?? 0
    const shown = recoveryMs === null ? 'never' : `${Math.round(recoveryMs)} ms after`
    return [
      {
        promise: 'out of descriptors: open connections are served, and new ones again afterwards',
        figure:
          `${IDLE} idle connections, ${DESCRIPTORS} descriptors: ${good} of ${ASKED} answers 200, ` +
          `${refused} 503, slowest ${Math.round(slowestMs)} ms; new connections ${shown}`,
        bound: 'no failures, ≤ 5 s',
        holds:
          good + refused === ASKED &&
          slowestMs <= 5_000 &&
          recoveryMs !== null &&
          recoveryMs <= 5_000 &&
          server.isRunning(),
      },
    ]
  } finally {
    await server.stop()
  }
}

const FLIPS = 240
/**
 * Of the damages that show in an answer, the share that a check may miss: a bit in a row that is the same in
 * all indexes, or in the name of a city. `integrity_check` found 38 of 40.
 */
const MISSED_MAX = 0.1

/** Flips one to four bits of a file. */
function flipBits(file: string, random: () => number): void {
  const fd = openSync(file, 'r+')
  const { size } = statSync(file)
  for (let n = between(random, 1, 4); n > 0; n -= 1) {
    const at = between(random, 0, size - 1)
    const byte = new Uint8Array(1)
    readSync(fd, byte, 0, 1, at)
    byte[0] = (byte[0] ?? 0) ^ (1 << between(random, 0, 7))
    writeSync(fd, byte, 0, 1, at)
  }
  closeSync(fd)
}

const askAll = (server: Watched): Promise<Seen[]> => Promise.all(QUERIES.map(server.ask))

/** Whether `doctor` finds the list of a directory damaged. */
async function isFound(binary: string, dir: string): Promise<boolean> {
  const doctor = Bun.spawn([binary, 'doctor', '--json', '--data', dir], { stderr: 'ignore' })
  const report = (await new Response(doctor.stdout).json()) as {
    checks: { check: string; ok: boolean }[]
  }
  return report.checks.some(({ check, ok }) => check === 'list' && !ok)
}

type Damage = {
  end: 'refused' | 'served' | 'not started' | 'crashed'
  wrong: string[]
  isFound: boolean
  stderr: string
}

/** One damage: before the start, or under a server that has answered or not. */
async function damageOnce(
  { binary }: Run,
  dir: string,
  right: ReadonlyMap<string, string>,
  random: () => number,
): Promise<Damage> {
  const isRunning = random() < 0.5
  const file = files(dir).list
  if (!isRunning) flipBits(file, random)
  const server = await startWatched(binary, dir).catch(() => null)
  if (server === null) {
    return { end: 'not started', wrong: [], isFound: true, stderr: '' }
  }
  try {
    if (isRunning) {
      if (random() < 0.5) await askAll(server)
      flipBits(file, random)
    }
    const all = [...(await askAll(server)), ...(await askAll(server))]
    const wrong = all.flatMap((answer, i) => {
      const query = QUERIES[i % QUERIES.length] ?? ''
      const isRight = isAllowed(answer, right.get(query))
      return isRight ? [] : [`${query}: ${answer.status} ${answer.body.slice(0, 60)}`]
    })
    const { stderr } = server.written
    const served = stderr.includes('is damaged') ? 'refused' : 'served'
    const end = server.isRunning() ? served : 'crashed'
    await server.stop()
    return { end, wrong, isFound: await isFound(binary, dir), stderr }
  } finally {
    await server.stop()
  }
}

async function flips(run: Run, pristine: string): Promise<Finding[]> {
  const random = randomOf(run.seed, 'flips')
  const intact = await startWatched(run.binary, pristine)
  const right = await answersOf(intact)
  await intact.stop()
  const damages: Damage[] = []
  const total = scaled(FLIPS, run)
  for (let n = 1; n <= total; n += 1) {
    const dir = `${run.directory('flip')}/data`
    cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
    const damage = await damageOnce(run, dir, right, random)
    if (damage.end === 'crashed') run.say(`flip ${n}: crashed: ${damage.stderr}`)
    if (!damage.isFound) {
      for (const what of damage.wrong) run.say(`flip ${n}: wrong, and no check sees it: ${what}`)
    }
    damages.push(damage)
    if (n % 40 === 0) run.say(`${n} damages`)
  }
  const count = (isCounted: (damage: Damage) => boolean): number => damages.filter(isCounted).length
  const shown = count(({ wrong }) => wrong.length > 0)
  const missed = count(damage => damage.wrong.length > 0 && !damage.isFound)
  const crashed = count(({ end }) => end === 'crashed')
  return [
    {
      promise: 'flipped bits that show in an answer are found by the next check, and crash nothing',
      figure:
        `${total} damages: ${shown} show in an answer before a check, ${missed} of them not in a check; ` +
        `${count(damage => damage.isFound)} found by doctor, ` +
        `${count(({ end }) => end === 'refused')} refused at once, ` +
        `${count(({ end }) => end === 'not started')} not started, ${crashed} crashed`,
      bound: `0 crashed, ≤ ${100 * MISSED_MAX} % of what shows missed`,
      holds: crashed === 0 && missed <= Math.max(1, MISSED_MAX * shown),
    },
  ]
}
