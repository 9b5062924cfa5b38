/** Owns what `doctor` says of a clock that was ahead (contract B10), and the remedy. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Subject } from '../access/rate-limit.ts'
import { FUTURE_SECONDS_MAX } from '../import/row.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { subjectsAhead, tallyList } from '../sqlite/findings.ts'
import { ACCESS_FILE, PROXY_FILE } from '../sqlite/stores.ts'

/** Clocks of servers may differ by so much; an import accepts checks that are so far ahead. */
export const AHEAD_OF_USAGE_MS = MINUTE_MS
export const AHEAD_OF_LIST_MS = FUTURE_SECONDS_MAX * SECOND_MS
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
    `${rows.toLocaleString('en-US')} proxies were last checked in the future, and count as fresh ` +
      'until then: import them again, or the whole list with: proxylist import --replace FILE',
  ]
}

/** What lies in the future, with the command that mends it: subjects, and rows of the list. */
export const describeAhead = (subjects: readonly Subject[], rows: number): string[] => [
  ...usageProblems(subjects),
  ...listProblems(rows),
]

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
    listProblems(tallyList(dir, nowMs, nowMs + AHEAD_OF_LIST_MS).ahead),
  ),
]
