/**
 * Backups while a server answers and lists are replaced; many of the backups are killed. An
 * archive is complete or missing, and holds one list, not parts of two, and every admission that
 * was answered before it began. The server's clients do not wait for it.
 */
import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { keySubject } from '../../../src/access/entitlements.ts'
import { createUsageStore } from '../../../src/sqlite/access/usage.ts'
import { addKeys } from '../../support/fixtures.ts'
import { type Child, launch, succeed } from '../../support/launch.ts'
import { dayOf } from '../../support/limiter-oracle.ts'
import { between, randomOf } from '../../support/random.ts'
import { repeat } from '../support/repeat.ts'
import { files, startServe } from '../support/serve.ts'
import { percentile } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'
import { integrityFaults } from './support/kill.ts'

const BACKUPS = 120
const ROWS = 100_000
const CLIENTS = 4
/** Between an answer and the client's next request. */
const PAUSE_MS = 2
/** How long clients are timed before the first backup. */
const QUIET_MS = 8_000
/** A kill comes at most so long after the start: longer than most backups take. */
const KILL_MS_MAX = 600

/** Time for the clients to read answers that arrived while this process was busy. */
const SETTLE_MS = 100

/** Each list is of one type, so that parts of two are recognised. */
const TYPES = ['http', 'socks5'] as const

const keyOf = (client: number): string => `pl_${'B'.repeat(31)}${client}`

function prepare(run: Run): { data: string; lists: string[]; rows: number } {
  const dir = run.directory('backup')
  const rows = scaled(ROWS, run)
  const address = (n: number): string => `11.${n >> 16}.${(n >> 8) & 255}.${n & 255}:80`
  const lists = TYPES.map(type => {
    const file = join(dir, `${type}.txt`)
    const lines = Array.from({ length: rows }, (_, n) => `${type}://${address(n)}\n`)
    writeFileSync(file, lines.join(''))
    return file
  })
  const data = join(dir, 'data')
  const keys = Array.from({ length: CLIENTS }, (_, client) => ({
    ...{ key: keyOf(client), label: String(client), plan: 'counted' },
  }))
  addKeys(data, { counted: { daily: 1_000_000_000, count: 5 } }, keys)
  return { data, lists, rows }
}

type Clients = ReturnType<typeof startClients>

/** Clients that ask one after the other until they are stopped. */
function startClients(port: number) {
  const counts = Array.from({ length: CLIENTS }, () => ({ sent: 0, answered: 0 }))
  let timesMs: number[] = []
  let failures = 0
  const { stop } = repeat(async (_, client) => {
    const count = counts[client]
    const startMs = performance.now()
    if (count) count.sent += 1
    const { status } = await fetch(`http://127.0.0.1:${port}/api?key=${keyOf(client)}`)
    if (count && status === 200) count.answered += 1
    else failures += 1
    timesMs.push(performance.now() - startMs)
    await Bun.sleep(PAUSE_MS)
  }, CLIENTS)
  return {
    answered: () => counts.map(({ answered }) => answered),
    sent: () => counts.map(({ sent }) => sent),
    failures: () => failures,
    /** The times of the answers since the last call. */
    takeTimesMs(): number[] {
      const taken = timesMs
      timesMs = []
      return taken
    },
    stop,
  }
}

const start = ({ binary }: Run, args: readonly string[]): Child => launch([binary, ...args])

/** Replaces the list by each file in turn until it is stopped. */
function startImports(run: Run, data: string, lists: readonly string[]) {
  let done = 0
  const { stop } = repeat(async () => {
    const file = lists[done % lists.length] ?? ''
    await succeed([run.binary, 'import', '--replace', file, '--data', data])
    done += 1
  })
  return { done: () => done, stop }
}

/** What an archive holds: whether its files are intact, its list, and each client's admissions. */
function contentsOf(archive: string, into: string) {
  rmSync(into, { recursive: true, force: true })
  mkdirSync(into)
  const { exitCode } = Bun.spawnSync(['tar', '-xpf', archive, '-C', into])
  const { access: accessFile, list: listFile } = files(into)
  const access = new Database(accessFile, { readonly: true })
  const proxies = new Database(listFile, { readonly: true })
  const faults = [access, proxies].flatMap(integrityFaults)
  const keys = access.query<{ id: string }, []>('select id from keys order by label').all()
  const usage = createUsageStore(access).usagesOf(keys.map(({ id }) => keySubject(id)))
  const admitted = usage.map(({ requests }) => requests)
  const [list] = proxies
    .query<unknown[], []>('select count(*), count(distinct type) from proxies')
    .values()
  access.close()
  proxies.close()
  const isIntact = exitCode === 0 && faults.length === 0
  return { isIntact, admitted, rows: Number(list?.[0]), types: Number(list?.[1]) }
}

type Ending = 'alone' | 'SIGKILL' | 'SIGTERM'
const endingOf = (round: number): Ending =>
  round % 4 === 1 ? 'SIGTERM' : round % 2 === 0 ? 'SIGKILL' : 'alone'

