/** Owns `backup`: a consistent copy of the data in one file, while the server runs. */

import { ACCESS_FILE, type Backup, backUp, PROXY_FILE } from '../app.ts'
import { CommandError } from '../lib/errors.ts'
import { command, printJson, say, yieldToServer } from './command.ts'
import { createProgress } from './progress.ts'
import { onSignal } from './signals.ts'

const number = (n: number): string => n.toLocaleString('en-US')

/** What the archive holds, for the operator. */
function describe({ files, bytes, keys, plans, proxies }: Backup): string {
  const contents: { [file: string]: string } = {
    [ACCESS_FILE]: `${number(keys)} keys, ${number(plans)} plans`,
    [PROXY_FILE]: `${number(proxies)} proxies`,
  }
  const parts = files.map(file => `${file} (${contents[file]})`)
  return `${number(Math.ceil(bytes / 1000))} kB with ${parts.join(' and ')}`
}

export const backupCommand = command({
  name: 'backup',
  summary: 'copy the data into one tar file, while the server runs',
  arguments: '<file>',
  settings: ['data', 'json'],
  example: 'proxylist backup proxylist-2026-11-20.tar',
  async run({ settings: { data, json }, args: [file = ''], clock }) {
    yieldToServer()
    const progress = createProgress('backing up [{bar}] {percentage}%', 1)
    const controller = new AbortController()
    const off = onSignal(() =>
      controller.abort(new CommandError('interrupted; nothing was written')),
    )
    const order = { dir: data, file, nowMs: clock(), signal: controller.signal }
    try {
      const backup = await backUp({ ...order, progress: share => progress.update(share) })
      progress.clear()
      if (json) await printJson({ file, ...backup })
      else say(`${file}: ${describe(backup)}`)
    } finally {
      off()
      progress.clear()
    }
  },
})
