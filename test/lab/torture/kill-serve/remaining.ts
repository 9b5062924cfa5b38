/**
 * Checking what remains of a subject's limits after a server was killed: every answer is
 * counted, nothing else is, and exactly the remaining requests are admitted.
 */
import { type Client, openClient } from '../support/client.ts'
import type { Restartable } from './restart.ts'
import {
  type Counted,
  NETWORKS_QUOTA,
  note,
  type Request,
  requestOf,
  type Subject,
} from './subjects.ts'

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

const remainingIn = (head: string): number =>
  Number(/\r\nratelimit: .*?;r=(\d+)/i.exec(head)?.[1] ?? Number.NaN)

type Ask = (client: Client, subject: Subject) => Promise<{ status: number; head: string }>

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
  const { status, head } = await ask(first, subject)
  const wrong: string[] = []
  const isAdmitted = subject.admitted > admittedBefore
  if (isAdmitted !== remaining > 0)
    wrong.push(`${subject.kind}: ${status} with ${remaining} remaining`)
  const shown = remainingIn(head)
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
