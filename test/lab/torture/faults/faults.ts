/**
 * Faults under a running server: disks, locks, damaged and missing files, descriptors. Every
 * answer is the right one or 503, and after the fault all is as before.
 */
import { Database } from 'bun:sqlite'
import { chmodSync, copyFileSync, cpSync, mkdirSync } from 'node:fs'
import { files } from '../../support/serve.ts'
import type { Finding, Part, Run } from '../part.ts'
import { exhaust } from './descriptors.ts'
import { flips } from './flips.ts'
import { answersOf, makeData, startLoad, startWatched, untilRight, type Watched } from './server.ts'
import { run as command, FAULTS, type Fault, Unavailable } from './table.ts'

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
function stage({ on }: Fault, pristine: string, dir: string) {
  if (on === 'small disk') {
    mkdirSync(dir, { recursive: true })
    command('mount', '-t', 'tmpfs', '-o', 'size=12m,mode=0700', 'tmpfs', dir)
  }
  cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
  const asNobody = on === 'another user' && process.getuid?.() === 0
  if (asNobody) command('chown', '-R', `${NOBODY}:${NOBODY}`, dir)
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

async function cause(fault: Fault, run: Run, pristine: string, source: string): Promise<Outcome> {
  const dir = `${run.directory('fault')}/data`
  const { wrapper, leave } = stage(fault, pristine, dir)
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
    const end = await fault.begin({ binary: run.binary, dir, source, accessCopy, server })
    const refusedBefore = load.seen.refused
    await Bun.sleep(Math.max(1500, fault.seconds * 1000 * Math.min(1, run.scale)))
    const complaints = await complaintsOf(fault, server, load.seen.refused - refusedBefore)
    await end()
    const recoveryMs = await untilRight(server, right)
    const seen = await load.end()
    await Bun.sleep(1100) // the next tick, a second later, logs the recovery
    const sentences = server.written.stderr.slice(before).split('\n').filter(Boolean).length
    const crashed = !server.isRunning()
    return { name: fault.name, ...seen, recoveryMs, crashed, sentences, complaints }
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
    run.say(fault.name)
    try {
      findings.push(findingOf(await cause(fault, run, pristine, source)))
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      const figure = `not caused on this machine (${error.message})`
      findings.push({ promise: fault.name, figure, bound: '', holds: true })
    }
  }
  return [...findings, ...(await exhaust(run, pristine)), ...(await flips(run, pristine))]
}
