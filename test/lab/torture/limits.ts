/**
 * Requests to limits, and their judge. The clock of limits stands still during a round of requests, so the requests of
 * one key in a round have the same answers in any order, and the oracle decides each of them again. A request without
 * an answer may have been counted or not: GET /key says how many were.
 */
import { type Caller, createLimiterOracle, rateLimitOf } from '../../access/limiter-oracle.ts'
import { addKeys, type Limits, UNLIMITED } from '../../support/fixtures.ts'
import type { Where } from '../../support/launch.ts'
import { between, pick, shuffled } from '../../support/random.ts'
import { type Client, type HttpAnswer, nullIfDisconnected, openClient } from '../support/client.ts'
import { count } from '../support/table.ts'
import { type Finding, summaryOf } from './part.ts'

type Random = () => number
type Kind = { name: string; caller: Caller['kind']; limits: Limits }

const burst = (requests: number, seconds: number) => ({ burst: { requests, seconds } })
const regular = (name: string, limits: Partial<Limits>): Kind => ({
  ...{ name, caller: 'regular', limits: { ...UNLIMITED, ...limits } },
})

/** Every kind of limit of contract B2 to B6. */
const KINDS: readonly Kind[] = [
  regular('one', burst(1, 1)),
  regular('five', burst(5, 5)),
  regular('many', burst(40, 2)),
  regular('wide', burst(300, 60)),
  regular('daily', { daily: 12 }),
  regular('both', { ...burst(20, 1), daily: 30 }),
  regular('subnets', { subnets: 6 }),
  regular('clients', { clients: 3 }),
  regular('all', { ...burst(9, 60), daily: 40, subnets: 8, clients: 4 }),
  { name: 'demo', caller: 'demo', limits: UNLIMITED },
  { name: 'temp', caller: 'temp', limits: UNLIMITED },
]
/** Keys of each kind, or addresses. */
const SUBJECTS = 24

const keyOf = ({ name, caller }: Kind, n: number): string => {
  if (caller === 'demo') return 'demo'
  return `${caller === 'temp' ? 'temp' : 'pl'}_${name}_${String(n).padStart(20, '0')}`
}
const WITH_KEYS = KINDS.filter(({ caller }) => caller !== 'demo')

/** The plans and keys of a run; a key without a plan is temporary. */
export const CUSTOMERS = {
  plans: Object.fromEntries(
    KINDS.flatMap(({ name, caller, limits }) => (caller === 'regular' ? [[name, limits]] : [])),
  ),
  keys: WITH_KEYS.flatMap(kind =>
    Array.from({ length: SUBJECTS }, (_, n) => ({
      ...{ key: keyOf(kind, n), plan: kind.caller === 'temp' ? null : kind.name },
    })),
  ),
}

/** Adds them to a data directory; gives the ids of the keys. */
export const addCustomers = (data: string): string[] =>
  addKeys(data, CUSTOMERS.plans, CUSTOMERS.keys)

/** The list: the port of a query determines the /16 networks of its answer. */
const PORTS = Array.from({ length: 20 }, (_, n) => 2000 + n)
const NETWORKS = 14
const addressesAt = (port: number): string[] =>
  Array.from(
    { length: 1 + (port % 3) },
    (_, n) => `20.${(port * 3 + n * 5) % NETWORKS}.0.1:${port}`,
  )
/** No proxy has this port. */
const EMPTY_PORT = 1999
const expectedAt = (port: number): string[] => (port === EMPTY_PORT ? [] : addressesAt(port).sort())
const networksAt = (port: number): number[] =>
  expectedAt(port).map(address => Number(address.split('.')[1]))

export const LIST = PORTS.flatMap(addressesAt)
  .map(address => `http://${address}\n`)
  .join('')

/** The `n`-th client address: IPv4 of a /16 of its own, or IPv6 of a /64 of its own. */
const addressOf = (n: number): string =>
  n % 3 === 1 ? `2001:db8:0:${n}::7` : `100.${64 + (n % 64)}.${n >> 6}.7`

/** How a client address is written in X-Forwarded-For. */
const spelled = (random: Random, address: string): string => {
  if (!address.includes(':')) return random() < 0.3 ? `::ffff:${address}` : address
  return address.replace(/::7$/, `:${between(random, 1, 9)}::${between(random, 1, 9)}`)
}

type Asked = { port: number; address: string; answer: HttpAnswer | null }
/** The requests of one key in a round; `address` is that of limits by address. */
type Group = { kind: Kind; key: string; caller: Caller; address: string; asked: Asked[] }

const isUnknown = ({ answer }: Asked): boolean => answer === null || answer.status === 503
const isOfNetworks = ({ answer }: Asked): boolean =>
  answer?.status === 429 && answer.body.includes('"SUBNET_LIMIT_REACHED"')
