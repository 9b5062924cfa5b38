/**
 * `move`: all that an installation holds goes from a data directory into a database that machines
 * share, or back.
 */

import { CommandError } from '../../lib/errors.ts'
import { describeCounts } from '../../move/contents.ts'
import { moveFromDatabase, moveToDatabase } from '../../move/move.ts'
import { command, DATA_SETTINGS, printJson, say, yieldToServer } from '../command.ts'
import { withProgress } from '../progress.ts'

/** What is moved, for the operator, whether or not there is any. */
const SAID: readonly string[] = ['keys', 'plans', 'usage', 'proxies']

export const moveCommand = command({
  name: 'move',
  summary: 'move all data into an empty shared PostgreSQL, or back, while no server runs',
  settings: [...DATA_SETTINGS, 'fromDatabase', 'json'],
  example: 'PROXYLIST_DATABASE=postgres://… proxylist move --data /var/lib/proxylist',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    const { data: dir, database, fromDatabase, databaseTimeout: timeoutMs, json } = settings
    const url = database ?? fromDatabase
    if (url === undefined) {
      throw new CommandError(
        'name where to move: into a database with --database, or back from it with --from-database',
        2,
      )
    }
    if (database !== undefined && fromDatabase !== undefined) {
      throw new CommandError(
        '--database and --from-database move in opposite directions; give one, and mind ' +
          'PROXYLIST_DATABASE',
        2,
      )
    }
    yieldToServer()
    const move = database === undefined ? moveFromDatabase : moveToDatabase
    const { counts, shown } = await withProgress('moving [{bar}] {percentage}%', 1, progress =>
      move({ dir, url, timeoutMs, clock, signal, progress }),
    )
    const { keys, plans, usage: subjects, proxies } = counts
    if (json) return printJson({ keys, plans, subjects, proxies, database: shown })
    say(`moved ${describeCounts(counts, part => SAID.includes(part))}`)
    say(
      database === undefined
        ? `${dir} has all data now: serve without --database. ${shown} still holds what was ` +
            'moved; have nothing of it there with: drop schema proxylist cascade'
        : `${dir} is now a copy of ${shown}: serve with --database goes on with it`,
    )
  },
})
