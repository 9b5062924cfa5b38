/** What `doctor` checks in a data directory. Nothing here creates or changes a file. */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, reasonOf } from '../lib/errors.ts'
import { type Checks, finding, problemOf, type Result, right, wrong } from '../lib/findings.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { describeSpace, judgeChecks, judgeKeys, sentencesOn } from '../metrics/attention.ts'
import { type Tally, tallyAt } from '../proxies/freshness.ts'
import { checkRegistry, OF_NO_PLAN, startCheck, untilDone } from './check.ts'
import {
  ACCESS_FILE,
  CHECKS_FILE,
  FEED_LINES_FILE,
  FEEDS_FILE,
  hasDirectory,
  missingDirectory,
  missingFile,
  ORIGINS,
  PROXY_FILE,
  WAL_ENDS,
} from './data-directory.ts'
import { freshStart, leftoversOf } from './database-files.ts'
import { damagedBy, isDamage, isStoreFailure, withoutRemedy } from './errors.ts'
import { spaceIn } from './metrics.ts'
import { RESTORE_PART } from './restore.ts'
import { openList, openRegistry } from './stores.ts'

/** A data directory; `signal` ends the checks early. */
export type Directory = {
  dir: string
  clock: Clock
  signal: AbortSignal
  /** Names of other files that only their owner may read. */
  secrets: readonly string[]
  /** What a server last counted of requests; `null` when none has. */
  counted: { atMs: number; found: readonly string[] } | null
}

/** Checks a database, or says how to create it. */
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
  const file = join(dir, PROXY_FILE)
  openList(dir, { isReader: true }).close() // the worker would migrate an earlier schema
  return await untilDone(() => startCheck(file, 'proxies'), signal)
}

function tallyOf(dir: string, nowMs: number): Awaitable<Tally> {
  using list = openList(dir, { isReader: true })
  return tallyAt(list.proxies.tally, nowMs)
}

/** Damage with what mends it; other problems, and what says so itself, as they are. */
const withMend = (file: string, problems: readonly string[]): string[] =>
  problems.map(problem =>
    problem.startsWith(file) || problem.endsWith(OF_NO_PLAN)
      ? problem
      : damagedBy(file, [problem]).message,
  )

/** What `read` reads; `null` of a database that cannot be read, which other checks report. */
async function tryRead<T>(file: string, read: () => Awaitable<T>): Promise<T | null> {
  if (!existsSync(file)) return null
  try {
    return await read()
  } catch (error) {
    if (isStoreFailure(error) || error instanceof CommandError) return null
    throw error
  }
}

/** A server writes its counts every minute. */
const COUNTED_MS = 2 * MINUTE_MS

