/** `backup`: a copy of the data in one file, or on stdout, while the server runs. */
import { isatty } from 'node:tty'
import { type BackupTarget, backUpStores, describeContents } from '../../backups.ts'
import { CommandError } from '../../lib/errors.ts'
import { formatCount } from '../../lib/plural.ts'
import {
  command,
  createStdoutWriter,
  DATA_SETTINGS,
  printJson,
  say,
  yieldToServer,
} from '../command.ts'
import { withProgress } from '../progress.ts'

const STDOUT = '-'

/** @throws CommandError (usage) where the archive would be written to a terminal. */
function targetOf(file: string, json: boolean, signal: AbortSignal): BackupTarget {
  if (file !== STDOUT) return { kind: 'file', file }
  if (json) throw new CommandError('--json needs a FILE: with -, stdout is the archive', 2)
  if (isatty(1)) {
    throw new CommandError('- writes the archive to stdout, which is a terminal; use > FILE', 2)
  }
  const write = createStdoutWriter(signal)
  return {
    kind: 'stream',
    async write(chunk) {
      if (await write(chunk)) return
      throw new CommandError('stdout was closed before the archive was complete')
    },
  }
}

export const backupCommand = command({
  name: 'backup',
  summary: 'copy the data into one tar file (- is stdout), while the server runs',
  arguments: '<file>',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist backup proxylist-2026-11-20.tar',
  endsAtSignal: 'by itself',
  kept: 'nothing was changed',
  async run({ settings, args: [file = ''], clock, signal }) {
    const { json } = settings
    const to = targetOf(file, json, signal)
    yieldToServer()
    const format = 'backing up [{bar}] {percentage}%'
    const backup = await withProgress(format, 1, progress =>
      backUpStores(settings, { to, nowMs: clock(), signal, progress }),
    )
    if (json) return printJson({ file, ...backup })
    const size = `${formatCount(Math.ceil(backup.bytes / 1000))} kB`
    say(`${file === STDOUT ? 'stdout' : file}: ${size} with ${describeContents(backup)}`)
  },
})
