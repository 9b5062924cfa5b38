/** Owns `doctor`: the findings as a table, and exit status 1 when a check fails. */

import { processEnvironment } from '../config/environment.ts'
import { CommandError } from '../lib/errors.ts'
import { command, DATA_SETTINGS, print, printJson, table } from './command.ts'
import { examine } from './doctor-checks.ts'
import { environmentOf, linesOf } from './feed-process.ts'

export const doctorCommand = command({
  name: 'doctor',
  summary: 'examine settings, permissions, both databases, freshness and disk; 1 when one is wrong',
  usesCopies: true,
  settings: [...DATA_SETTINGS, 'feed', 'feeds', 'geoip', 'json'],
  example: 'proxylist doctor --data /var/lib/proxylist',
  async run({ settings: { data, feed, feeds, geoip, json }, clock, signal }) {
    const given = environmentOf({ feed, feeds, geoip: linesOf(geoip) })
    const env = { ...processEnvironment(), ...given }
    const findings = await examine({ dir: data, env, clock, signal })
    const wrong = findings.filter(({ ok }) => !ok).length
    if (json) await printJson({ ok: wrong === 0, checks: findings })
    else {
      const rows = findings.map(({ check, ok, found }) => [check, ok ? 'ok' : 'WRONG', found])
      await print(table(['CHECK', 'STATE', 'FOUND'], rows))
    }
    if (wrong > 0) throw new CommandError(`${wrong} of ${findings.length} checks found something`)
  },
})
