/** What `doctor` says of keys and client addresses when a clock was ahead (contract B10). */
import { MINUTE_MS } from '../lib/time.ts'
import type { Subject } from './rate-limit.ts'

/** Clocks of servers may differ by so much. */
export const AHEAD_MS = MINUTE_MS
const NAMED_MAX = 5

/** The subjects whose last requests lie in the future, with the commands that mend them. */
export function describeAhead(subjects: readonly Subject[]): string[] {
  const keys = subjects.filter(({ kind }) => kind === 'key').map(({ id }) => id)
  const named = keys.slice(0, NAMED_MAX).join(', ')
  const more = keys.length > NAMED_MAX ? ` and ${keys.length - NAMED_MAX} more` : ''
  const [which, id] = keys.length === 1 ? ['key', named] : ['keys', 'ID']
  const found = ['demo', 'temp']
    .filter(kind => subjects.some(each => each.kind === kind))
    .map(kind => [`requests from client addresses of ${kind}`, kind])
  if (keys.length > 0) found.unshift([`the last requests of ${which} ${named}${more}`, `${id}`])
  return found.map(([what, of]) => `${what} lie in the future: proxylist keys reset ${of}`)
}
