/** Owns `doctor`: the findings as a table, and exit status 1 when a check fails. */

import { processEnvironment } from '../../config/environment.ts'
import { environmentOf, linesOf } from '../../config/subprocess.ts'
import { CommandError } from '../../lib/errors.ts'
import { command, DATA_SETTINGS, print, printJson, table } from '../command.ts'
import { examine } from '../doctor-checks.ts'
import type { Finding } from '../doctor-findings.ts'

const stateOf = ({ ok, note }: Finding): string => (ok ? (note ? 'note' : 'ok') : 'WRONG')

export const doctorCommand = command({
  name: 'doctor',
  summary:
    'examine settings, permissions, databases, machines, freshness and disk; 1 when one is wrong',
  usesCopies: true,
  settings: [...DATA_SETTINGS, 'feed', 'feeds', 'geoip', 'json'],
  example: 'proxylist doctor --data /var/lib/proxylist',
  async run({ settings, clock, signal }) {
    const { data, database, databaseTimeout, feed, feeds, geoip, json } = settings
    const given = environmentOf({ feed, feeds, geoip: linesOf(geoip) })
    const env = { ...processEnvironment(), ...given }
    const shared =
      database === undefined ? undefined : { url: database, timeoutMs: databaseTimeout }
    const findings = await examine({ dir: data, env, clock, signal, database: shared })
    const wrong = findings.filter(({ ok }) => !ok).length
    if (json) await printJson({ ok: wrong === 0, checks: findings })
    else {
      const rows = findings.map(finding => [finding.check, stateOf(finding), finding.found])
      await print(table(['CHECK', 'STATE', 'FOUND'], rows))
    }
    if (wrong > 0) throw new CommandError(`${wrong} of ${findings.length} checks found something`)
  },
})
