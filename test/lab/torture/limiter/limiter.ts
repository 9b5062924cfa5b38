/**
 * The limiter against its oracle: two servers on one data directory, 64 clients with every kind of
 * key in two processes, a journal of all admissions, and the judge of all runs with limits.
 */
import { join } from 'node:path'
import { startServe } from '../../support/serve.ts'
import { count } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { startClients } from './client.ts'
import { findingsOf, judgeNotes } from './judge.ts'
import { tightFindings } from './tight.ts'
import { makeWorld, readJournal } from './world.ts'

const REQUESTS = 1_000_000
const SERVERS = 2
const CLIENTS = 64
const CLIENT_PROCESSES = 2
/**
 * Largest share of requests that find the database locked by the other server for longer than the
 * program waits: they get 503 and count nothing (contract B8).
 */
const BUSY_MAX = 0.0001
/** Least share of requests that must have been served. */
const SERVED_MIN = 0.1

async function loadAndJudge(run: Run): Promise<Finding[]> {
  const requests = scaled(REQUESTS, run)
  const data = run.directory('limiter')
  const ids = await makeWorld(run.binary, data, requests)
  const logs = Array.from({ length: SERVERS }, (_, n) => join(data, `log-${n}`))
  const servers = []
  for (const log of logs) {
    servers.push(await startServe(run.binary, { data, log, more: ['--trust-proxy', '127.0.0.1'] }))
  }
  const startMs = performance.now()
  const each = servers.map(({ where }) => where)
  const clients = startClients(run, new Array(CLIENT_PROCESSES).fill(each), {
    ...{ clients: CLIENTS / CLIENT_PROCESSES, allRequests: requests },
    length: { kind: 'amount', requests: Math.ceil(requests / CLIENT_PROCESSES) },
  })
  const { answered, broken, connections } = await clients.ended()
  await Promise.all(servers.map(server => server.stop()))
  const seconds = (performance.now() - startMs) / 1000
  run.say(`${count(answered)} answers in ${Math.round(seconds)} s`)
  const journal = readJournal(data)
  const { all, unpaired, judged } = await judgeNotes(run, clients.files, ids, journal, { logs })
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
    ...findingsOf(judged, 1, `${SERVERS} servers on one SQLite`),
  ]
}

export const limiter: Part = async run => [
  ...(await loadAndJudge(run)),
  ...(await tightFindings(run)),
]