const isAdmitted = (asked: Asked): boolean =>
  [200, 404].includes(asked.answer?.status ?? 0) || isOfNetworks(asked)

/** How late a statement without a client may be committed. */
const LATE_MS = 400
const OF_NETWORKS = ['subnets', 'clients']

const CODES = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

const CONNECTIONS = 32

/** Connections to servers, which ask in turns; one that is lost is opened again. */
function createConnections(servers: () => readonly Where[], took: (ms: number) => void) {
  const lanes: (Client | null)[] = new Array(CONNECTIONS).fill(null)
  async function askOn(lane: number, request: string): Promise<HttpAnswer | null> {
    if (!lanes[lane]?.isOpen()) {
      const all = servers()
      const where = all[lane % all.length]
      lanes[lane] = where === undefined ? null : await openClient(where).catch(nullIfDisconnected)
    }
    const startMs = performance.now()
    const { answer = null } = (await lanes[lane]?.exchange(request)) ?? {}
    took(performance.now() - startMs)
    if (answer?.headers.get('connection') === 'close') lanes[lane]?.close()
    return answer
  }
  return {
    /** Sends requests over all connections; `take` gets the answer of each. */
    async send(requests: readonly { text: string; take: (answer: HttpAnswer | null) => void }[]) {
      const left = [...requests]
      const answers: (HttpAnswer | null)[] = []
      const work = async (lane: number): Promise<void> => {
        for (let next = left.pop(); next; next = left.pop()) {
          const answer = await askOn(lane, next.text)
          next.take(answer)
          answers.push(answer)
        }
      }
      await Promise.all(lanes.map((_, lane) => work(lane)))
      return answers
    },
    ask: (request: string) => askOn(0, request),
    close(): void {
      for (const client of lanes) client?.close()
      lanes.fill(null)
    },
  }
}

