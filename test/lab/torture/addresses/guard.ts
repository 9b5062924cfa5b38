/** Wrong keys over real sockets: slowed, a valid key from the same address not, none held at the end. */

import { FAILURE_DELAY_MS, FAILURES_FREE } from '../../../../src/access/auth-throttle.ts'
import { newKey } from '../../../../src/access/key.ts'
import { openRegistry } from '../../../../src/app.ts'
import type { Finding, Run } from '../part.ts'
import { exchange, type RawAnswer, startServing, type Where } from '../serving.ts'

const PEER = '127.0.0.2'
/** Wrong keys sent at once, and how often; valid ones sent meanwhile. */
const AT_ONCE = 20
const ROUNDS = 5
/** Timers of the server and of this process may differ by so much. */
const TIMER_MS = 5
/** A refusal that is held takes less than this all the same. */
const ANSWER_MS_MAX = 1_000

const ask = (at: Where, key: string): Promise<RawAnswer> =>
  exchange(at, `GET /api?key=${key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, PEER)

/** A data directory with a key without limits; gives it, and wrong ones of every kind. */
function addKeys(data: string) {
  const registry = openRegistry(data)
  const nowMs = Date.now()
  const add = (expiresAt: number | null) => {
    const key = newKey('regular')
    const { id } = registry.keys.add({ key, label: '', plan: 'free', expiresAt }, nowMs)
    return { key, id }
  }
  const unlimited = { burst: null, daily: null, subnets: null, clients: null, count: null }
  registry.plans.set({ name: 'free', ...unlimited })
  const valid = add(null)
  const expired = add(nowMs)
  const revoked = add(null)
  registry.keys.revoke(revoked.id, nowMs)
  registry.close()
  const wrong = [newKey('regular'), expired.key, revoked.key, newKey('temp')]
  return { valid: valid.key, wrong }
}

const range = (answers: readonly RawAnswer[]): string => {
  const ms = answers.map(answer => answer.ms)
  return `${Math.round(Math.min(...ms))} to ${Math.round(Math.max(...ms))} ms`
}

/** Rounds of wrong keys at once, beside valid ones one after the other. */
async function slow(at: Where, valid: string, wrong: readonly string[]) {
  const held: RawAnswer[] = []
  const served: RawAnswer[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const waiting = Array.from({ length: AT_ONCE }, (_, n) =>
      ask(at, wrong[n % wrong.length] ?? ''),
    )
    let isOver = false
    const all = Promise.all(waiting).then(answers => {
      isOver = true
      held.push(...answers)
    })
    while (!isOver) served.push(await ask(at, valid))
    await all
  }
  return { held, served }
}

export async function guardFindings(run: Run): Promise<Finding[]> {
  const data = run.directory('guard')
  const { valid, wrong } = addKeys(data)
  const server = await startServing(run.binary, { data })
  const free: RawAnswer[] = []
  for (let n = 0; n < FAILURES_FREE; n += 1) {
    free.push(await ask(server.at, wrong[n % wrong.length] ?? ''))
  }
  const { held, served } = await slow(server.at, valid, wrong)
  const last = Array.from({ length: AT_ONCE }, () => ask(server.at, wrong[0] ?? ''))
  await ask(server.at, valid) // its answer: the wrong keys before it have arrived
  await server.stop()
  const released = await Promise.all(last)

  const isAll = (answers: readonly RawAnswer[], status: number): boolean =>
    answers.every(answer => answer.status === status)
  const isHeld = ({ ms }: RawAnswer): boolean => ms >= FAILURE_DELAY_MS - TIMER_MS
  const slowServed = served.filter(isHeld).length
  return [
    {
      promise: `after ${FAILURES_FREE} wrong keys a minute, further ones are refused late`,
      figure: `the first: ${range(free)}; ${held.length} further ones: ${range(held)}`,
      bound: `${FAILURE_DELAY_MS} ms late, in less than ${ANSWER_MS_MAX} ms`,
      holds:
        isAll([...free, ...held], 403) &&
        held.every(answer => isHeld(answer) && answer.ms < ANSWER_MS_MAX) &&
        !free.some(isHeld),
    },
    {
      promise: 'a valid key from the same address is not slowed meanwhile',
      figure: `${slowServed} of ${served.length} slowed: ${range(served)}`,
      bound: '0',
      holds: slowServed === 0 && isAll(served, 404) && served.length >= ROUNDS,
    },
    {
      promise: 'at SIGTERM refusals that are held go out at once',
      figure: `${released.length} answers: ${range(released)}`,
      bound: `each before its ${FAILURE_DELAY_MS} ms`,
      holds: isAll(released, 403) && !released.some(isHeld),
    },
  ]
}
