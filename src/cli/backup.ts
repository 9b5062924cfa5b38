/** Owns `backup`: a consistent copy of the data in one file, while the server runs. */

import { type Backup, backUp } from '../app.ts'
import { CommandError } from '../lib/errors.ts'
import { command, printJson, say, yieldToServer } from './command.ts'
import { createProgress } from './progress.ts'

const number = (n: number): string => n.toLocaleString('en-US')

/** What the archive holds, for the operator. */
function describe({ files, bytes, keys, plans, proxies }: Backup): string {
  const contents: { [file: string]: string } = {
    'access.db': `${number(keys)} keys, ${number(plans)} plans`,
    'proxies.db': `${number(proxies)} proxies`,
  }
  const parts = files.map(file => `${file} (${contents[file]})`)
  return `${number(Math.ceil(bytes / 1000))} kB with ${parts.join(' and ')}`
}

/** Aborts at the first SIGINT or SIGTERM; a second one ends the process at once. */
function abortAtSignal(): { signal: AbortSignal; [Symbol.dispose]: () => void } {
  const controller = new AbortController()
  const stop = (): void => controller.abort(new CommandError('interrupted; nothing was written'))
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const name of signals) process.once(name, stop)
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      for (const name of signals) process.off(name, stop)
    },
  }
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
    using aborting = abortAtSignal()
    const order = { dir: data, file, nowMs: clock(), signal: aborting.signal }
    try {
      const backup = await backUp({ ...order, progress: share => progress.update(share) })
      progress.clear()
      if (json) await printJson({ file, ...backup })
      else say(`${file}: ${describe(backup)}`)
    } finally {
      progress.clear()
    }
  },
})
