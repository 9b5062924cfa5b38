/**
 * Owns who asks while servers are killed: fresh keys and addresses of every kind of limit, what
 * was answered to them, and what the database says was counted.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { keySubject, TEMP_PREFIX } from '../../../../src/access/access.ts'
import { ACCESS_FILE, openRegistry } from '../../../../src/app.ts'
import { subnetOf } from '../../../../src/lib/ip.ts'
import { between, pick } from '../part.ts'

/** Addresses of the list, each in a /16 of its own. */
export const ADDRESSES = Array.from({ length: 60 }, (_, n) => `11.${n}.0.1:8080`)

const HOUR = 3600
const NO_LIMITS = { burst: null, daily: null, subnets: null, clients: null, count: null }
const PLANS = {
  hourly: { ...NO_LIMITS, burst: { requests: 40, seconds: HOUR } },
  hourlyMany: { ...NO_LIMITS, burst: { requests: 400, seconds: HOUR } },
  daily: { ...NO_LIMITS, daily: 150 },
  networks: { ...NO_LIMITS, subnets: 7 },
} as const
export const NETWORKS_QUOTA = PLANS.networks.subnets

type PlanName = keyof typeof PLANS
/** The kinds of subject: how many of each there are at a time, and what each may do. */
const KINDS: readonly { kind: PlanName | 'temp' | 'demo'; subjects: number; limit: number }[] = [
  { kind: 'hourly', subjects: 3, limit: PLANS.hourly.burst.requests },
  { kind: 'hourlyMany', subjects: 3, limit: PLANS.hourlyMany.burst.requests },
  { kind: 'daily', subjects: 2, limit: PLANS.daily.daily },
  { kind: 'networks', subjects: 1, limit: Number.POSITIVE_INFINITY },
  { kind: 'temp', subjects: 2, limit: 2 },
  { kind: 'demo', subjects: 2, limit: 2 },
]

/** Somebody who asks, and what came of it. */
export type Subject = {
  kind: (typeof KINDS)[number]['kind']
  /** As in access.db. */
  name: string
  limit: number
  key: string
  address: string
  /** Answers that cost a request: 200, 404, and refusals of the networks' quota. */
  admitted: number
  refused: number
  /** Requests that were sent, and whose answer did not come. */
  unknown: number
  /** /16 networks in answers that came, and in answers that did not. */
  networks: Set<number>
  unknownNetworks: Set<number>
}

/** A request of a subject: its target, its header lines, and the network its answer shows. */
export type Request = { target: string; fields: string; network: number | null }

/** Puts the plans into `data`. */
export function addPlans(data: string): void {
  const registry = openRegistry(data)
  for (const [name, plan] of Object.entries(PLANS)) registry.plans.set({ name, ...plan })
  registry.close()
}

/** Subjects nobody has seen before; `round` tells those of one data directory apart. */
export function addSubjects(data: string, round: number): Subject[] {
  const registry = openRegistry(data)
  const nowMs = Date.now()
  const subjects: Subject[] = []
  const add = (kind: Subject['kind'], limit: number): void => {
    const n = subjects.length
    const address = `10.${round >> 8}.${round & 255}.${n}`
    const prefix = kind === 'temp' ? TEMP_PREFIX : 'pl_'
    const key = kind === 'demo' ? 'demo' : `${prefix}${round}-${n}-${'k'.repeat(24)}`
    const plan = kind === 'temp' || kind === 'demo' ? null : kind
    const name =
      kind === 'demo'
        ? `demo:${address}`
        : keySubject(registry.keys.add({ key, label: '', plan, expiresAt: null }, nowMs).id)
    const none = { admitted: 0, refused: 0, unknown: 0 }
    const networks = { networks: new Set<number>(), unknownNetworks: new Set<number>() }
    subjects.push({ kind, name, limit, key, address, ...none, ...networks })
  }
  registry.usage.transaction(() => {
    for (const { kind, subjects: many, limit } of KINDS) {
      for (let n = 0; n < many; n += 1) add(kind, limit)
    }
  })
  registry.close()
  return subjects
}

/** The next request of a subject; one in a few finds nothing, and is counted all the same. */
export function requestOf({ kind, key, address }: Subject, random: () => number): Request {
  const fields = `X-Forwarded-For: ${address}\r\n`
  const ask = `/api?key=${key}&time=86400`
  if (kind === 'networks') {
    const ip = pick(random, ADDRESSES)
    return { target: `${ask}&ip=${ip}`, fields, network: subnetOf(ip) }
  }
  const filter = between(random, 1, 5) === 1 ? 'country=zz' : 'count=5'
  return { target: `${ask}&${filter}`, fields, network: null }
}

/** Notes what was answered; `null`: nothing. Gives what no server should have answered. */
export function note(subject: Subject, { network }: Request, status: number | null) {
  if (status === null) {
    subject.unknown += 1
    if (network !== null) subject.unknownNetworks.add(network)
  } else if (status === 429 && subject.kind !== 'networks') subject.refused += 1
  else if (status === 200 || status === 404 || status === 429) {
    subject.admitted += 1
    if (network !== null && status === 200) subject.networks.add(network)
  } else return `status ${status} for a key of kind ${subject.kind}`
  return null
}

/** What access.db holds of a subject. `rows`: admissions in the log. */
export type Counted = { requests: number; rows: number; networks: Set<number> }

/** Reads what was counted of every subject, and what SQLite finds wrong with the file. */
export function readCounted(data: string, subjects: readonly Subject[]) {
  const db = new Database(join(data, ACCESS_FILE), { readwrite: true })
  try {
    const counted = db.prepare<{ requests: number; rows: number; last: number }, [string]>(
      `select requests, count(*) as rows, max(id) as last from admissions where subject = ?`,
    )
    const networks = db.prepare<{ network: string }, [string]>(
      'select network from networks where subject = ?',
    )
    const all = new Map<Subject, Counted>()
    for (const subject of subjects) {
      const { requests, rows } = counted.get(subject.name) ?? { requests: 0, rows: 0 }
      const shown = networks.all(`${subject.name}:served`).map(({ network }) => Number(network))
      all.set(subject, { requests: requests ?? 0, rows, networks: new Set(shown) })
    }
    const faults = db
      .prepare<{ integrity_check: string }, []>('pragma integrity_check')
      .all()
      .map(row => row.integrity_check)
      .filter(text => text !== 'ok')
    return { counted: all, faults }
  } finally {
    db.close()
  }
}
