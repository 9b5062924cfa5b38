/**
 * The subjects that ask while servers are killed: new keys and addresses of every kind of
 * limit, what they were answered, and what the database counted for them.
 */
import { Database } from 'bun:sqlite'
import { keySubject } from '../../../../src/access/entitlements.ts'
import { type Subject as CountedSubject, UNUSED } from '../../../../src/access/rate-limit.ts'
import { createUsageStore } from '../../../../src/sqlite/access/usage.ts'
import { addKeys } from '../../../support/fixtures.ts'
import { between, pick } from '../../../support/random.ts'
import { files } from '../../support/serve.ts'
import { type Client, openClient, type Reply } from '../support/client.ts'
import { integrityFaults } from '../support/list-state.ts'
import type { Restartable } from './restart.ts'

/** Addresses of the list, each in a /16 of its own. */
export const ADDRESSES = Array.from({ length: 60 }, (_, n) => `11.${n}.0.1:8080`)

const HOUR = 3600
const PLANS = {
  hourly: { burst: { requests: 40, seconds: HOUR } },
  hourlyMany: { burst: { requests: 400, seconds: HOUR } },
  daily: { daily: 150 },
  networks: { subnets: 7 },
} as const
const NETWORKS_QUOTA = PLANS.networks.subnets

type PlanName = keyof typeof PLANS
/** The kinds of subject: how many of each there are at a time, and their limit. */
const KINDS: readonly { kind: PlanName | 'temp' | 'demo'; subjects: number; limit: number }[] = [
  { kind: 'hourly', subjects: 3, limit: PLANS.hourly.burst.requests },
  { kind: 'hourlyMany', subjects: 3, limit: PLANS.hourlyMany.burst.requests },
  { kind: 'daily', subjects: 2, limit: PLANS.daily.daily },
  { kind: 'networks', subjects: 1, limit: Number.POSITIVE_INFINITY },
  { kind: 'temp', subjects: 2, limit: 2 },
  { kind: 'demo', subjects: 2, limit: 2 },
]

/** A key or an address, and what it was answered. */
export type Subject = {
  kind: (typeof KINDS)[number]['kind']
  /** As in access.db. */
  counted: CountedSubject
  limit: number
  key: string
  address: string
  /** Answers that consume a request: 200, 404, and refusals for the quota of networks. */
  admitted: number
  refused: number
  /** Requests whose answer did not arrive. */
  unknown: number
  /** /16 networks in answers that arrived, and in answers that did not. */
  networks: Set<number>
  unknownNetworks: Set<number>
}

/** A request of a subject: its target, its header lines, and the network its answer shows. */
export type Request = { target: string; fields: string; network: number | null }

/** Adds the plans to `data`. */
export const addPlans = (data: string): string[] => addKeys(data, PLANS, [])

/** Adds new subjects; those of one data directory differ by `round`. */
export function addSubjects(data: string, round: number): Subject[] {
  const subjects = KINDS.flatMap(({ kind, subjects: count, limit }) =>
    Array.from({ length: count }, () => ({ kind, limit })),
  ).map(({ kind, limit }, n): Subject => {
    const address = `10.${round >> 8}.${round & 255}.${n}`
    const prefix = kind === 'temp' ? 'temp' : 'pl'
    const key = kind === 'demo' ? 'demo' : `${prefix}_${round}-${n}-${'k'.repeat(24)}`
    const none = { admitted: 0, refused: 0, unknown: 0 }
    const networks = { networks: new Set<number>(), unknownNetworks: new Set<number>() }
    return {
      kind,
      counted: { kind: 'demo', id: address },
      limit,
      key,
      address,
      ...none,
      ...networks,
    }
  })
  const withKeys = subjects.filter(({ kind }) => kind !== 'demo')
  const keys = withKeys.map(({ key, kind }) => ({ key, plan: kind === 'temp' ? null : kind }))
  for (const [n, id] of addKeys(data, {}, keys).entries()) {
    const subject = withKeys[n]
    if (subject) subject.counted = keySubject(id)
  }
  return subjects
}

/** The /16 network of an address, as access.db numbers it. */
function networkOf(ip: string): number {
  const [high = 0, low = 0] = ip.split('.').map(Number)
  return high * 256 + low
}

/** The next request of a subject; one in five finds nothing and is counted too. */
export function requestOf({ kind, key, address }: Subject, random: () => number): Request {
  const fields = `X-Forwarded-For: ${address}\r\n`
  const ask = `/api?key=${key}&time=86400`
  if (kind === 'networks') {
    const ip = pick(random, ADDRESSES)
    return { target: `${ask}&ip=${ip}`, fields, network: networkOf(ip) }
  }
  const filter = between(random, 1, 5) === 1 ? 'country=zz' : 'count=5'
  return { target: `${ask}&${filter}`, fields, network: null }
}

/** Notes an answer; `null` is none. Gives what no server should have answered, else `null`. */
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

/** What access.db holds of a subject: its requests of the day, and how many admissions it keeps. */
export type Counted = { requests: number; kept: number; networks: Set<number> }

