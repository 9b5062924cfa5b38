/**
 * Owns what `doctor` says of a shared database: a finding from each fact that is read of it. What is
 * allowed but unwise is a note. No finding holds a password or a key.
 */

import type { Clock } from '../lib/clock.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { type Examination, openExamination } from '../postgres/examine.ts'
import { ORIGINS } from '../sqlite/data-directory.ts'
import { PROXY_FILE } from '../sqlite/stores.ts'
import { AHEAD_OF_LIST_MS, AHEAD_OF_USAGE_MS, describeAhead } from './doctor-clock.ts'
import {
  counted,
  type Finding,
  finding,
  findingOf,
  freshness,
  note,
  RECENT_MS,
  type Result,
  right,
  several,
  wrong,
} from './doctor-findings.ts'

/** What a call of the examination resolves to. */
type Facts<K extends keyof Examination> = Examination[K] extends (...args: never[]) => infer R
  ? Awaited<R>
  : never

/**
 * Connections that one node has at most: ten that it keeps, and four while it fetches a feed and copies
 * a large list. A rolling restart has two of a machine.
 */
const CONNECTIONS_OF_A_NODE = 14
/** Machines that ask NTP are closer than this. */
const DISTANCE_NOTED_MS = SECOND_MS
/** From here on, `time` of a query is wrong by a tenth of its default. */
const DISTANCE_WRONG_MS = MINUTE_MS

export function judgeVersions({ server, schema, newestSchema }: Facts<'versions'>): Result {
  if (!server.isUsable) return wrong(`PostgreSQL ${server.text} is too old; 14 or newer is needed`)
  if (schema === null) {
    return wrong(
      'it has no schema yet; proxylist move, import or keys add makes it, as a role that may',
    )
  }
  if (schema === 'hidden') return wrong('this role may not read its schema')
  const found = `PostgreSQL ${server.text}, schema ${schema}`
  if (schema > newestSchema) return wrong(`${found}: of a newer proxylist; use that version`)
  if (schema === newestSchema) return right(found)
  return wrong(
    `${found}: of an earlier proxylist; serve, or a command that changes something, upgrades it`,
  )
}

export function judgeEncryption(isEncrypted: Facts<'encryption'>, url: string): Result {
  if (isEncrypted === null) return right('the connection does not leave this machine')
  const how = 'use sslmode=verify-full with sslrootcert in the URL'
  if (!isEncrypted) return note(`the connection is not encrypted; ${how}`)
  const mode = /[?&]sslmode=([a-z-]+)/.exec(url)?.[1]
  if (mode === 'verify-full')
    return right('the connection is encrypted, and the server is who it says')
  return note(`the connection is encrypted, but nothing verifies who the server is; ${how}`)
}

const DURABLE: readonly string[] = ['on', 'remote_apply']

export function judgeDurability(facts: Facts<'durability'>): Result {
  const { session, defaults, fsync, pages, is_read_only } = facts
  const weak = defaults !== '' && !DURABLE.some(value => defaults.endsWith(`=${value}`))
  return finding(
    [
      ...(is_read_only ? ['it is read-only: a standby, or it was set so'] : []),
      ...(fsync === 'on' ? [] : ['fsync is off: a crash of the server destroys the database']),
      ...(pages === 'on' ? [] : ['full_page_writes is off: a crash of the server may damage it']),
      ...(DURABLE.includes(session)
        ? []
        : [`synchronous_commit is ${session} although nodes set it: is a pooler in between?`]),
    ],
    'commits are on disk before an answer leaves',
    weak ? [`${defaults} is set for this role or database; nodes set synchronous_commit = on`] : [],
  )
}

export function judgeStandbys({ names, connected, synchronous }: Facts<'standbys'>): Result {
  const standbys = several(connected, 'standby')
  if (names === '' && connected === 0) {
    return note('there is no standby: the service ends with this server')
  }
  if (names === '') {
    return note(
      `${standbys} connected, none synchronous: a failover loses the admissions that were ` +
        'answered last; set synchronous_standby_names',
    )
  }
  if (connected === 0 || synchronous === 0) {
    return wrong(
      `synchronous_standby_names is '${names}' and no such standby is connected: every commit ` +
        'waits, and requests get 503',
    )
  }
  const seen = synchronous === null ? 'pg_monitor may see which' : `${synchronous} synchronous`
  return right(`a commit waits for '${names}': ${standbys} connected, ${seen}`)
}

export const judgeSession = (keepsSession: boolean): Result =>
  keepsSession
    ? right('each connection keeps its session')
    : wrong(
        'a pooler in transaction mode is in between: LISTEN and settings are lost; connect to the server itself, or pool sessions',
      )

export function judgeRights({ role, missing, more }: Facts<'rights'>): Result {
  const named = missing.slice(0, 3).join(', ')
  const rest = missing.length > 3 ? ` and ${missing.length - 3} more` : ''
  return finding(
    missing.length === 0 ? [] : [`the role ${role} lacks ${named}${rest}`],
    `the role ${role} may do what a node does, and no more`,
    more.length === 0 ? [] : [`the role ${role} ${more.join(' and ')}; a node needs less`],
  )
}

