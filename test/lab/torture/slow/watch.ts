/**
 * Measuring how long a server keeps connections without traffic, as the kernel sees it
 * (proc(5), /proc/net/tcp).
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const CHECK_EVERY_MS = 250
const ESTABLISHED = '01'

/**
 * The connections that a server on 127.0.0.1:`port` has open: the port at their other end, and
 * how many bytes of answers wait to be read.
 */
function connectionsOf(port: number): Map<number, string> {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const waiting = new Map<number, string>()
  for (const line of readFileSync('/proc/net/tcp', 'latin1').split('\n')) {
    const [, from, to, state, queues = ''] = line.trim().split(/ +/)
    if (from !== local || state !== ESTABLISHED || !to) continue
    waiting.set(Number.parseInt(to.slice(-4), 16), queues)
  }
  return waiting
}

/** How many sockets a process has open, of any kind. */
export const socketsOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/fd`).filter(name => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`).startsWith('socket:')
    } catch {
      return false // closed in between
    }
  }).length

/** A connection: the port at its other end; when it was opened or a byte last moved, and closed. */
export type Seen = { port: number; movedMs: number; closedMs: number }

/** Watches the connections of a server on `port` until `stop`. Times are Unix milliseconds. */
export function watchConnections(port: number) {
  const known = new Map<number, { queues: string; movedMs: number }>()
  const ended: Seen[] = []
  let most = 0
  const check = (): void => {
    const open = connectionsOf(port)
    const nowMs = Date.now()
    most = Math.max(most, open.size)
    for (const [other, { movedMs }] of known) {
      if (open.has(other)) continue
      known.delete(other)
      ended.push({ port: other, movedMs, closedMs: nowMs })
    }
    for (const [other, queues] of open) {
      const before = known.get(other)
      if (before?.queues !== queues) known.set(other, { queues, movedMs: nowMs })
    }
  }
  const timer = setInterval(check, CHECK_EVERY_MS)
  return {
    /** Most that were open at once. */
    most: () => most,
    open: () => known.size,
    ended,
    stop: () => clearInterval(timer),
  }
}

/**
 * The longest time that a connection was kept without traffic, in milliseconds. An answer may be
 * read between two checks: clients report when theirs began.
 * @param begun ports and times at which clients got the first bytes of an answer
 */
export function longestOf(ended: readonly Seen[], begun: readonly (readonly [number, number])[]) {
  const timesOf = Map.groupBy(begun, ([port]) => port)
  return Math.max(
    0,
    ...ended.map(({ port, movedMs, closedMs }) => {
      const times = (timesOf.get(port) ?? []).map(([, ms]) => ms).filter(ms => ms < closedMs)
      return closedMs - Math.max(movedMs, ...times)
    }),
  )
}