/** What was counted for every subject, and what SQLite finds wrong with the file. */
export function readCounted(data: string, subjects: readonly Subject[]) {
  const db = new Database(files(data).access, { readwrite: true })
  try {
    const usage = createUsageStore(db).usagesOf(subjects.map(({ counted }) => counted))
    const networks = db.prepare<{ network: string }, [string, string]>(
      `select network from networks
       where subject_kind = ? and subject_id = ? and network_set = 'served'`,
    )
    const all = new Map<Subject, Counted>()
    for (const [i, subject] of subjects.entries()) {
      const { requests, admissions } = usage[i] ?? UNUSED
      const { kind, id } = subject.counted
      const shown = networks.all(kind, id).map(({ network }) => Number(network))
      all.set(subject, { requests, kept: admissions.length, networks: new Set(shown) })
    }
    return { counted: all, faults: integrityFaults(db) }
  } finally {
    db.close()
  }
}

/** Connections over which the remaining requests are sent, at the same time. */
const CLIENTS = 6
/** Requests for networks until the quota must be full. */
const NETWORK_REQUESTS = 400
/** Kinds whose windows keep an hour of admissions: each admission of a run is kept. */
const HOURLY: readonly Subject['kind'][] = ['hourly', 'hourlyMany', 'temp']

/** The difference between what was answered and what was counted. */
type Balance = { admitted: number; lost: number; wrong: string[] }

/** Compares answers with the database; no request may be under way. */
export function balanceOf(subject: Subject, counted: Counted): Balance {
  const { kind, admitted, unknown, limit, refused } = subject
  const { requests, kept } = counted
  const wrong: string[] = []
  const say = (text: string): void => void wrong.push(`${kind}: ${text}`)
  const lostNetworks = subject.networks.difference(counted.networks).size
  const lost = Math.max(0, admitted - requests) + lostNetworks
  if (requests > admitted + unknown) say(`${requests} counted, ${admitted}+${unknown} asked`)
  if (requests > limit) say(`${requests} admitted of ${limit}`)
  if (refused > 0 && requests < limit) say(`refused at ${requests} of ${limit}`)
  if (HOURLY.includes(kind) && kept !== requests) say(`${kept} kept of ${requests} requests`)
  const known = subject.networks.union(subject.unknownNetworks)
  if (!counted.networks.isSubsetOf(known)) say('a network is counted that no answer can have shown')
  if (counted.networks.size > NETWORKS_QUOTA) say('more networks than the quota')
  return { admitted: admitted + subject.networks.size, lost, wrong }
}

const remainingIn = ({ headers }: Reply): number =>
  Number(/;r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1] ?? Number.NaN)

type Ask = (client: Client, subject: Subject) => Promise<Reply>

/** Asks and notes the answer; here every server must answer. */
function askNoting(random: () => number, wrong: string[]): Ask {
  return async (client, subject) => {
    const request: Request = requestOf(subject, random)
    const reply = await client.ask(request.target, request.fields)
    const unexpected = note(subject, request, reply.status)
    if (unexpected !== null) wrong.push(unexpected)
    return reply
  }
}

/** Asks over all connections at once until each is refused; gives how many were admitted. */
async function drain(clients: readonly Client[], subject: Subject, ask: Ask): Promise<number> {
  const admittedBefore = subject.admitted
  const most = subject.limit + 1
  await Promise.all(
    clients.map(async client => {
      for (let n = 0; n < most; n += 1) if ((await ask(client, subject)).status === 429) return
    }),
  )
  return subject.admitted - admittedBefore
}

/** Consumes what remains of a subject's limit; gives where it is not exactly what was counted. */
async function takeRemaining(
  clients: readonly Client[],
  subject: Subject,
  counted: Counted,
  ask: Ask,
) {
  const [first] = clients
  if (!first) throw new Error('no connection')
  const remaining = subject.limit - counted.requests
  const admittedBefore = subject.admitted
  const reply = await ask(first, subject)
  const wrong: string[] = []
  const isAdmitted = subject.admitted > admittedBefore
  if (isAdmitted !== remaining > 0)
    wrong.push(`${subject.kind}: ${reply.status} with ${remaining} remaining`)
  const shown = remainingIn(reply)
  const expected = Math.max(0, remaining - 1)
  if (shown !== expected) wrong.push(`${subject.kind}: r=${shown}, ${expected} remain`)
  const more = await drain(clients, subject, ask)
  if (more !== expected) wrong.push(`${subject.kind}: ${more} more admitted, ${expected} remained`)
  return wrong
}

/** Asks for networks until the quota is full; it must be full at exactly its limit. */
async function takeNetworks(
  [client]: readonly Client[],
  subject: Subject,
  counted: Counted,
  ask: Ask,
) {
  if (!client) throw new Error('no connection')
  for (let n = 0; n < NETWORK_REQUESTS; n += 1) await ask(client, subject)
  const { size } = subject.networks.union(counted.networks)
  return size === NETWORKS_QUOTA ? [] : [`networks: ${size} of ${NETWORKS_QUOTA} shown`]
}

/** Consumes what remains of every subject; gives what is not as it was counted. */
export async function takeAllRemaining(
  servers: readonly Restartable[],
  subjects: readonly Subject[],
  countedOf: ReadonlyMap<Subject, Counted>,
  random: () => number,
): Promise<string[]> {
  const wrong: string[] = []
  const ask = askNoting(random, wrong)
  const clients: Client[] = []
  while (clients.length < CLIENTS) {
    for (const { where } of servers) clients.push(await openClient(where))
  }
  for (const subject of subjects) {
    const counted = countedOf.get(subject)
    if (!counted) throw new Error('no count of a subject')
    const take = subject.kind === 'networks' ? takeNetworks : takeRemaining
    wrong.push(...(await take(clients, subject, counted, ask)))
  }
  for (const client of clients) client.close()
  return wrong
}
