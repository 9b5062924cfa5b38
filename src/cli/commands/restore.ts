/** `restore`: replaces the data of a data directory, or fills an empty shared database, from a backup. */
import { isatty } from 'node:tty'
import { describeContents, restoreDatabase, restoreDirectory } from '../../backups.ts'
import { STDIN } from '../../config/parsers.ts'
import { CommandError } from '../../lib/errors.ts'
import { command, DATA_SETTINGS, printJson, quoted, say } from '../command.ts'
import { withProgress } from '../progress.ts'
import { toSource } from '../sources.ts'

/** Where the earlier data is, and the commands that bring it back. */
const describePrevious = (previous: string, data: string): string[] => [
  `the earlier data is kept in ${previous}; to go back:`,
  `  proxylist backup before.tar --data ${quoted(previous)}`,
  `  proxylist restore before.tar --force --data ${quoted(data)}`,
]

export const restoreCommand = command({
  name: 'restore',
  summary: 'put the data of a backup in place (- is stdin), while no server runs',
  arguments: '<file>',
  settings: [...DATA_SETTINGS, 'force', 'json'],
  example: 'proxylist restore proxylist-2026-11-20.tar --data /var/lib/proxylist',
  endsAtSignal: 'by itself',
  async run({ settings, args: [file = ''], clock, signal }) {
    const { data, database: url, force, json } = settings
    if (file === STDIN && isatty(0)) {
      throw new CommandError('- reads the archive from stdin, which is a terminal; use < FILE', 2)
    }
    if (url !== undefined && force) {
      throw new CommandError(
        '--force replaces the data of a data directory; a database has to be empty',
        2,
      )
    }
    const { name, bytes, size } = toSource(file)
    const format = `restoring ${size > 0 ? '[{bar}] {percentage}%' : ''}`
    const archive = { file: name, bytes, signal }
    if (url !== undefined) {
      const { shown, ...contents } = await withProgress(format, size, progress =>
        restoreDatabase({ ...settings, database: url }, { ...archive, clock, progress }),
      )
      if (json) return printJson({ file: name, database: shown, ...contents })
      const later = contents.proxies > 0 ? '; the first node imports the list' : ''
      return say(`${shown}: restored ${describeContents(contents)} from ${name}${later}`)
    }
    const restored = await withProgress(format, size, progress =>
      restoreDirectory(data, { ...archive, force, clock, progress }),
    )
    if (json) return printJson({ file: name, data, ...restored })
    say(`${data}: restored ${describeContents(restored)} from ${name}`)
    const { previous } = restored
    if (previous !== null) describePrevious(previous, data).forEach(say)
  },
})
