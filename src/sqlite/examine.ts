/** What `doctor` examines of a data directory. Nothing here creates or changes a file. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AHEAD_MS, describeAhead } from '../access/ahead.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { counted } from '../lib/counted.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import { type Checks, finding, problemOf, type Result, right, wrong } from '../lib/examination.ts'
import { freshness, rowsAhead, type TallyReader } from '../proxies/freshness.ts'
import { checkInWorker, checkRegistry } from './check.ts'
import {
  ACCESS_FILE,
  FEED_LINES_FILE,
  FEEDS_FILE,
  hasDirectory,
  missingDirectory,
  missingFile,
  ORIGINS,
  PROXY_FILE,
} from './data-directory.ts'
import { isAlone } from './database.ts'
import { freshStart, leftoversOf } from './database-files.ts'
import { checkOpenList } from './proxies/store.ts'
import { RESTORE_PART } from './restore.ts'
import { SAMPLES_FILE } from './samples.ts'
import { openList, openRegistry } from './stores.ts'

/** A data directory; `signal` ends its examination early. */
export type Directory = {
  dir: string
  clock: Clock
  signal: AbortSignal
  /** Names of files besides the databases that are for their owner only. */
  secrets: readonly string[]
}

/** Free space needed besides a second copy of the data, for imports and write-ahead logs. */
const SPARE_BYTES = 64 * 1024 * 1024

const megabytes = (bytes: number): string => `${counted(Math.ceil(bytes / 1e6))} MB`

/** Examines a database, or says how to create it. */
function withFile(
  dir: string,
  name: keyof typeof ORIGINS,
  examine: () => Awaitable<Result>,
): Awaitable<Result> {
  return existsSync(join(dir, name)) ? examine() : wrong(missingFile(dir, name))
}

/** The problems of keys, plans and usage in `dir`; none when they are intact. */
function registryProblems(dir: string): string[] {
  using registry = openRegistry(dir, { isReader: true })
  return checkRegistry(registry.db)
}

/** The problems of the list in `dir`; none when it is intact. Reads all of it, in a worker. */
async function listProblems(dir: string, signal: AbortSignal): Promise<readonly string[]> {
  using list = openList(dir, { isReader: true })
  return list.db.filename === list.file && !isAlone(list.db)
    ? await checkInWorker(list.file, signal)
    : checkOpenList(list.db)
}

const tallyOf =
  (dir: string): TallyReader =>
  (sinceMs, untilMs) => {
    using list = openList(dir, { isReader: true })
    return list.proxies.tally(sinceMs, untilMs)
  }

/** Subjects whose last admission lies too far after `nowMs`. */
function subjectsAhead(dir: string, nowMs: number): string[] {
  using registry = openRegistry(dir, { isReader: true })
  return describeAhead(registry.usage.after(nowMs + AHEAD_MS))
}

/** What `find` finds; nothing in a database that cannot be read, which other checks report. */
async function problemsIn(file: string, find: () => Awaitable<string[]>): Promise<string[]> {
  if (!existsSync(file)) return []
  try {
    return await find()
  } catch (error) {
    if (error instanceof StoreError || error instanceof CommandError) return []
    throw error
  }
}

export const DIRECTORY_CHECKS = {
  permissions({ dir, secrets }) {
    if (!hasDirectory(dir)) return wrong(missingDirectory(dir))
    const files = [PROXY_FILE, ACCESS_FILE, FEEDS_FILE, FEED_LINES_FILE, SAMPLES_FILE, ...secrets]
    const asked = [[dir, 0o700], ...files.map(name => [join(dir, name), 0o600] as const)] as const
    const owner = statSync(dir).uid
    const problems = asked.flatMap(([path, mode]) => {
      const found = statSync(path, { throwIfNoEntry: false })
      if (found === undefined) return []
      const isOpen = (found.mode & 0o777 & ~mode) !== 0
      return [
        isOpen && `${path} is open to others; chmod ${mode.toString(8)}`,
        found.uid !== owner &&
          `${path} belongs to user ${found.uid}, the directory to user ${owner}: chown it`,
      ].filter(problem => problem !== false)
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
    withFile(dir, PROXY_FILE, () => freshness(tallyOf(dir), clock(), ORIGINS[PROXY_FILE])),

  async clock({ dir, clock }) {
    const nowMs = clock()
    const subjects = await problemsIn(join(dir, ACCESS_FILE), () => subjectsAhead(dir, nowMs))
    const rows = await problemsIn(join(dir, PROXY_FILE), () => rowsAhead(tallyOf(dir), nowMs))
    return finding([...subjects, ...rows], 'no request and no check lies in the future')
  },

  async disk({ dir }) {
    if (!hasDirectory(dir)) return wrong(`there is no directory ${dir} to examine`)
    const [blocked] = await problemOf(() => accessSync(dir, constants.W_OK))
    if (blocked !== undefined) return wrong(`${dir} cannot be written: ${blocked}`)
    const { bavail, bsize } = statfsSync(dir)
    const sizes = [PROXY_FILE, ACCESS_FILE].map(
      name => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0,
    )
    const neededBytes = sizes.reduce((sum, size) => sum + size, SPARE_BYTES)
    const freeBytes = bavail * bsize
    const found = `${megabytes(freeBytes)} are free; an import may take ${megabytes(neededBytes)}`
    // Copies of the data, or parts of them, of commands that were killed.
    const left = [RESTORE_PART, freshStart(PROXY_FILE)]
      .flatMap(start => leftoversOf(dir, start))
      .map(name => `; a killed command left ${join(dir, name)}: remove it`)
    return { ok: freeBytes >= neededBytes && left.length === 0, found: found + left.join('') }
  },
} satisfies Checks<Directory>

/** Without a directory, no node of this machine has served; one may be deleted while it is stopped. */
const ifThere =
  (check: Checks<Directory>[string]): Checks<Directory>[string] =>
  directory =>
    hasDirectory(directory.dir)
      ? check(directory)
      : right(`there is no ${directory.dir}; serve makes it`)

/** What is examined of the directory of a node, which has copies of its database. */
export const COPY_CHECKS = {
  permissions: ifThere(DIRECTORY_CHECKS.permissions),
  copies: ifThere(async ({ dir, signal }) => {
    const problems = [
      ...(existsSync(join(dir, PROXY_FILE)) ? await listProblems(dir, signal) : []),
      ...(existsSync(join(dir, ACCESS_FILE)) ? registryProblems(dir) : []),
    ]
    const mend = problems.map(problem => `${problem}: stop the node and remove ${dir}`)
    return finding(mend, 'the copies of this node are intact')
  }),
  disk: ifThere(DIRECTORY_CHECKS.disk),
} satisfies Checks<Directory>
