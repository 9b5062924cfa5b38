/**
 * The limiter against its oracle: two servers on one data directory, 64 clients with every kind of
 * key in two processes, a journal of all admissions, and the judge of `nodes`.
 */
import { join } from 'node:path'
import { startScript } from '../../support/script.ts'
import { startServe } from '../../support/serve.ts'
import { count } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import type { ClientInput, ClientResult } from './client.ts'
import { type Judged, judge, sayJudged } from './judge.ts'
import { type Asked, historiesOf, readAsked } from './records.ts'
import { tightFindings } from './tight.ts'
import { KINDS } from './traffic.ts'
import { type Ids, makeWorld, readJournal } from './world.ts'

const REQUESTS = 1_000_000
const SERVERS = 2
const CLIENTS = 64
const CLIENT_PROCESSES = 2
/** A run that takes longer has failed. */
const DEADLINE_SECONDS = 900
/**
 * Largest share of requests that find the database locked by the other server for longer than the
 * program waits: they get 503 and count nothing (contract B8).
 */
const BUSY_MAX = 0.0001
/** Least share of requests that must have been served. */
const SERVED_MIN = 0.1

type Files = { notes: string[]; logs: string[] }

/** Sends all requests; gives the files they wrote and the clients' counts. */
async function send(run: Run, data: string, requests: number) {
  const files: Files = { notes: [], logs: [] }
  const servers = []
  for (let n = 0; n < SERVERS; n += 1) {
    const log = join(data, `log-${n}`)
    files.logs.push(log)
    const more = ['--trust-proxy', '127.0.0.1']
    servers.push(await startServe(run.binary, { data, log, more }))
  }
  const ports = servers.map(({ port }) => port)
  const scripts = Array.from({ length: CLIENT_PROCESSES }, (_, n) => {
    const file = join(data, `notes-${n}`)
    files.notes.push(file)
    const input: ClientInput = {
      ...{ ports, file, seed: run.seed, name: `limiter client ${n}`, allRequests: requests },
      ...{ clients: CLIENTS / CLIENT_PROCESSES, kinds: KINDS },
      length: { kind: 'amount', requests: Math.ceil(requests / CLIENT_PROCESSES) },
    }
    return startScript<ClientResult>('torture/limiter/client.ts', input, DEADLINE_SECONDS)
  })
  const results = await Promise.all(scripts.map(({ result }) => result))
  await Promise.all(servers.map(server => server.stop()))
  const sum = (of: (result: ClientResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0)
  return {
    files,
    answered: sum(({ answered }) => answered),
    broken: sum(({ broken }) => broken),
    connections: sum(({ connections }) => connections),
  }
}

/** Prints the number of requests of every kind, by result. */
function sayKinds(run: Run, all: readonly Asked[]): void {
  for (const [kind, of] of KINDS.entries()) {
    const its = all.filter(one => one.kind === kind)
    const counts = Map.groupBy(its, ({ status, code }) => code || String(status))
    const list = [...counts].map(([what, some]) => `${count(some.length)} ${what}`).sort()
    run.say(`${of.name}: ${list.join(', ')}`)
  }
}

function findingsOf(judged: Judged): Finding[] {
  const { over, overSeen, admissions, notFull, wrongFields, networkRefusals, requests } = judged
  const { lost, double, halves, networksMissing, networksUnshown } = judged
  const wrong = notFull.length + wrongFields.length
  const refusals = requests.refused + networkRefusals
  const unmatched = lost.length + double + halves
  const unconsumed = networksMissing + networksUnshown
  return [
    {
      promise: 'no window, day or set of networks ever holds more than its limit',
      figure: `${over + overSeen} over-admissions in ${count(admissions)} admissions`,
      bound: '0',
      holds: over + overSeen === 0 && admissions > 0,
    },
    {
      promise: 'every refusal, its retry_after and its RateLimit are right',
      figure: `${wrong} wrong of ${count(refusals)} refusals (${count(networkRefusals)} for networks)`,
      bound: '0',
      holds: wrong === 0 && refusals > 0,
    },
    {
      promise: 'every answer has its admission, and every admission its answer',
      figure: `${unmatched} without; ${unconsumed} networks not counted as shown`,
      bound: '0; 0',
      holds: unmatched === 0 && unconsumed === 0,
    },
  ]
}

async function loadAndJudge(run: Run): Promise<Finding[]> {
  const requests = scaled(REQUESTS, run)
  const data = run.directory('limiter')
  const ids: Ids = await makeWorld(run.binary, data, requests)
  const startMs = performance.now()
  const { files, answered, broken, connections } = await send(run, data, requests)
  const seconds = (performance.now() - startMs) / 1000
  run.say(`${count(answered)} answers in ${Math.round(seconds)} s`)
  const { all, unpaired } = await readAsked(files.notes, KINDS, ids, files.logs)
  sayKinds(run, all)
  const histories = historiesOf(readJournal(data))
  const judged = judge(all, histories)
  sayJudged(run, judged, histories)
  run.say(`judged in ${Math.round((performance.now() - startMs) / 1000 - seconds)} s`)
  const is = (...statuses: number[]): number =>
    all.filter(({ status }) => statuses.includes(status)).length
  const served = is(200, 404)
  const busy = is(503)
  const lost = broken + unpaired + (all.length - served - busy - is(429))
  return [
    {
      promise: 'every request is answered, and logged as it was answered',
      figure:
        `${lost} not, ${busy} by 503, of ${count(answered)} over ${count(connections)} ` +
        `connections; ${Math.round((100 * served) / answered)} % served`,
      bound: `0 of at least ${count(requests)}, 503 at most ${BUSY_MAX * 100} %; ${100 * SERVED_MIN} %`,
      holds:
        lost === 0 &&
        answered >= requests &&
        busy <= Math.max(1, answered * BUSY_MAX) &&
        served >= answered * SERVED_MIN,
    },
    ...findingsOf(judged),
  ]
}

export const limiter: Part = async run => [
  ...(await loadAndJudge(run)),
  ...(await tightFindings(run)),
]
