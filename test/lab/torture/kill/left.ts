/**
 * Owns judging what is left of a subject's limits after a server was killed: nothing answered is
 * forgotten, nothing is counted that nobody asked, and exactly the rest is admitted.
 */
import { type Asker, openAsker } from './asker.ts'
import type { Serving } from './serving.ts'
import {
  type Counted,
  NETWORKS_QUOTA,
  note,
  type Request,
  requestOf,
  type Subject,
} from './subjects.ts'

/** Connections over which what is left is asked for, at the same time. */
const ASKERS = 6
/** Requests for new networks until the quota must be full. */
const NETWORK_REQUESTS = 400
/** Windows that keep an hour of the log, so that each admission of a run is a row. */
const HOURLY: readonly Subject['kind'][] = ['hourly', 'hourlyMany', 'temp']

/** What is wrong between what was answered and what was counted. */
export type Balance = { admitted: number; lost: number; wrong: string[] }

/** Compares answers with the database, when no request is on its way. */
export function balanceOf(subject: Subject, counted: Counted): Balance {
  const { kind, admitted, unknown, limit, refused } = subject
  const { requests, rows } = counted
  const wrong: string[] = []
  const say = (text: string): void => void wrong.push(`${kind}: ${text}`)
  const lostNetworks = subject.networks.difference(counted.networks).size
  const lost = Math.max(0, admitted - requests) + lostNetworks
  if (requests > admitted + unknown) say(`${requests} counted, ${admitted}+${unknown} asked`)
  if (requests > limit) say(`${requests} admitted of ${limit}`)
  if (refused > 0 && requests < limit) say(`refused at ${requests} of ${limit}`)
  if (HOURLY.includes(kind) && rows !== requests) say(`${rows} rows for ${requests} requests`)
  const known = subject.networks.union(subject.unknownNetworks)
  if (!counted.networks.isSubsetOf(known)) say('a network nobody was shown is counted')
  if (counted.networks.size > NETWORKS_QUOTA) say('more networks than the quota')
  return { admitted: admitted + subject.networks.size, lost, wrong }
}

const remainingIn = (head: string): number =>
  Number(/\r\nratelimit: .*?;r=(\d+)/i.exec(head)?.[1] ?? Number.NaN)

type Ask = (asker: Asker, subject: Subject) => Promise<{ status: number; head: string }>

/** Asks once more; every server must answer. */
function askNoting(random: () => number, wrong: string[]): Ask {
  return async (asker, subject) => {
    const request: Request = requestOf(subject, random)
    const reply = await asker.ask(request.target, request.fields)
    const odd = note(subject, request, reply.status)
    if (odd !== null) wrong.push(odd)
    return reply
  }
}

/** Asks all servers at once until each refuses; gives how many requests were admitted. */
async function drain(askers: readonly Asker[], subject: Subject, ask: Ask): Promise<number> {
  const admittedBefore = subject.admitted
  const most = subject.limit + 1
  await Promise.all(
    askers.map(async asker => {
      for (let n = 0; n < most; n += 1) if ((await ask(asker, subject)).status === 429) return
    }),
  )
  return subject.admitted - admittedBefore
}

/** Asks for what is left of one subject's limit; says where that is not exactly what comes. */
async function takeRest(askers: readonly Asker[], subject: Subject, counted: Counted, ask: Ask) {
  const [first] = askers
  if (!first) throw new Error('nobody to ask')
  const left = subject.limit - counted.requests
  const admittedBefore = subject.admitted
  const { status, head } = await ask(first, subject)
  const wrong: string[] = []
  const isAdmitted = subject.admitted > admittedBefore
  if (isAdmitted !== left > 0) wrong.push(`${subject.kind}: ${status} with ${left} left`)
  const remaining = remainingIn(head)
  const expected = Math.max(0, left - 1)
  if (remaining !== expected) wrong.push(`${subject.kind}: r=${remaining}, ${expected} is left`)
  const more = await drain(askers, subject, ask)
  if (more !== expected) wrong.push(`${subject.kind}: ${more} more admitted, ${expected} left`)
  return wrong
}

/** Asks for networks until the quota is full; it must end exactly there. */
async function takeNetworks(
  [asker]: readonly Asker[],
  subject: Subject,
  counted: Counted,
  ask: Ask,
) {
  if (!asker) throw new Error('nobody to ask')
  for (let n = 0; n < NETWORK_REQUESTS; n += 1) await ask(asker, subject)
  const { size } = subject.networks.union(counted.networks)
  return size === NETWORKS_QUOTA ? [] : [`networks: ${size} of ${NETWORKS_QUOTA} shown`]
}

/** Takes all that is left of every subject; says what is not as it was counted. */
export async function takeAllRests(
  servings: readonly Serving[],
  subjects: readonly Subject[],
  countedOf: ReadonlyMap<Subject, Counted>,
  random: () => number,
): Promise<string[]> {
  const wrong: string[] = []
  const ask = askNoting(random, wrong)
  const askers: Asker[] = []
  while (askers.length < ASKERS) {
    for (const { where } of servings) askers.push(await openAsker(where))
  }
  for (const subject of subjects) {
    const counted = countedOf.get(subject)
    if (!counted) throw new Error('a subject was not looked up')
    const take = subject.kind === 'networks' ? takeNetworks : takeRest
    wrong.push(...(await take(askers, subject, counted, ask)))
  }
  for (const asker of askers) asker.close()
  return wrong
}
