/** `nodes`: the machines that serve from a shared database, with the version and lag of each. */
import { CommandError } from '../../lib/errors.ts'
import { formatInstant } from '../../lib/time.ts'
import { nodesOf } from '../../stores.ts'
import { command, say, show } from '../command.ts'

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
    if (rows.length === 0 && !json) return say(`no node has served from ${shown} in the last day`)
    await show(json, rows, {
      NODE: ({ node }) => node,
      ADDRESS: ({ address }) => address,
      VERSION: ({ version }) => String(version),
      LAG: ({ lag_seconds }) => `${lag_seconds.toFixed(1)} s`,
      SEEN: ({ seen }) => seen,
    })
  },
})
