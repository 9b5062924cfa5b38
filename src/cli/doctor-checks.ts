/**
 * Owns the examination of an installation: settings, files, content, freshness and disk. Each
 * finding is a sentence; none holds a key.
 */

import { existsSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, listProblems, PROXY_FILE, registryProblems, tallyList } from '../app.ts'
import type { Environment } from '../config/environment.ts'
import { environmentProblems } from '../config/settings.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../proxies/filter.ts'

export type Finding = { check: string; ok: boolean; found: string }
type Result = Omit<Finding, 'check'>

/** What is examined. */
export type Installation = { dir: string; env: Environment; clock: Clock }

/** A query without `time` finds proxies checked within this time. */
const RECENT_MS = DEFAULT_AGE_MAX_SECONDS * SECOND_MS
/** Free space needed besides a second copy of the data, for imports and write-ahead logs. */
const SPARE_BYTES = 64 * 1024 * 1024

const wrong = (found: string): Result => ({ ok: false, found })
const finding = (problems: readonly string[], allRight: string): Result =>
  problems.length === 0 ? { ok: true, found: allRight } : wrong(problems.join('; '))

const counted = (n: number): string => n.toLocaleString('en-US')
const megabytes = (bytes: number): string => `${counted(Math.ceil(bytes / 1e6))} MB`

/** Examines a file, or says how to create it. */
function withFile(file: string, origin: string, examine: () => Result): Result {
  return existsSync(file) ? examine() : wrong(`there is no ${file}; ${origin}`)
}
const IMPORT = 'fill it with: proxylist import FILE'
const KEYS = 'create a key with: proxylist keys add'

/** Everything that is examined, in the order in which it is shown. */
const CHECKS: { [check: string]: (installation: Installation) => Result } = {
  configuration: ({ env }) =>
    finding(environmentProblems(env), 'every PROXYLIST_ variable is right'),

  permissions({ dir }) {
    const asked = [
      [dir, 0o700],
      [join(dir, PROXY_FILE), 0o600],
      [join(dir, ACCESS_FILE), 0o600],
    ] as const
    const problems = asked.flatMap(([path, mode]) => {
      const given = statSync(path, { throwIfNoEntry: false })?.mode ?? mode
      const more = given & 0o777 & ~mode
      return more === 0 ? [] : [`${path} is open to others; chmod ${mode.toString(8)}`]
    })
    return finding(problems, 'directory and files are for their owner only')
  },

  list: ({ dir, clock }) =>
    withFile(join(dir, PROXY_FILE), IMPORT, () =>
      finding(listProblems(dir, clock), 'structure, rows and indexes are as they were written'),
    ),

  'keys and usage': ({ dir }) =>
    withFile(join(dir, ACCESS_FILE), KEYS, () =>
      finding(registryProblems(dir), 'structure, rows and indexes are in order'),
    ),

  freshness: ({ dir, clock }) =>
    withFile(join(dir, PROXY_FILE), IMPORT, () => {
      const nowMs = clock()
      const { rows, newest, recent } = tallyList(dir, nowMs - RECENT_MS)
      if (newest === null) return wrong(`the list is empty; ${IMPORT}`)
      const age = counted(Math.max(0, Math.round(nowMs / SECOND_MS - newest)))
      const found =
        `${counted(recent)} of ${counted(rows)} proxies were checked in the last ` +
        `${RECENT_MS / SECOND_MS} s, the newest ${age} s ago`
      return { ok: recent > 0, found }
    }),

  disk({ dir }) {
    const { bavail, bsize } = statfsSync(dir)
    const sizes = [PROXY_FILE, ACCESS_FILE].map(
      name => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0,
    )
    const neededBytes = sizes.reduce((sum, size) => sum + size, SPARE_BYTES)
    const freeBytes = bavail * bsize
    const found = `${megabytes(freeBytes)} are free; an import may take ${megabytes(neededBytes)}`
    return { ok: freeBytes >= neededBytes, found }
  },
}

function examineOne(
  check: (installation: Installation) => Result,
  installation: Installation,
): Result {
  try {
    return check(installation)
  } catch (error) {
    return wrong(messageOf(error))
  }
}

/**
 * Examines an installation. Opening migrates databases of an earlier version, and the check of the
 * list sets or removes its file stamp; nothing else changes.
 */
export const examine = (installation: Installation): Finding[] =>
  Object.entries(CHECKS).map(([check, look]) => ({ check, ...examineOne(look, installation) }))
