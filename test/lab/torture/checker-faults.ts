/** Kills a checker at random moments: what it remembers is in the list, and little is checked again (contract H5). */
import { Database } from 'bun:sqlite'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SECRET } from '../../support/judge.ts'
import { freePort, launch } from '../../support/launch.ts'
import { randomOf } from '../../support/random.ts'
import { startWorld } from '../bench/parts/world.ts'
import { count } from '../support/table.ts'
import { type Part, scaled } from './part.ts'

const RATE = 200
const ADDRESSES = 5_000
const KILLS = 60

/** The ids that a statement selects from a database; none where it is not there yet. */
function idsIn(data: string, file: string, sql: string): Set<number> {
  try {
    using db = new Database(join(data, file), { readonly: true })
    return new Set(
      db
        .query<{ id: number }, []>(sql)
        .all()
        .map(({ id }) => id),
    )
  } catch {
    return new Set()
  }
}

export const checkerFaults: Part = async run => {
  const dir = run.directory('checker')
  const data = run.directory('killed')
  const { everywhere } = await startWorld()
  const [secret, file] = [join(dir, 'secret'), join(dir, 'addresses')]
  writeFileSync(secret, `${Buffer.from(SECRET).toString('base64url')}\n`)
  chmodSync(secret, 0o600)
  const addressOf = (n: number): string =>
    `127.${1 + (n % 250)}.${Math.floor(n / 250)}.1:${everywhere}\n`
  writeFileSync(file, Array.from({ length: ADDRESSES }, (_, n) => addressOf(n)).join(''))
  const at = `127.0.0.1:${freePort()}`
  const judge = launch([run.binary, 'judge', '--listen', at, '--judge-secret', secret])
  await judge.says(/listening on/)
  const command = [
    ...[run.binary, 'check', file, '--data', data, '--judge', `http://${at}`, '--judge-secret'],
    ...[secret, '--contact', 'https://example.com/', '--allow-private', '--rate', `${RATE}/s`],
  ]
  const random = randomOf(run.seed, 'checker kills')
  const times = scaled(KILLS, run)
  let [lost, ahead, rows] = [0, 0, 0]
  for (let n = 0; n < times; n += 1) {
    const checker = launch(command)
    await Bun.sleep(300 + 2_000 * random())
    checker.kill('SIGKILL')
    await checker.ended
    const listed = idsIn(data, 'proxies.db', 'select id from proxies')
    const known = idsIn(data, 'checks.db', 'select id from candidates where ok_at is not null')
    lost += known.difference(listed).size
    ahead = Math.max(ahead, listed.difference(known).size)
    rows = listed.size
  }
  await judge.stop()
  return [
    {
      promise: 'a checker that is killed remembers no living address without its row',
      figure: `${lost} of ${count(rows)} after ${times} kills`,
      bound: '0',
      holds: lost === 0 && rows > 0,
    },
    {
      promise: 'a kill makes few rows be checked again',
      figure: `at most ${ahead} of ${count(rows)}`,
      bound: `≤ ${2 * RATE}, of two seconds`,
      holds: ahead <= 2 * RATE && rows > 0,
    },
  ]
}