const head = (path: string, from: string, key: string | null): string =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${from}\r\n` +
  `${key === null ? '' : `Authorization: Bearer ${key}\r\n`}\r\n`

type Left = { name: string; left: number; reset: number }

export type LimitsOptions = {
  random: Random
  /** Ids of the keys, as `addCustomers` gives them. */
  ids: readonly string[]
  /** Where the servers listen at the moment. */
  servers: () => readonly Where[]
  /** Whether servers refuse by their own stopwatch, as nodes do: then `retry_after` may be as much less. */
  isShared?: boolean
}

export type LimitsRun = ReturnType<typeof createLimits>

/** Sends rounds of requests, and judges them. */
export function createLimits({ random, ids, servers, isShared = false }: LimitsOptions) {
  const oracle = createLimiterOracle()
  const wrong: string[] = []
  const seen = {
    answers: 0,
    admitted: 0,
    refused: 0,
    byNetworks: 0,
    unknown: 0,
    counted: 0,
    slowestMs: 0,
  }
  const connections = createConnections(servers, ms => {
    seen.slowestMs = Math.max(seen.slowestMs, ms)
  })
  /** The last group of each key or address. */
  const known = new Map<string, Group>()
  /** When each key was admitted last, by the clock of limits and by the stopwatch of this process. */
  const admittedAt = new Map<string, { nowMs: number; realMs: number }>()
  const note = (what: string, { key, address }: Group, asked?: Asked): void =>
    void wrong.push(
      `${key} from ${address}: ${what}${asked ? ` ${asked.answer?.status} ${asked.answer?.headers.get('ratelimit')} ${asked.answer?.body.slice(0, 300)}` : ''}`,
    )

  function callerOf(kind: Kind, n: number): Caller {
    const id = ids[WITH_KEYS.indexOf(kind) * SUBJECTS + n] ?? ''
    if (kind.caller === 'demo') return { kind: 'demo', id: 'demo' }
    return kind.caller === 'temp'
      ? { kind: 'temp', id }
      : { kind: 'regular', id, plan: kind.limits }
  }

  /** The limits of a group as a server shows them; `null` when none answers. */
  async function leftOf({ key, address }: Group): Promise<Left[] | null> {
    const answer = await connections.ask(head('/key', address, key))
    return answer?.status === 200 ? JSON.parse(answer.body).limits : null
  }

  /** Compares what is left of each limit. */
  async function audit(group: Group, nowMs: number): Promise<void> {
    const left = await leftOf(group)
    for (const status of oracle.limits(group.caller, group.address, nowMs)) {
      const its = left?.find(({ name }) => name === status.name)
      // A node shows the time to midnight by its own clock.
      const isTimed = !isShared || !OF_NETWORKS.includes(status.name)
      const isRight =
        its?.left === status.remaining && (!isTimed || its.reset === status.resetSeconds)
      if (!isRight) note(`/key says ${JSON.stringify(its)}, not ${JSON.stringify(status)}`, group)
    }
  }

  /** Of requests without an answer, any number may be counted; the limits hold all the same. */
  async function adopt(group: Group, nowMs: number): Promise<void> {
    const { caller, address, asked } = group
    const before = oracle.limits(caller, address, nowMs)
    const left = await leftOf(group)
    const leftNow = (name: string): number => left?.find(each => each.name === name)?.left ?? -1
    const answered = asked.filter(isAdmitted).length
    const first = before.find(({ name }) => !OF_NETWORKS.includes(name))
    const counted = first ? first.remaining - leftNow(first.name) : answered
    const unknown = asked.filter(isUnknown).length
    seen.counted += counted - answered
    if (counted < answered || counted > answered + unknown) {
      note(`${counted} counted of ${answered} answered and ${unknown} others`, group)
    }
    let atMs = nowMs
    for (let n = 0; n < counted; n += 1) {
      const decision = oracle.admit(caller, address, nowMs)
      if (decision.kind === 'refused') return note('more is counted than a limit holds', group)
      atMs = decision.atMs
    }
    // All requests of the group are for the same networks, from the same one.
    const [one] = asked
    const isConsumed = before.some(
      ({ name, remaining }) => OF_NETWORKS.includes(name) && leftNow(name) < remaining,
    )
    if (one && isConsumed) oracle.consume(caller, one.address, networksAt(one.port), atMs)
    await audit(group, nowMs)
  }

  /** A refusal by a window or a day: a limit is full, and each field is as the oracle says. */
  function judgeRefusal(group: Group, asked: Asked, nowMs: number): void {
    const { kind, caller, address } = group
    const { headers, body = '' } = asked.answer ?? {}
    const decision = oracle.admit(caller, address, nowMs)
    if (decision.kind === 'admitted') return note('refused, and no limit is full:', group, asked)
    const { code, retry_after: wait, daily_limit: daily } = JSON.parse(body)
    const isRight =
      code === CODES[kind.caller][decision.by] &&
      headers?.get('retry-after') === String(wait) &&
      daily === (decision.by === 'daily' ? (kind.limits.daily ?? undefined) : undefined)
    if (!isRight) note('refused with wrong fields:', group, asked)
    const most = decision.retryAfterSeconds
    // A node that refuses by itself adds the time on its stopwatch, which runs during rounds too.
    const then = admittedAt.get(`${group.key} ${address}`)
    const aheadMs = then ? performance.now() - then.realMs - (nowMs - then.nowMs) : Infinity
    const least = isShared ? Math.max(1, most - Math.ceil(aheadMs / 1_000)) : most
    if (wait > most || wait < least) note(`refused for ${wait} s, not ${most}:`, group, asked)
    const rateLimit = rateLimitOf(decision.limits)
    if (!isShared && headers?.get('ratelimit') !== rateLimit) {
      note(`refused, not ${rateLimit}:`, group, asked)
    }
  }

  function judgeAdmitted(group: Group, admitted: readonly Asked[], nowMs: number): void {
    const { caller, address } = group
    const fieldOf = ({ answer }: Asked): string => answer?.headers.get('ratelimit') ?? ''
    const remaining = (one: Asked): number =>
      [...fieldOf(one).matchAll(/r=(\d+)/g)].reduce((sum, [, left]) => sum + Number(left), 0)
    const quotas = () =>
      oracle
        .limits(caller, address, nowMs)
        .flatMap(({ name, quota, remaining: left }) =>
          OF_NETWORKS.includes(name) ? [quota - left] : [],
        )
    const before = quotas()
    let atMs = nowMs
    for (const one of admitted.toSorted((a, b) => remaining(b) - remaining(a))) {
      const decision = oracle.admit(caller, address, nowMs)
      if (decision.kind === 'refused') return note('admitted beyond a limit:', group, one)
      atMs = decision.atMs
      if (fieldOf(one) !== rateLimitOf(decision.limits)) {
        note(`admitted, not ${rateLimitOf(decision.limits)}:`, group, one)
      }
    }
    for (const one of admitted.filter(({ answer }) => answer?.status === 200)) {
      const used = oracle.consume(caller, one.address, networksAt(one.port), atMs)
      if (used !== null) note('more networks than the quota:', group, one)
    }
    const after = quotas()
    for (const one of admitted.filter(isOfNetworks)) {
      const { used_subnets: used } = JSON.parse(one.answer?.body ?? '')
      const isFull = oracle.consume(caller, one.address, networksAt(one.port), atMs) !== null
      const isBetween = before.some((least, i) => least <= used && used <= (after[i] ?? 0))
      if (!isFull || !isBetween) note('refused for networks that fit:', group, one)
    }
  }

  /** The status of an answer, and the list that it has. */
  function judgeBody(group: Group, one: Asked): void {
    const { status = 0, body = '' } = one.answer ?? {}
    if (![0, 200, 404, 429, 503].includes(status)) note('unexpected:', group, one)
    if (group.kind.caller === 'demo') return // masked
    const isRight = Bun.deepEquals(body.trim().split('\n').sort(), expectedAt(one.port))
    if (status === 200 && !isRight) note('a wrong list:', group, one)
    if (status === 404 && one.port !== EMPTY_PORT) note('nothing:', group, one)
  }

  async function judge(group: Group, nowMs: number, realMs: number): Promise<void> {
    const { asked } = group
    const admitted = asked.filter(isAdmitted)
    seen.answers += asked.length
    seen.admitted += admitted.length
    seen.byNetworks += asked.filter(isOfNetworks).length
    for (const one of asked) judgeBody(group, one)
    const isTemporary = group.kind.caller === 'temp' // other keys fill its address
    if (admitted.length > 0 && !isTemporary) {
      admittedAt.set(`${group.key} ${group.address}`, { nowMs, realMs })
    }
    const unknown = asked.filter(isUnknown).length
    seen.unknown += unknown
    if (unknown > 0) return adopt(group, nowMs)
    judgeAdmitted(group, admitted, nowMs)
    for (const one of asked.filter(each => each.answer?.status === 429 && !isOfNetworks(each))) {
      seen.refused += 1
      judgeRefusal(group, one, nowMs)
    }
  }

  /**
   * A round at an instant of the clock of limits. `isAlike`: all requests of a key are for the same networks, so that
   * /key shows whether those without an answer were counted.
   */
  function open(nowMs: number, { isAlike = false } = {}) {
    const realMs = performance.now()
    const groups = new Map<string, Group>()
    const shift = between(random, 0, SUBJECTS)
    function groupOf(kind: Kind, n: number): Group {
      const name = `${kind.name} ${n}`
      // No two temporary keys have the same address in one round.
      const address = addressOf(kind.caller === 'temp' ? (n + shift) % (2 * SUBJECTS) : 90 + n)
      const group = groups.get(name) ?? {
        ...{ kind, key: keyOf(kind, n), caller: callerOf(kind, n), address, asked: [] },
      }
      groups.set(name, group)
      known.set(name, group)
      return group
    }
    function drawn(kind: Kind, address: string): Asked {
      const port = random() < 0.1 ? EMPTY_PORT : pick(random, PORTS)
      const from = kind.caller === 'regular' ? addressOf(between(random, 0, 8)) : address
      return { port, address: from, answer: null }
    }
    function addTo({ kind, key, address, asked }: Group) {
      const [first] = asked
      const one: Asked = isAlike && first ? { ...first, answer: null } : drawn(kind, address)
      asked.push(one)
      const path = `/api?port=${one.port}&time=999999999${kind.caller === 'demo' ? '&works=0' : ''}`
      const from = spelled(random, one.address)
      return {
        text: random() < 0.2 ? head(path, from, key) : head(`${path}&key=${key}`, from, null),
        take(answer: HttpAnswer | null) {
          one.answer = answer
        },
      }
    }
    return {
      /** Sends some requests with some keys; gives their answers. */
      async send(keys = 12): Promise<readonly (HttpAnswer | null)[]> {
        const requests = Array.from({ length: keys }, () => {
          const kind = pick(random, KINDS)
          const group = groupOf(kind, between(random, 0, SUBJECTS - 1))
          const most = kind.name === 'wide' || kind.name === 'many' ? 60 : 12
          return Array.from({ length: between(random, 1, most) }, () => addTo(group))
        }).flat()
        return connections.send(shuffled(random, requests))
      },
      /** Judges all answers of the round. */
      async settle(): Promise<void> {
        // A statement whose client is gone may still wait for a lock, a quarter second at most, and be committed then.
        const all = [...groups.values()].flatMap(({ asked }) => asked)
        if (isShared && all.some(isUnknown)) await Bun.sleep(LATE_MS)
        for (const group of groups.values()) await judge(group, nowMs, realMs)
      },
    }
  }

  return {
    open,
    seen,
    wrong,
    close: connections.close,
    /** Compares what is left of every limit, and gives what was found. */
    async end(nowMs: number, where: string): Promise<Finding[]> {
      for (const group of known.values()) await audit(group, nowMs)
      connections.close()
      const { answers, admitted, refused, byNetworks, unknown, counted } = seen
      return [
        {
          promise: `Every answer of ${where} is that of the oracle, and so is what is left at the end`,
          figure:
            `${summaryOf(wrong)} wrong of ${count(answers)} answers: ${count(admitted)} admitted, ` +
            `${count(refused)} refused, ${count(byNetworks)} for networks; ` +
            `${count(unknown)} without an answer, ${count(counted)} of them counted`,
          bound: '0',
          holds: wrong.length === 0 && admitted > 0 && refused > 0 && byNetworks > 0,
        },
      ]
    },
  }
}
