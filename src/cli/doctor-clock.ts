/** Owns what `doctor` says of a clock that was ahead (contract B10), and the remedy. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Subject } from '../access/rate-limit.ts'
import { ACCESS_FILE, countAfter, PROXY_FILE, subjectsAhead } from '../app.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import { MINUTE_MS } from '../lib/time.ts'

/** Clocks of servers may differ by so much; an import accepts checks that are so far ahead. */
const AHEAD_OF_USAGE_MS = MINUTE_MS
const AHEAD_OF_LIST_MS = 5 * MINUTE_MS
/** Keys that are named. */
const NAMED_MAX = 5

function usageProblems(subjects: readonly Subject[]): string[] {
  const keys = subjects.filter(({ kind }) => kind === 'key').map(({ id }) => id)
  const named = keys.slice(0, NAMED_MAX).join(', ')
  const more = keys.length > NAMED_MAX ? ` and ${keys.length - NAMED_MAX} more` : ''
  const kinds = (['demo', 'temp'] as const).filter(kind =>
    subjects.some(each => each.kind === kind),
  )
  return [
    ...(keys.length === 0
      ? []
      : [
          `the last requests of ${keys.length === 1 ? 'key' : 'keys'} ${named}${more} lie in ` +
            `the future: proxylist keys reset ${keys.length === 1 ? named : 'ID'}`,
        ]),
    ...kinds.map(
      kind =>
        `requests from client addresses of ${kind} lie in the future: proxylist keys reset ${kind}`,
    ),
  ]
}

function listProblems(rows: number): string[] {
  if (rows === 0) return []
  return [
    `${rows.toLocaleString('en-US')} proxies were checked in the future, so that newer checks do ` +
      'not replace them: proxylist import --replace FILE with the whole list',
  ]
}

/** What `find` finds; nothing in a database that cannot be read, which other checks report. */
function problemsIn(file: string, find: () => string[]): string[] {
  if (!existsSync(file)) return []
  try {
    return find()
  } catch (error) {
    if (error instanceof StoreError || error instanceof CommandError) return []
    throw error
  }
}

/** What in `dir` lies in the future, with the command that mends it. */
export const futureProblems = (dir: string, nowMs: number): string[] => [
  ...problemsIn(join(dir, ACCESS_FILE), () =>
    usageProblems(subjectsAhead(dir, nowMs + AHEAD_OF_USAGE_MS)),
  ),
  ...problemsIn(join(dir, PROXY_FILE), () =>
    listProblems(countAfter(dir, nowMs + AHEAD_OF_LIST_MS)),
  ),
]