export function judgeConnections({ most, used }: Facts<'connections'>): Result {
  const found = `${counted(used)} of ${counted(most)} connections are used; a node takes up to ${CONNECTIONS_OF_A_NODE}`
  if (most - used < CONNECTIONS_OF_A_NODE) return wrong(`${found}: there is no room for one more`)
  return most - used < 2 * CONNECTIONS_OF_A_NODE
    ? note(`${found}: there is room for one more`)
    : right(found)
}

export function judgeClock(distanceMs: number, ahead: readonly string[]): Result {
  const seconds = Math.abs(distanceMs) / SECOND_MS
  const order = distanceMs > 0 ? 'ahead of' : 'behind'
  const apart =
    seconds < 0.1
      ? 'the clocks of this machine and of the database agree'
      : `this machine’s clock is ${seconds.toFixed(1)} s ${order} the database’s`
  const remedy = `${apart}: set both by NTP`
  return finding(
    Math.abs(distanceMs) > DISTANCE_WRONG_MS ? [remedy, ...ahead] : ahead,
    `${apart}; no request and no check lies in the future`,
    Math.abs(distanceMs) > DISTANCE_NOTED_MS ? [remedy] : [],
  )
}

/** A node that has said nothing for so long has ended, or answers 503 (contract I3). */
const SILENT_SECONDS_MAX = 5
/** Copying a large import takes longer, and one of a million rows not a minute. */
const LAG_SECONDS_NOTED = 5
const LAG_SECONDS_WRONG = 60

export function judgeNodes(nodes: Facts<'nodes'>): Result {
  if (nodes.length === 0) return note('no node has served from this database in the last day')
  const newest = Math.max(...nodes.map(({ version }) => version))
  const problems: string[] = []
  const notes: string[] = []
  for (const { node, address, version, lagSeconds, silentSeconds } of nodes) {
    const name = `${node} (${address})`
    if (silentSeconds > SILENT_SECONDS_MAX) {
      const ago = `${counted(Math.round(silentSeconds))} s ago`
      notes.push(`${name} was last seen ${ago}: it was killed, or answers 503`)
    } else if (lagSeconds > LAG_SECONDS_NOTED) {
      // A node says so after it has followed the keys, so these are new: it does answer.
      const lag = `${name} lags by ${counted(Math.round(lagSeconds))} s`
      if (lagSeconds > LAG_SECONDS_WRONG) problems.push(`${lag}: its stderr says why`)
      else notes.push(`${lag}: it is copying the list`)
    } else if (version < newest) {
      notes.push(`${name} has version ${version} of the list, the newest is ${newest}`)
    }
  }
  const found = `${several(nodes.length, 'node')} with version ${newest} of the list`
  return finding(problems.length > 0 ? [...problems, ...notes] : [], found, notes)
}

type Check = (examination: Examination, url: string, clock: Clock) => Awaitable<Result>

/** What is examined of any database, in the order in which it is shown. */
const SERVER_CHECKS: { readonly [check: string]: Check } = {
  encryption: async (it, url) => judgeEncryption(await it.encryption(), url),
  durability: async it => judgeDurability(await it.durability()),
  standbys: async it => judgeStandbys(await it.standbys()),
  sessions: async it => judgeSession(await it.keepsSession()),
  connections: async it => judgeConnections(await it.connections()),
}

const RIGHTS: { readonly [check: string]: Check } = {
  rights: async it => judgeRights(await it.rights()),
}

/** What is examined besides of one that has a schema. */
const SCHEMA_CHECKS: { readonly [check: string]: Check } = {
  ...RIGHTS,
  async freshness(it, _, clock) {
    const nowMs = clock()
    const tally = await it.tally(nowMs - RECENT_MS, nowMs + AHEAD_OF_LIST_MS)
    return freshness(tally, nowMs, ORIGINS[PROXY_FILE])
  },
  async clock(it, _, clock) {
    const nowMs = clock()
    const { ahead } = await it.tally(nowMs, nowMs + AHEAD_OF_LIST_MS)
    const subjects = await it.subjectsAhead(AHEAD_OF_USAGE_MS)
    return judgeClock(await it.distanceMs(), describeAhead(subjects, ahead))
  },
  nodes: async it => judgeNodes(await it.nodes()),
}

/** A database and the longest that is waited for it. */
export type SharedDatabase = { url: string; timeoutMs: number }

/** Examines a shared database; one that cannot be used at all is one finding. */
export async function examineDatabase(
  { url, timeoutMs }: SharedDatabase,
  clock: Clock,
  signal: AbortSignal,
): Promise<Finding[]> {
  const examination = openExamination(url, timeoutMs, clock)
  try {
    let others: typeof SCHEMA_CHECKS = {}
    const first = await findingOf(
      'database',
      async () => {
        const versions = await examination.versions()
        if (versions.server.isUsable) others = SERVER_CHECKS
        if (versions.schema === 'hidden') others = { ...others, ...RIGHTS }
        return judgeVersions(versions)
      },
      signal,
    )
    const findings = [first]
    const checks = first.ok ? { ...SERVER_CHECKS, ...SCHEMA_CHECKS } : others
    for (const [check, work] of Object.entries(checks)) {
      findings.push(await findingOf(check, () => work(examination, url, clock), signal))
    }
    return findings
  } finally {
    await examination.close()
  }
}
