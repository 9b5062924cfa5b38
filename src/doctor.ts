/** What `doctor` examines: one table of checks, each of which stands beside its noun. */
import { ATTENTION_FILE, readAttentionFile } from './admin/attention-file.ts'
import { TOKEN_FILE } from './admin/token.ts'
import type { Environment } from './config/environment.ts'
import { environmentProblems, readSettings, type Settings } from './config/settings.ts'
import { COMMIT, COMMITTED_MS, VERSION } from './config/version.ts'
import { feedProblems } from './feeds/feeds-file.ts'
import type { StoredFeed } from './feeds/store.ts'
import { openGeoip } from './import/geoip.ts'
import type { Awaitable } from './lib/awaitable.ts'
import type { Clock } from './lib/clock.ts'
import { several } from './lib/counted.ts'
import { type Checks, examineAll, type Finding, finding, problemOf } from './lib/findings.ts'
import { findRunning } from './lib/take-over.ts'
import { DAY_MS } from './lib/time.ts'
import { judgeChecker } from './metrics/attention.ts'
import { examineDatabase } from './postgres/doctor.ts'
import { lostSchema, requireOwnData } from './sqlite/copy.ts'
import { ORIGINS, PROXY_FILE } from './sqlite/data-directory.ts'
import { COPY_CHECKS, DIRECTORY_CHECKS, type Directory } from './sqlite/doctor.ts'
import { listFeeds } from './sqlite/stores.ts'
import { storesOf } from './stores.ts'

export const EXAMINED = ['data', 'database', 'databaseTimeout', 'feed', 'feeds', 'geoip'] as const

/**
 * Examines an installation, one check after the other. Nothing is changed, and a database of an earlier
 * version is migrated in memory only.
 */
export async function examine(
  settings: Settings<(typeof EXAMINED)[number]>,
  env: Environment,
  clock: Clock,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { data: dir, database: url, databaseTimeout: timeoutMs, geoip } = settings
  const secrets = [TOKEN_FILE, ATTENTION_FILE]
  const directory = { dir, clock, signal, secrets, counted: readAttentionFile(dir) }
  const run = (checks: Checks<Directory>): Promise<Finding[]> =>
    examineAll(checks, directory, signal)
  const configuration = async () => {
    const copies = url === undefined ? await problemOf(() => requireOwnData(dir)) : []
    const problems = [...environmentProblems(env), ...copies]
    return finding(problems, 'every PROXYLIST_ variable is right')
  }

  /** This program, how old it is, and servers that run another one. */
  const program = async () => {
    const days = COMMITTED_MS === null ? 0 : Math.floor((clock() - COMMITTED_MS) / DAY_MS)
    const old = days < 1 ? '' : `, ${several(days, 'day')} old`
    const others = (await findRunning(dir)).filter(
      ({ isReplaced, commit }) => isReplaced || commit !== COMMIT,
    )
    const notes = others.map(
      ({ pid, version, commit }) =>
        `the server of process ${pid} still runs proxylist ${version} (commit ${commit}); restart it`,
    )
    return finding([], `proxylist ${VERSION}${old}`, notes)
  }

  /** The feeds and databases of places that the settings name, and the last attempts at feeds. */
  const feeds = (attempts: () => Awaitable<readonly StoredFeed[]>) => async () => {
    const more = readSettings(['feedEvery', 'providerService'], {}, env)
    const places = await Promise.all(geoip.map(file => problemOf(() => openGeoip([file]))))
    const named = { ...settings, ...more }
    const problems = await feedProblems(named, await attempts())
    return finding([...places.flat(), ...problems], 'feeds and databases of places are in order')
  }

  const stores = storesOf(settings, clock)
  const checker = async () => judgeChecker(await stores.checkerStatus(), clock())

  if (url === undefined) {
    const { disk, ...checks } = DIRECTORY_CHECKS
    return run({
      program,
      configuration,
      ...checks,
      feeds: feeds(() => listFeeds(dir)),
      checker,
      disk,
    })
  }
  const database = { url, timeoutMs, origin: ORIGINS[PROXY_FILE], lost: lostSchema(dir) }
  const shared = await examineDatabase(database, clock, signal)
  const isUsable = shared[0]?.ok === true
  const attempts = () => (isUsable ? stores.listFeeds() : [])
  const { disk, ...checks } = COPY_CHECKS
  return [
    ...(await run({ program, configuration })),
    ...shared,
    ...(await run({
      ...{ ...checks, feeds: feeds(attempts) },
      ...(isUsable && { checker }),
      disk,
    })),
  ]
}
