/** `doctor`: the findings as a table, and exit status 1 when a check fails. */
import { processEnvironment } from '../../config/environment.ts'
import { EXAMINED, examine } from '../../doctor.ts'
import { CommandError } from '../../lib/errors.ts'
import type { Finding } from '../../lib/findings.ts'
import { command, print, printJson, table } from '../command.ts'

export const doctorCommand = command({
  name: 'doctor',
  summary:
    'examine settings, permissions, databases, freshness and disk; status 1 when one is wrong',
  usesCopies: true,
  settings: [...EXAMINED, 'json'],
  example: 'proxylist doctor --data /var/lib/proxylist',
  async run({ settings, clock, signal }) {
    const findings = await examine(settings, processEnvironment(), clock, signal)
    const wrong = findings.filter(({ ok }) => !ok).length
    if (settings.json) await printJson({ ok: wrong === 0, checks: findings })
    else {
      const columns = {
        CHECK: ({ check }: Finding) => check,
        STATE: ({ ok, note }: Finding) => (ok ? (note ? 'note' : 'ok') : 'WRONG'),
        FOUND: ({ found }: Finding) => found,
      }
      await print(table(findings, columns))
    }
    if (wrong > 0) throw new CommandError(`${wrong} of ${findings.length} checks found something`)
  },
})
