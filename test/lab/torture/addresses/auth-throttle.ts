/** Wrong keys over real sockets: they are slowed, a valid key from the same address is not. */
import { addKeys } from '../../../support/fixtures.ts'
import type { Where } from '../../../support/launch.ts'
import { pick, randomOf } from '../../../support/random.ts'
import { startServe } from '../../support/serve.ts'
import type { Finding, Run } from '../part.ts'
import { exchange, type RawAnswer } from '../support/connect.ts'

/** The wrong keys a minute that are refused at once, and the delay of further refusals. */
const FAILURES_FREE = 10
const FAILURE_DELAY_MS = 300

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789']
const PEER = '127.0.0.2'
/** Wrong keys sent at once, and how often; valid ones are sent meanwhile. */
const AT_ONCE = 20
const ROUNDS = 5
/** Timers of the server and of this process may differ by so much. */
const TIMER_MS = 5
/** A delayed refusal takes less than this. */
const ANSWER_MS_MAX = 1_000

const ask = (where: Where, key: string): Promise<RawAnswer> =>
  exchange(where, `GET /api?key=${key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, PEER)

/** Adds an unlimited key to a data directory; gives it, and wrong keys of every kind. */
function addThrottleKeys(data: string, random: () => number) {
  const keyOf = (prefix: string): string =>
    prefix + Array.from({ length: 32 }, () => pick(random, LETTERS)).join('')
  const [valid, expired, revoked] = [keyOf('pl_'), keyOf('pl_'), keyOf('pl_')]
  const nowMs = Date.now()
  addKeys(data, { free: {} }, [
    { key: valid, plan: 'free' },
    { key: expired, plan: 'free', expiresAt: nowMs },
    { key: revoked, plan: 'free', revokedAt: nowMs },
  ])
  return { valid, wrong: [keyOf('pl_'), expired, revoked, keyOf('temp_')] }
}

const range = (answers: readonly RawAnswer[]): string => {
  const ms = answers.map(answer => answer.ms)
  return `${Math.round(Math.min(...ms))} to ${Math.round(Math.max(...ms))} ms`
}

/** Rounds of wrong keys at once, and meanwhile valid ones one after the other. */
async function slow(where: Where, valid: string, wrong: readonly string[]) {
  const delayed: RawAnswer[] = []
  const served: RawAnswer[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const waiting = Array.from({ length: AT_ONCE }, (_, n) =>
      ask(where, wrong[n % wrong.length] ?? ''),
    )
    let isOver = false
    const all = Promise.all(waiting).then(answers => {
      isOver = true
      delayed.push(...answers)
    })
    while (!isOver) served.push(await ask(where, valid))
    await all
  }
  return { delayed, served }
}

export async function throttleFindings(run: Run): Promise<Finding[]> {
  const data = run.directory('throttle')
  const { valid, wrong } = addThrottleKeys(data, randomOf(run.seed, 'throttle'))
  const server = await startServe(run.binary, { data })
  const free: RawAnswer[] = []
  for (let n = 0; n < FAILURES_FREE; n += 1) {
    free.push(await ask(server.where, wrong[n % wrong.length] ?? ''))
  }
  const { delayed, served } = await slow(server.where, valid, wrong)
  const last = Array.from({ length: AT_ONCE }, () => ask(server.where, wrong[0] ?? ''))
  await ask(server.where, valid) // once it is answered, the wrong keys have arrived
  await server.stop()
  const released = await Promise.all(last)

  const isAll = (answers: readonly RawAnswer[], status: number): boolean =>
    answers.every(answer => answer.status === status)
  const isDelayed = ({ ms }: RawAnswer): boolean => ms >= FAILURE_DELAY_MS - TIMER_MS
  const slowServed = served.filter(isDelayed).length
  return [
    {
      promise: `after ${FAILURES_FREE} wrong keys a minute, further ones are refused with a delay`,
      figure: `the first: ${range(free)}; ${delayed.length} further ones: ${range(delayed)}`,
      bound: `${FAILURE_DELAY_MS} ms delay, in less than ${ANSWER_MS_MAX} ms`,
      holds:
        isAll([...free, ...delayed], 403) &&
        delayed.every(answer => isDelayed(answer) && answer.ms < ANSWER_MS_MAX) &&
        !free.some(isDelayed),
    },
    {
      promise: 'a valid key from the same address is not slowed meanwhile',
      figure: `${slowServed} of ${served.length} slowed: ${range(served)}`,
      bound: '0',
      holds: slowServed === 0 && isAll(served, 404) && served.length >= ROUNDS,
    },
    {
      promise: 'at SIGTERM delayed refusals are sent at once',
      figure: `${released.length} answers: ${range(released)}`,
      bound: `each before its ${FAILURE_DELAY_MS} ms`,
      holds: isAll(released, 403) && !released.some(isDelayed),
    },
  ]
}
