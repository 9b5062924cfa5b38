/** Owns `doctor`: the findings as a table, and exit status 1 when a check fails. */

import { processEnvironment } from '../config/environment.ts'
import { CommandError } from '../lib/errors.ts'
import { command, print, printJson, table } from './command.ts'
import { examine } from './doctor-checks.ts'

export const doctorCommand = command({
  name: 'doctor',
  summary: 'examine settings, permissions, both databases, freshness and disk; 1 when one is wrong',
  settings: ['data', 'json'],
  example: 'proxylist doctor --data /var/lib/proxylist',
  async run({ settings: { data, json }, clock, signal }) {
    const findings = await examine({ dir: data, env: processEnvironment(), clock, signal })
    const wrong = findings.filter(({ ok }) => !ok).length
    if (json) await printJson({ ok: wrong === 0, checks: findings })
    else {
      const rows = findings.map(({ check, ok, found }) => [check, ok ? 'ok' : 'WRONG', found])
      await print(table(['CHECK', 'STATE', 'FOUND'], rows))
    }
    if (wrong > 0) throw new CommandError(`${wrong} of ${findings.length} checks found something`)
  },
})
