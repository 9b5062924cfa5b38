/**
 * Owns the examination of an installation: settings, files, content, freshness and disk. Each
 * finding is a sentence; none holds a key.
 */

import { existsSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { HISTORY_FILE } from '../admin/history.ts'
import { TOKEN_FILE } from '../admin/token.ts'
import type { Environment } from '../config/environment.ts'
import { environmentProblems } from '../config/settings.ts'
import type { FeedState } from '../feeds/store.ts'
import type { Clock } from '../lib/clock.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { hasDirectory, missingDirectory, ORIGINS } from '../sqlite/data-directory.ts'
import { leftovers, listProblems, registryProblems, tallyList } from '../sqlite/findings.ts'
import { ACCESS_FILE, FEEDS_FILE, listFeeds, PROXY_FILE } from '../sqlite/stores.ts'
import { storesOf } from '../stores.ts'
import { AHEAD_OF_LIST_MS, futureProblems } from './doctor-clock.ts'
import { examineDatabase, type SharedDatabase } from './doctor-database.ts'
import {
  counted,
  type Finding,
  finding,
  findingOf,
  freshness,
  RECENT_MS,
  type Result,
  right,
  wrong,
} from './doctor-findings.ts'
import { sourceProblems } from './doctor-sources.ts'

/** What is examined; `signal` ends the examination early. */
type Installation = {
  dir: string
  env: Environment
  clock: Clock
  signal: AbortSignal
  /** The database that this machine shares with others; its data directory then holds copies. */
  database?: SharedDatabase | undefined
}
type Check = (installation: Installation) => Awaitable<Result>
type Checks = { readonly [check: string]: Check }

/** Free space needed besides a second copy of the data, for imports and write-ahead logs. */
const SPARE_BYTES = 64 * 1024 * 1024

const megabytes = (bytes: number): string => `${counted(Math.ceil(bytes / 1e6))} MB`

/** Examines a database, or says how to create it. */
function withFile(
  dir: string,
  name: keyof typeof ORIGINS,
  examine: () => Awaitable<Result>,
): Awaitable<Result> {
  const file = join(dir, name)
  return existsSync(file) ? examine() : wrong(`there is no ${file}; ${ORIGINS[name]}`)
}

const FEEDS_IN_ORDER = 'feeds and databases of places are in order'

/** Everything that is examined, in the order in which it is shown. */
const CHECKS = {
  configuration: ({ env }) =>
    finding(environmentProblems(env), 'every PROXYLIST_ variable is right'),

  permissions({ dir }) {
    if (!hasDirectory(dir)) return wrong(missingDirectory(dir))
    const asked = [
      [dir, 0o700],
      [join(dir, PROXY_FILE), 0o600],
      [join(dir, ACCESS_FILE), 0o600],
      [join(dir, FEEDS_FILE), 0o600],
      [join(dir, TOKEN_FILE), 0o600],
      [join(dir, HISTORY_FILE), 0o600],
    ] as const
    const problems = asked.flatMap(([path, mode]) => {
      const given = statSync(path, { throwIfNoEntry: false })?.mode ?? mode
      const more = given & 0o777 & ~mode
      return more === 0 ? [] : [`${path} is open to others; chmod ${mode.toString(8)}`]
    })
    return finding(problems, 'directory and files are for their owner only')
  },

  list: ({ dir, signal }) =>
    withFile(dir, PROXY_FILE, async () =>
      finding(
        await listProblems(dir, signal),
        'the structure is right, and rows and indexes agree',
      ),
    ),

  'keys and usage': ({ dir }) =>
    withFile(dir, ACCESS_FILE, () =>
      finding(registryProblems(dir), 'the structure is right, and rows and indexes agree'),
    ),

  freshness: ({ dir, clock }) =>
    withFile(dir, PROXY_FILE, () => {
      const nowMs = clock()
      const untilMs = nowMs + AHEAD_OF_LIST_MS
      const tally = tallyList(dir, nowMs - RECENT_MS, untilMs)
      return freshness(tally, nowMs, ORIGINS[PROXY_FILE])
    }),

  clock: ({ dir, clock }) =>
    finding(futureProblems(dir, clock()), 'no request and no check lies in the future'),
  feeds: async ({ dir, env }) => finding(await sourceProblems(env, listFeeds(dir)), FEEDS_IN_ORDER),

  disk({ dir }) {
    if (!hasDirectory(dir)) return wrong(`there is no directory ${dir} to examine`)
    const { bavail, bsize } = statfsSync(dir)
    const sizes = [PROXY_FILE, ACCESS_FILE].map(
      name => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0,
    )
    const neededBytes = sizes.reduce((sum, size) => sum + size, SPARE_BYTES)
    const freeBytes = bavail * bsize
    const found = `${megabytes(freeBytes)} are free; an import may take ${megabytes(neededBytes)}`
    const left = leftovers(dir).map(name => `; a killed command left ${join(dir, name)}: remove it`)
    return { ok: freeBytes >= neededBytes && left.length === 0, found: found + left.join('') }
  },
} satisfies Checks

/** What is examined of the copies of a node, whose directory may be deleted while it is stopped. */
const examineCopies: Check = async ({ dir, signal }) => {
  const problems = [
    ...(existsSync(join(dir, PROXY_FILE)) ? await listProblems(dir, signal) : []),
    ...(existsSync(join(dir, ACCESS_FILE)) ? registryProblems(dir) : []),
  ]
  const mend = problems.map(problem => `${problem}: stop the node and remove ${dir}`)
  return finding(mend, 'the copies of this node are intact')
}

/** Whether there is a directory; without one, no node of this machine has served. */
const onNode =
  (check: Check): Check =>
  installation =>
    hasDirectory(installation.dir)
      ? check(installation)
      : right(`there is no ${installation.dir}; serve makes it`)

/** The states of the feeds of a shared database; none without one that can be used. */
function sharedFeeds({ dir, clock, database }: Installation): Promise<FeedState[]> {
  if (database === undefined) return Promise.resolve([])
  const { url, timeoutMs } = database
  return storesOf({ data: dir, database: url, databaseTimeout: timeoutMs }, clock).listFeeds()
}

/** What is examined of the machine of a node, besides its database. */
const NODE_CHECKS: Checks = {
  permissions: onNode(CHECKS.permissions),
  copies: onNode(examineCopies),
  feeds: async installation =>
    finding(
      await sourceProblems(installation.env, await sharedFeeds(installation)),
      FEEDS_IN_ORDER,
    ),
  disk: onNode(CHECKS.disk),
}

const examineAll = async (checks: Checks, installation: Installation): Promise<Finding[]> => {
  const findings: Finding[] = []
  for (const [check, work] of Object.entries(checks)) {
    findings.push(await findingOf(check, () => work(installation), installation.signal))
  }
  return findings
}

/**
 * Examines an installation, one check after the other. The check of the list sets or removes its file
 * stamp; nothing else changes, and a database of an earlier version is migrated in memory only.
 */
export async function examine(installation: Installation): Promise<Finding[]> {
  const { database, clock, signal } = installation
  if (database === undefined) return examineAll(CHECKS, installation)
  const configuration = await examineAll({ configuration: CHECKS.configuration }, installation)
  const shared = await examineDatabase(database, clock, signal)
  const isUsable = shared[0]?.ok === true
  const known = isUsable ? installation : { ...installation, database: undefined }
  return [...configuration, ...shared, ...(await examineAll(NODE_CHECKS, known))]
}
