/** The limiter against its oracle: servers on one data directory and one clock, and every kind of key. */
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { succeed } from '../../support/launch.ts'
import { between, pick, randomOf } from '../../support/random.ts'
import { startServe } from '../support/serve.ts'
import { addCustomers, createLimits, LIST } from './limits.ts'
import { type Part, type Run, scaled } from './part.ts'

const REQUESTS = 400_000
const SERVERS = 2
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/** Moves of the clock in milliseconds, mostly within windows; rarely back, to the end of one, or over a day. */
export function moveOf(random: () => number): number {
  const which = random()
  if (which < 0.35) return between(random, 0, 60)
  if (which < 0.75) return between(random, 0, 1_200)
  if (which < 0.9) return between(random, 0, 12_000)
  if (which < 0.96) return pick(random, [1, 999, 1_000, 1_001, 4_999, 5_000, 59_999, 60_000])
  if (which < 0.98) return -between(random, 1, 20_000)
  return pick(random, [HOUR_MS / 2, HOUR_MS, 6 * HOUR_MS, DAY_MS - 1, DAY_MS])
}

/** A clock in a file that servers read. */
export function createFileClock(directory: string, startMs = Date.now()) {
  const file = join(directory, 'clock')
  let nowMs = startMs
  const set = (ms: number): void => {
    nowMs = ms
    writeFileSync(`${file}.next`, String(ms))
    renameSync(`${file}.next`, file) // a server never reads half of it
  }
  set(startMs)
  return { file, now: () => nowMs, move: (ms: number): void => set(nowMs + ms) }
}

/** A data directory with the list and the keys; gives the ids of the keys. */
export async function makeWorld({ binary }: Run, data: string): Promise<string[]> {
  const stdin = new TextEncoder().encode(LIST)
  await succeed([binary, 'import', '-', '--data', data], { stdin })
  return addCustomers(data)
}

export const limiter: Part = async run => {
  const random = randomOf(run.seed, 'limiter')
  const data = run.directory('limiter')
  const ids = await makeWorld(run, data)
  const clock = createFileClock(run.directory('clock'))
  const more = ['--trust-proxy', '127.0.0.1', '--log', 'off']
  const servers = await Promise.all(
    Array.from({ length: SERVERS }, () =>
      startServe(run.binary, { data, clock: clock.file, more }),
    ),
  )
  const limits = createLimits({ random, ids, servers: () => servers.map(({ where }) => where) })
  const requests = scaled(REQUESTS, run)
  while (limits.seen.answers < requests) {
    clock.move(moveOf(random))
    const round = limits.open(clock.now())
    await round.send()
    await round.settle()
  }
  const findings = await limits.end(clock.now(), `${SERVERS} servers on one SQLite`)
  await Promise.all(servers.map(server => server.stop()))
  for (const text of limits.wrong.slice(0, 20)) run.say(text)
  return findings
}
