/** Owns `nodes`: the machines that serve from a shared database, with the version and lag of each. */
import { type Node, openExamination } from '../app.ts'
import { CommandError } from '../lib/errors.ts'
import { formatInstant, SECOND_MS } from '../lib/time.ts'
import { command, print, printJson, say, table } from './command.ts'

/** A node that is silent for so long is stopped, or away from the database. */
export const OVERDUE_MS = 5 * SECOND_MS

/** How far a node lags behind now, as far as is known: it grows while nothing is heard of it. */
export const lagOf = ({ lagSeconds, silentMs }: Node): number =>
  lagSeconds + Math.max(0, silentMs - SECOND_MS) / SECOND_MS

const shownOf = (node: Node) => ({
  node: node.node,
  address: node.address,
  version: node.listVersion,
  lag_seconds: Math.round(lagOf(node) * 10) / 10,
  seen: formatInstant(node.seenMs),
})

export const nodesCommand = command({
  name: 'nodes',
  summary:
    'show the machines that serve from the database: version of the list, lag, when last seen',
  settings: ['database', 'databaseTimeout', 'json'],
  example: 'proxylist nodes --json',
  async run({ settings: { database, databaseTimeout, json }, clock }) {
    if (database === undefined) throw new CommandError('name the database with --database', 2)
    const examination = openExamination(database, databaseTimeout, clock)
    try {
      const { schema } = await examination.versions()
      const nodes = schema === null ? [] : (await examination.nodes()).map(shownOf)
      if (json) return await printJson(nodes)
      if (nodes.length === 0)
        return say(`no node has served from ${examination.shown} in the last day`)
      const rows = nodes.map(({ node, address, version, lag_seconds, seen }) => [
        ...[node, address, String(version), `${lag_seconds.toFixed(1)} s`, seen],
      ])
      await print(table(['NODE', 'ADDRESS', 'VERSION', 'LAG', 'SEEN'], rows))
    } finally {
      await examination.close()
    }
  },
})
