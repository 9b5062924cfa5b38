/** `console`: makes the token of the admin listener, and prints where the console is. */
import { resolve } from 'node:path'
import { type Listen, showListen } from '../../config/parsers.ts'
import { makeToken, presentToken } from '../../console.ts'
import { CommandError } from '../../lib/errors.ts'
import { command, print, say } from '../command.ts'

/** Where a tunnel to a unix socket ends on the operator's own machine. */
const TUNNEL_PORT = 8081
/** Addresses to listen on, which no browser can open. */
const EVERYWHERE = ['::', '0.0.0.0']

/** The origin at which this machine, or the end of a tunnel, reaches a server. */
export function originOf(where: Listen): string {
  if (where.kind === 'unix') return `http://127.0.0.1:${TUNNEL_PORT}`
  const isEverywhere = EVERYWHERE.includes(where.hostname)
  return showListen(isEverywhere ? { ...where, hostname: '127.0.0.1' } : where)
}

/** The problem there, as a sentence; `null` for a console that accepts the token. */
async function problemAt(where: Listen, token: string): Promise<string | null> {
  const socket = where.kind === 'unix' ? { unix: where.path } : {}
  const status = await presentToken(token, originOf(where), socket)
  if (status === 200) return null
  if (status === 401) {
    return 'the server there has another data directory, and refuses this token: check --data'
  }
  const address = showListen(where).replace(/^http:\/\//, '') // as the flag takes it
  return `no console answers there yet; start it with: proxylist serve --admin-listen ${address}`
}

export const consoleCommand = command({
  name: 'console',
  summary: 'make a new console token and print its address; the previous one ends',
  settings: ['data', 'adminListen'],
  example: 'proxylist console --admin-listen 127.0.0.1:8081',
  async run({ settings: { data, adminListen } }) {
    const where = adminListen ?? { kind: 'tcp', hostname: '127.0.0.1', port: TUNNEL_PORT }
    if (where.kind === 'tcp' && where.port === 0) {
      throw new CommandError('--admin-listen must name the port that serve has printed, not 0', 2)
    }
    const { token, hadOne } = makeToken(data)
    if (hadOne) say('the previous token is no longer valid')
    const problem = await problemAt(where, token)
    if (problem !== null) say(problem)
    if (where.kind === 'unix') {
      const path = resolve(where.path)
      say(`from your own machine: ssh -N -L ${TUNNEL_PORT}:${path} USER@HOST, then open:`)
    }
    await print(`${originOf(where)}/#token=${token}\n`)
  },
})
