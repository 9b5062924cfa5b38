/** The checks of `doctor` for a data directory. They create and change nothing. */
import { accessSync, constants, existsSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import { type Checks, finding, problemOf, type Result, right, wrong } from '../lib/findings.ts'
import { checkFreshness, checkKeys, describeSpace, sentencesOn } from '../metrics/attention.ts'
import { latestCheckMs } from '../proxies/freshness.ts'
import {
  ACCESS_FILE,
  type DataFile,
  hasDirectory,
  missingDirectory,
  missingFile,
  ORIGINS,
  PROXY_FILE,
} from './data-directory.ts'
import { findDamage } from './database.ts'
import { damagedBy, isDatabaseError } from './errors.ts'
import { spaceIn } from './metrics.ts'
import { openList, openRegistry } from './stores.ts'

export type Directory = { dir: string; clock: Clock }

/** Reads the whole database: a list of a million proxies takes ten seconds. */
function damageIn(dir: string, name: DataFile): string | null {
  if (name === PROXY_FILE) {
    using list = openList(dir, { isReader: true })
    return findDamage(list.db)
  }
  using registry = openRegistry(dir, { isReader: true })
  registry.usage.usagesOf([]) // throws when the log of admissions cannot be read
  return findDamage(registry.db)
}

function checkDatabase(dir: string, name: DataFile): Result {
  if (!existsSync(join(dir, name))) return wrong(missingFile(dir, name))
  const damage = damageIn(dir, name)
  if (damage !== null) return wrong(damagedBy(join(dir, name), damage).message)
  return right('no damage was found')
}

/** Reads from a database; `null` when that fails: other checks report why. */
async function tryRead<T>(read: () => Awaitable<T>): Promise<T | null> {
  try {
    return await read()
  } catch (error) {
    if (isDatabaseError(error) || error instanceof CommandError) return null
    throw error
  }
}

export const DIRECTORY_CHECKS = {
  permissions({ dir }) {
    if (!hasDirectory(dir)) return wrong(missingDirectory(dir))
    const { mode, uid: owner } = statSync(dir)
    const problems = (mode & 0o077) === 0 ? [] : [`${dir} is open to others; chmod 700`]
    for (const path of readdirSync(dir).map(name => join(dir, name))) {
      const { uid = owner } = lstatSync(path, { throwIfNoEntry: false }) ?? {}
      if (uid === owner) continue
      problems.push(`${path} belongs to user ${uid}, the directory to user ${owner}: chown it`)
    }
    return finding(problems, 'the directory is for its owner only, who owns its files')
  },

  list: ({ dir }) => checkDatabase(dir, PROXY_FILE),

  'keys and usage': ({ dir }) => checkDatabase(dir, ACCESS_FILE),

  async freshness({ dir, clock }) {
    const nowMs = clock()
    const checks = await tryRead(() => {
      using list = openList(dir, { isReader: true })
      return list.proxies.checks(latestCheckMs(nowMs))
    })
    if (checks === null) return right('there is no list that can be read')
    const fresh = checkFreshness(checks, ORIGINS[PROXY_FILE], nowMs)
    const future = sentencesOn({ clock: { rows: checks.ahead, distanceMs: 0 } }, nowMs)
    return finding([...(fresh.ok ? [] : [fresh.found]), ...future], fresh.found)
  },

  async limits({ dir, clock }) {
    const judged = await tryRead(async () => {
      using registry = openRegistry(dir, { isReader: true })
      return await checkKeys(registry.keys, clock())
    })
    return judged ?? right('there are no keys that can be read')
  },

  async disk({ dir, clock }) {
    if (!hasDirectory(dir)) return wrong(`there is no directory ${dir} to examine`)
    const [blocked] = await problemOf(() => accessSync(dir, constants.W_OK))
    if (blocked !== undefined) return wrong(`${dir} cannot be written: ${blocked}`)
    const space = spaceIn(dir)
    return finding(sentencesOn({ disk: space }, clock()), describeSpace(space))
  },
} satisfies Checks<Directory>

/** A node's directory may be missing: it was never started, or the operator deleted it. */
const ifThere =
  (check: Checks<Directory>[string]): Checks<Directory>[string] =>
  directory =>
    hasDirectory(directory.dir)
      ? check(directory)
      : right(`there is no ${directory.dir}; serve makes it`)

export const COPY_CHECKS = {
  permissions: ifThere(DIRECTORY_CHECKS.permissions),
  copy: ifThere(({ dir }) =>
    existsSync(join(dir, PROXY_FILE))
      ? checkDatabase(dir, PROXY_FILE)
      : right('it is not there yet; serve makes it'),
  ),
  freshness: ifThere(DIRECTORY_CHECKS.freshness),
  disk: ifThere(DIRECTORY_CHECKS.disk),
} satisfies Checks<Directory>
