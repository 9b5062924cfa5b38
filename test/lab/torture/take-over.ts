/**
 * Upgrades under load: one server after the other takes over from the one before (contract G6), and no
 * request fails; beside it what a stop and a start cost.
 */
import { join } from 'node:path'
import { freePort, type Server, succeed } from '../../support/launch.ts'
import { addCustomers, writeTargets } from '../support/customers.ts'
import { startOpenLoop } from '../support/open-loop.ts'
import { writeRows } from '../support/rows.ts'
import { startServe } from '../support/serve.ts'
import { count } from '../support/table.ts'
import { type Part, scaled } from './part.ts'

const ROWS = 20_000
const KEYS = 1000
const TAKE_OVERS = 20
const RATE = 300
const CONNECTIONS = 48
/** From one take-over to the next, which the predecessor needs; and how long the load goes on after the last. */
const EVERY_SECONDS = 7
const AFTER_SECONDS = 8

export const takeOver: Part = async run => {
  const { binary, say } = run
  const data = run.directory('take-over')
  const file = join(run.directory('rows'), 'rows.ndjson')
  await writeRows(file, { rows: ROWS, nowMs: null })
  await succeed([binary, 'import', file, '--data', data])
  addCustomers(data, KEYS)
  const { repeated: targetsFile } = writeTargets(run.directory('targets'), KEYS)
  const times = scaled(TAKE_OVERS, run)
  const seconds = Math.ceil(times * EVERY_SECONDS + AFTER_SECONDS)
  const port = freePort()
  const start = (): Promise<Server> => startServe(binary, { data, listen: `127.0.0.1:${port}` })

  /** The load during `times` changes from one server to the next. */
  async function during(change: (old: Server) => Promise<Server>) {
    let server = await start()
    const input = { port, targetsFile, ratePerSecond: RATE, seconds, connections: CONNECTIONS }
    const load = startOpenLoop(input, seconds + 30)
    const codes: number[] = []
    for (let n = 0; n < times; n += 1) {
      await Bun.sleep(EVERY_SECONDS * 1000)
      const old = server
      server = await change(old)
      void old.ended.then(code => codes.push(code))
    }
    const result = await load.result
    await server.stop()
    return { result, isClean: codes.length === times && codes.every(code => code === 0) }
  }

  const taken = await during(start)
  say(`${times} take-overs: ${taken.result.errors} of ${taken.result.sent} failed`)
  const restarted = await during(async old => {
    await old.stop()
    return await start()
  })
  const figure = ({ errors, sent, what }: typeof taken.result): string =>
    `${count(errors)} of ${count(sent)}${what === '' ? '' : ` (${what})`}`
  return [
    {
      promise: `${times} take-overs at ${RATE} requests/s: requests that failed`,
      figure: figure(taken.result),
      bound: '0',
      holds: taken.result.errors === 0,
    },
    {
      promise: 'each predecessor ended by itself with status 0',
      figure: taken.isClean ? 'all' : 'not all',
      bound: 'all',
      holds: taken.isClean,
    },
    {
      promise: `as many restarts instead, for comparison: requests that failed`,
      figure: figure(restarted.result),
      bound: '',
      holds: true,
    },
  ]
}