export const DIRECTORY_CHECKS = {
  permissions({ dir, secrets }) {
    if (!hasDirectory(dir)) return wrong(missingDirectory(dir))
    const others = [FEEDS_FILE, CHECKS_FILE, FEED_LINES_FILE, ...secrets]
    const files = [PROXY_FILE, ACCESS_FILE, ...others].map(name => join(dir, name))
    const all = ['', ...WAL_ENDS].flatMap(end => files.map(file => [file + end, 0o600] as const))
    const owner = statSync(dir).uid
    const problems = [[dir, 0o700] as const, ...all].flatMap(([path, mode]) => {
      const found = statSync(path, { throwIfNoEntry: false })
      if (found === undefined) return []
      const whom = (found.mode & mode) === mode ? 'open to others' : 'closed to its owner'
      return [
        (found.mode & 0o777) !== mode && `${path} is ${whom}; chmod ${mode.toString(8)}`,
        found.uid !== owner &&
          `${path} belongs to user ${found.uid}, the directory to user ${owner}: chown it`,
      ].filter(problem => problem !== false)
    })
    return finding(problems, 'directory and files are for their owner only')
  },

  list: ({ dir, signal }) =>
    withFile(dir, PROXY_FILE, async () =>
      finding(
        withMend(join(dir, PROXY_FILE), await listProblems(dir, signal)),
        'the structure is right, and rows and indexes agree',
      ),
    ),

  'keys and usage': ({ dir }) =>
    withFile(dir, ACCESS_FILE, () =>
      finding(
        withMend(join(dir, ACCESS_FILE), registryProblems(dir)),
        'the structure is right, and rows and indexes agree',
      ),
    ),

  freshness: ({ dir, clock }) =>
    withFile(dir, PROXY_FILE, async () => {
      const tally = await tryRead(join(dir, PROXY_FILE), () => tallyOf(dir, clock()))
      if (tally === null) return right('there is no list that can be read')
      return judgeChecks(tally, ORIGINS[PROXY_FILE], clock())
    }),

  async limits({ dir, clock }) {
    const judged = await tryRead(join(dir, ACCESS_FILE), async () => {
      using registry = openRegistry(dir, { isReader: true })
      return await judgeKeys(registry.keys, clock())
    })
    return judged ?? right('there are no keys that can be read')
  },

  requests({ counted, clock }) {
    if (counted === null || Math.abs(clock() - counted.atMs) > COUNTED_MS) {
      return right('no server with a console has counted any within two minutes')
    }
    const fine = 'no more than 20% found nothing, and 5% of a key were refused'
    return finding([], fine, counted.found)
  },

  async clock({ dir, clock }) {
    const nowMs = clock()
    const tally = await tryRead(join(dir, PROXY_FILE), () => tallyOf(dir, nowMs))
    const facts = { rows: tally?.ahead ?? 0, distanceMs: 0 }
    return finding(sentencesOn({ clock: facts }, nowMs), 'no check lies in the future')
  },

  async disk({ dir, clock }) {
    if (!hasDirectory(dir)) return wrong(`there is no directory ${dir} to examine`)
    const [blocked] = await problemOf(() => accessSync(dir, constants.W_OK))
    if (blocked !== undefined) return wrong(`${dir} cannot be written: ${blocked}`)
    const space = spaceIn(dir)
    const problems = sentencesOn({ disk: space }, clock())
    // Temporary copies that killed commands left.
    const left = [RESTORE_PART, freshStart(PROXY_FILE)]
      .flatMap(start => leftoversOf(dir, start))
      .map(name => `; a command or node that was killed left ${join(dir, name)}: remove it`)
    return {
      ok: problems.length === 0 && left.length === 0,
      found: (problems[0] ?? describeSpace(space)) + left.join(''),
    }
  },
} satisfies Checks<Directory>

/** A node's directory may be missing: it was never started, or the operator deleted it. */
const ifThere =
  (check: Checks<Directory>[string]): Checks<Directory>[string] =>
  directory =>
    hasDirectory(directory.dir)
      ? check(directory)
      : right(`there is no ${directory.dir}; serve makes it`)

/** The checks for the directory of a node, which holds copies of the shared database. */
export const COPY_CHECKS = {
  permissions: ifThere(DIRECTORY_CHECKS.permissions),
  copies: ifThere(async ({ dir, signal }) => {
    const of = async (name: string, problems: () => Awaitable<readonly string[]>) => {
      try {
        return existsSync(join(dir, name)) ? await problems() : []
      } catch (error) {
        if (!isDamage(error)) throw error
        return [withoutRemedy(reasonOf(error))] // a list that is imported would be that of all nodes
      }
    }
    const problems = [
      ...(await of(PROXY_FILE, () => listProblems(dir, signal))),
      ...(await of(ACCESS_FILE, () => registryProblems(dir))),
    ]
    const mend = problems.map(each => `${each}: stop the node, remove ${dir}, start it again`)
    return finding(mend, 'the copies of this node are intact')
  }),
  requests: ifThere(DIRECTORY_CHECKS.requests),
  disk: ifThere(DIRECTORY_CHECKS.disk),
} satisfies Checks<Directory>
