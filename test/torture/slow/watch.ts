/**
 * Owns how long a server keeps connections on which nothing moves, as the kernel sees it
 * (proc(5), /proc/net/tcp).
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const LOOK_EVERY_MS = 250
const ESTABLISHED = '01'

/**
 * The connections that a server on 127.0.0.1:`port` has open: the port at their other end, and
 * how many bytes of answers wait to be taken.
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

/** How many sockets a process has open, of whatever kind. */
export const socketsOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/fd`).filter(name => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`).startsWith('socket:')
    } catch {
      return false // closed in between
    }
  }).length

/**
 * Watches the connections of a server on `port` until `stop`. Time counts from when a connection
 * is opened or a byte of an answer last moved.
 */
export function watchConnections(port: number) {
  const known = new Map<number, { queues: string; sinceMs: number }>()
  const seen = { most: 0, longestMs: 0 }
  const look = (): void => {
    const open = connectionsOf(port)
    const nowMs = performance.now()
    seen.most = Math.max(seen.most, open.size)
    for (const [other, queues] of open) {
      const before = known.get(other)
      const sinceMs = before?.queues === queues ? before.sinceMs : nowMs
      known.set(other, { queues, sinceMs })
      seen.longestMs = Math.max(seen.longestMs, nowMs - sinceMs)
    }
    for (const other of known.keys()) if (!open.has(other)) known.delete(other)
  }
  const timer = setInterval(look, LOOK_EVERY_MS)
  return {
    seen,
    open: () => known.size,
    stop: () => clearInterval(timer),
  }
}
