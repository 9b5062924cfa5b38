/** The checks of `doctor`, in the order of the report. */
import type { Environment } from './config/environment.ts'
import { environmentProblems, readSettings, type Settings } from './config/settings.ts'
import { COMMIT, COMMITTED_MS, VERSION } from './config/version.ts'
import { feedProblems } from './feeds/feeds-file.ts'
import { describeStale } from './feeds/store.ts'
import { openGeoip } from './import/geoip.ts'
import type { Clock } from './lib/clock.ts'
import { type Checks, examineAll, type Finding, finding, problemOf } from './lib/findings.ts'
import { several } from './lib/plural.ts'
import { findRunning } from './lib/take-over.ts'
import { DAY_MS } from './lib/time.ts'
import { checkChecker } from './metrics/attention.ts'
import { examineDatabase } from './postgres/doctor.ts'
import { requireOwnData } from './sqlite/copy.ts'
import { COPY_CHECKS, DIRECTORY_CHECKS, type Directory } from './sqlite/doctor.ts'
import { storesOf } from './stores.ts'

export const EXAMINED = ['data', 'database', 'databaseTimeout', 'feed', 'feeds', 'geoip'] as const

/** Examines an installation and changes nothing. `signal` ends it between two checks. */
export async function examine(
  settings: Settings<(typeof EXAMINED)[number]>,
  env: Environment,
  clock: Clock,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { data: dir, database: url, databaseTimeout: timeoutMs, geoip } = settings
  const stores = storesOf(settings, clock)

  /** This program, its age, and servers that run another version. */
  async function program() {
    const days = COMMITTED_MS === null ? 0 : Math.floor((clock() - COMMITTED_MS) / DAY_MS)
    const old = days < 1 ? '' : `, ${several(days, 'day')} old`
    const others = (await findRunning(dir)).filter(({ commit }) => commit !== COMMIT)
    const notes = others.map(
      ({ pid, version, commit }) =>
        `the server of process ${pid} still runs proxylist ${version} (commit ${commit}); restart it`,
    )
    return finding([], `proxylist ${VERSION}${old}`, notes)
  }

  async function configuration() {
    const copies = url === undefined ? await problemOf(() => requireOwnData(dir)) : []
    const problems = [...environmentProblems(env), ...copies]
    return finding(problems, 'every PROXYLIST_ variable is right')
  }

  /** The feeds and databases of places that the settings name, and the last attempts at feeds. */
  async function feeds() {
    const more = readSettings(['feedEvery', 'providerService'], {}, env)
    const places = await Promise.all(geoip.map(file => problemOf(() => openGeoip([file]))))
    const states = await stores.listFeeds()
    const problems = await feedProblems({ ...settings, ...more }, states)
    const fine = 'feeds and databases of places are in order'
    return finding([...places.flat(), ...problems], fine, describeStale(states, clock()))
  }

  const checker = async () => checkChecker(await stores.checkerStatus(), clock())

  const run = (checks: Checks<Directory>) => examineAll(checks, { dir, clock }, signal)
  if (url === undefined) {
    return await run({ program, configuration, ...DIRECTORY_CHECKS, feeds, checker })
  }
  const first = await run({ program, configuration })
  const shared = await examineDatabase({ url, timeoutMs }, clock, signal)
  const isUsable = shared[0]?.ok === true
  return [
    ...first,
    ...shared,
    ...(await run({ ...COPY_CHECKS, ...(isUsable && { feeds, checker }) })),
  ]
}