/** The number of backups, and of the faults found in them. */
type Tally = {
  [what in Ending | 'archives' | 'damaged' | 'half' | 'lost' | 'failed' | 'left']: number
}

export const backup: Part = async (run): Promise<Finding[]> => {
  const { data, lists, rows } = prepare(run)
  await start(run, ['import', lists[0] ?? '', '--data', data]).exited
  const server = await startServe(run.binary, { data, more: ['--log', 'off'] })
  const clients = startClients(server.port)
  const imports = startImports(run, data, lists)
  await Bun.sleep(Math.max(1000, QUIET_MS * Math.min(1, run.scale)))
  const quietMs = clients.takeTimesMs()
  const { tally, busyMs } = await makeBackups(run, data, rows, clients)
  await imports.stop()
  await clients.stop()
  await server.stop()
  const refusals = {
    promise: 'Requests are answered while lists are replaced and backups are made',
    figure: `${clients.failures()} not answered, during ${imports.done()} imports`,
    bound: '0 not answered',
    holds: clients.failures() === 0,
  }
  return [...findingsOf(tally, quietMs, busyMs), refusals]
}

/** Makes one backup, which may be ended early; gives its exit status. */
async function makeBackup(run: Run, args: readonly string[], ending: Ending, afterMs: number) {
  const child = start(run, ['backup', ...args])
  if (ending !== 'alone') {
    await Promise.race([Bun.sleep(afterMs), child.exited])
    child.kill(ending)
  }
  return child.exited
}

async function makeBackups(run: Run, data: string, rows: number, clients: Clients) {
  const random = randomOf(run.seed, 'backup')
  const dir = run.directory('archives')
  const restored = join(run.directory('restored'), 'data')
  const archive = join(dir, 'backup.tar')
  const tally: Tally = {
    ...{ alone: 0, SIGKILL: 0, SIGTERM: 0, archives: 0 },
    ...{ damaged: 0, half: 0, lost: 0, failed: 0, left: 0 },
  }
  const busyMs: number[] = []
  for (let round = 0; round < scaled(BACKUPS, run); round += 1) {
    const ending = endingOf(round)
    const answered = clients.answered()
    const day = dayOf(Date.now())
    await Bun.sleep(SETTLE_MS)
    clients.takeTimesMs() // answers that waited while this process read an archive
    const killMs = between(random, 0, KILL_MS_MAX)
    const exitCode = await makeBackup(run, [archive, '--data', data], ending, killMs)
    busyMs.push(...clients.takeTimesMs())
    const left = readdirSync(dir).filter(name => name !== 'backup.tar')
    tally[ending] += 1
    tally.failed += Number(ending === 'alone' && exitCode !== 0)
    tally.left += Number(ending !== 'SIGKILL' && left.length > 0)
    if (existsSync(archive)) {
      const sent = clients.sent()
      const found = contentsOf(archive, restored)
      const isSameDay = day === dayOf(Date.now()) // counts start again at midnight
      const isCounted = found.admitted.every(
        (n, client) => n >= (answered[client] ?? 0) && n <= (sent[client] ?? 0),
      )
      tally.archives += 1
      tally.damaged += Number(!found.isIntact)
      tally.half += Number(found.rows !== rows || found.types !== 1)
      tally.lost += Number(isSameDay && !isCounted)
    }
    for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true })
  }
  return { tally, busyMs }
}

function findingsOf(tally: Tally, quietMs: number[], busyMs: number[]): Finding[] {
  const { alone, SIGKILL, SIGTERM, archives, damaged, half, lost, failed, left } = tally
  const all = alone + SIGKILL + SIGTERM
  const p99 = (timesMs: number[]): number => percentile(timesMs, 0.99)
  const ms = (n: number): string => `${n.toFixed(1)} ms`
  return [
    {
      promise: 'A backup is complete or missing',
      figure: `${damaged} damaged of ${archives} archives of ${all} backups, ${SIGKILL} of them killed`,
      bound: '0 damaged',
      holds: damaged === 0 && archives > 0,
    },
    {
      promise: 'A backup holds one list, and every admission that was answered before it',
      figure: `${half} with parts of two lists, ${lost} with admissions lost, of ${archives}`,
      bound: '0',
      holds: half === 0 && lost === 0 && archives > 0,
    },
    {
      promise:
        'A backup works while lists are replaced, and leaves nothing behind when it is stopped',
      figure: `${failed} of ${alone} failed; ${left} of ${alone + SIGTERM} left something`,
      bound: '0',
      holds: failed === 0 && left === 0,
    },
    {
      promise: 'The server’s clients do not wait for a backup',
      figure:
        `p99 ${ms(p99(quietMs))} without, ${ms(p99(busyMs))} with backups, ` +
        `slowest ${ms(percentile(busyMs, 1))} of ${busyMs.length} (imports go on all the time)`,
      bound: 'slowest ≤ 1 s',
      holds: percentile(busyMs, 1) <= 1000,
    },
  ]
}
