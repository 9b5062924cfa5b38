/**
 * Faults under a running server: disks, locks, damaged and missing files, descriptors. Whatever
 * happens, an answer is the right one or 503, and when it is over all is as before.
 */
import { Database } from 'bun:sqlite'
import { chmodSync, copyFileSync, cpSync, mkdirSync } from 'node:fs'
import { exhaust } from './faults/descriptors.ts'
import { flips } from './faults/flips.ts'
import {
  answersOf,
  files,
  makeData,
  startLoad,
  startWatched,
  untilRight,
  type Watched,
} from './faults/server.ts'
import { run as command, FAULTS, type Fault, NotHere } from './faults/table.ts'
import type { Finding, Part, Run } from './part.ts'

const ROWS = 3_000
/** A user that owns nothing. */
const NOBODY = 65_534
/** What the issue promises. */
const SILENCE_MS = 5_000
const RECOVERY_MS = 5_000

/** What was seen of one fault. */
type Course = {
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

/** A data directory like `pristine` where the fault can be made, and what runs the server there. */
function stage({ on }: Fault, pristine: string, dir: string) {
  if (on === 'small disk') {
    mkdirSync(dir, { recursive: true })
    command('mount', '-t', 'tmpfs', '-o', 'size=12m,mode=0700', 'tmpfs', dir)
  }
  cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
  const asNobody = on === 'another user' && process.getuid?.() === 0
  if (asNobody) command('chown', '-R', `${NOBODY}:${NOBODY}`, dir)
  const prefix = asNobody
    ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups']
    : []
  return {
    prefix,
    leave: () => {
      if (on === 'small disk') Bun.spawnSync(['umount', '-l', dir])
    },
  }
}

/** What /readyz and stderr say while a fault lasts. */
async function complaintsOf(fault: Fault, server: Watched, refused: number): Promise<string[]> {
  const ready = await server.get('/readyz')
  const health = await server.get('/healthz')
  const complaints: string[] = []
  if (health.status !== 200) complaints.push(`/healthz said ${health.status}`)
  if (fault.shows === 'refusals' && refused === 0) complaints.push('nothing was refused')
  if (fault.shows === 'refusals' && ready.status !== 503) complaints.push(`/readyz ${ready.status}`)
  if (fault.shows === 'answers' && refused > 0) complaints.push(`${refused} were refused`)
  if (fault.shows === 'answers' && ready.status !== 200) complaints.push(`/readyz ${ready.status}`)
  return complaints
}

async function play(fault: Fault, run: Run, pristine: string, source: string): Promise<Course> {
  const dir = `${run.directory('fault')}/data`
  const { prefix, leave } = stage(fault, pristine, dir)
  if (prefix.length > 0)
    for (const above of [dir, `${dir}/..`, `${dir}/../..`]) chmodSync(above, 0o711)
  const accessCopy = `${source}.access`
  copyFileSync(files(pristine).access, accessCopy)
  const server = await startWatched(run.binary, dir, prefix)
  try {
    const right = await answersOf(server)
    const load = startLoad(server, right)
    await Bun.sleep(300)
    await server.get('/readyz') // a fault comes to a server that has been looked after
    const before = server.said().length
    const end = await fault.begin({ binary: run.binary, dir, source, accessCopy, server })
    const refusedBefore = load.seen.refused
    await Bun.sleep(Math.max(1500, fault.seconds * 1000 * Math.min(1, run.scale)))
    const complaints = await complaintsOf(fault, server, load.seen.refused - refusedBefore)
    await end()
    const recoveryMs = await untilRight(server, right)
    const seen = await load.end()
    await Bun.sleep(1100) // the sentence on the end is said by the next look, a second later
    const sentences = server.said().slice(before).split('\n').filter(Boolean).length
    const crashed = server.hasEnded()
    return { name: fault.name, ...seen, recoveryMs, crashed, sentences, complaints }
  } finally {
    await server.stop()
    leave()
  }
}

/** One line for each fault, and what each did not do as it should. */
function findingOf(course: Course): Finding {
  const { name, answers, refused, wrong, slowestMs, recoveryMs, crashed, sentences } = course
  const faults = [
    ...course.complaints,
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

/** A copy of the data that nothing has open, its usage included. */
function closeDown(dir: string): void {
  for (const file of Object.values(files(dir))) {
    const db = new Database(file)
    db.run('pragma wal_checkpoint(truncate)')
    db.close(true)
  }
}

export const faults: Part = async run => {
  const pristine = `${run.directory('pristine')}/data`
  const source = await makeData(pristine, ROWS)
  closeDown(pristine)
  const findings: Finding[] = []
  for (const fault of FAULTS) {
    run.say(fault.name)
    try {
      findings.push(findingOf(await play(fault, run, pristine, source)))
    } catch (error) {
      if (!(error instanceof NotHere)) throw error
      const figure = `not made on this machine (${error.message})`
      findings.push({ promise: fault.name, figure, bound: '', holds: true })
    }
  }
  return [...findings, ...(await exhaust(run, pristine)), ...(await flips(run, pristine))]
}
