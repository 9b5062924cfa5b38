/** Owns `nodes`: the machines that serve from a shared database, with the version and lag of each. */

import { CommandError } from '../../lib/errors.ts'
import { formatInstant } from '../../lib/time.ts'
import { type Examination, openExamination } from '../../postgres/examine.ts'
import type { NodeState } from '../../postgres/nodes.ts'
import { command, print, printJson, say, table } from '../command.ts'

const shownOf = ({ node, address, version, lagSeconds, seenMs }: NodeState) => ({
  ...{ node, address, version },
  lag_seconds: Math.round(lagSeconds * 10) / 10,
  seen: formatInstant(seenMs),
})

/** @throws CommandError when the database holds nothing, or a newer program made its schema. */
async function requireSchema({ schemaState, shown }: Examination): Promise<void> {
  if ((await schemaState()) !== 'none') return
  throw new CommandError(
    `the database ${shown} holds nothing of proxylist yet; serve, move, import or keys add makes its schema`,
  )
}

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
      await requireSchema(examination)
      const nodes = (await examination.nodes()).map(shownOf)
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
