/** `nodes`: the machines that serve from a shared database, with the version and lag of each. */

import { CommandError } from '../../lib/errors.ts'
import { formatInstant } from '../../lib/time.ts'
import { nodesOf } from '../../stores.ts'
import { command, print, printJson, say, table } from '../command.ts'

export const nodesCommand = command({
  name: 'nodes',
  summary: 'show the machines on the database: list version, lag, last seen',
  settings: ['database', 'databaseTimeout', 'json'],
  example: 'proxylist nodes --json',
  async run({ settings: { database, databaseTimeout, json } }) {
    if (database === undefined) throw new CommandError('name the database with --database', 2)
    const { shown, nodes } = await nodesOf(database, databaseTimeout)
    const rows = nodes.map(({ node, address, version, lagSeconds, seenMs }) => ({
      ...{ node, address, version, lag_seconds: Math.round(lagSeconds * 10) / 10 },
      seen: formatInstant(seenMs),
    }))
    if (json) return printJson(rows)
    if (rows.length === 0) return say(`no node has served from ${shown} in the last day`)
    await print(
      table(
        ['NODE', 'ADDRESS', 'VERSION', 'LAG', 'SEEN'],
        rows.map(({ node, address, version, lag_seconds, seen }) => [
          ...[node, address, String(version), `${lag_seconds.toFixed(1)} s`, seen],
        ]),
      ),
    )
  },
})
