/** `health`: asks a running server whether it can answer requests, for containers without curl. */
import { showListen } from '../../config/parsers.ts'
import { CommandError, codeOf } from '../../lib/errors.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { command, print } from '../command.ts'
import { originOf } from './console.ts'

const WAIT_MS = 5 * SECOND_MS

export const healthCommand = command({
  name: 'health',
  summary: 'ask the server at --listen whether it is ready; status 1 when it is not',
  settings: ['listen'],
  example: 'proxylist health --listen 127.0.0.1:8080',
  async run({ settings: { listen } }) {
    const where = listen.kind === 'unix' ? { unix: listen.path } : {}
    const ready = await fetch(`${originOf(listen)}/readyz`, {
      ...where,
      redirect: 'manual',
      signal: AbortSignal.timeout(WAIT_MS),
    }).catch((error: unknown) => {
      const reason = codeOf(error) || 'no reply within 5 s'
      throw new CommandError(`no server answers at ${showListen(listen)} (${reason})`)
    })
    const { status } = ready
    if (status !== 200) throw new CommandError(`${showListen(listen)} answers with ${status}`)
    await print(await ready.text())
  },
})
