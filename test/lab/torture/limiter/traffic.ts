/**
 * The requests to the limiter: kinds of keys, one for each kind of limit and some for several,
 * and requests with them. They move over the subjects of a kind in waves, so that at any time all
 * clients of all processes ask for the same few.
 */
import { type Limits, UNLIMITED } from '../../../support/fixtures.ts'
import { between, pick } from '../../../support/random.ts'

type Random = () => number

export const burst = (requests: number, seconds: number) => ({ burst: { requests, seconds } })

export type Kind = {
  name: string
  caller: 'regular' | 'temp' | 'demo'
  limits: Limits
  /** Its share of all requests, in percent. */
  share: number
  /** Requests to each of its subjects in a whole run: keys, or addresses for demo. */
  each: number
}
export const regular = (
  name: string,
  share: number,
  each: number,
  limits: Partial<Limits>,
): Kind => ({
  ...{ name, share, each, caller: 'regular' },
  limits: { ...UNLIMITED, ...limits },
})

/** Every kind of limit of contract B2 to B6. */
export const KINDS: readonly Kind[] = [
  regular('one', 4, 20_000, burst(1, 1)),
  regular('five', 4, 20_000, burst(5, 5)),
  regular('many', 8, 20_000, burst(40, 2)),
  regular('wide', 12, 20_000, burst(300, 1)),
  regular('vast', 8, 6_000, burst(1_000, 60)),
  regular('long', 4, 4_000, burst(3, 20)),
  regular('daily', 16, 600, { daily: 300 }),
  regular('both', 8, 400, { ...burst(20, 1), daily: 200 }),
  regular('subnets', 8, 300, { subnets: 6 }),
  regular('clients', 8, 300, { clients: 3 }),
  regular('all', 8, 300, { ...burst(30, 1), daily: 200, subnets: 8, clients: 4 }),
  { name: 'demo', caller: 'demo', limits: UNLIMITED, share: 6, each: 10 },
  { name: 'temp', caller: 'temp', limits: UNLIMITED, share: 6, each: 8 },
]

export function kindAt(n: number): Kind {
  const kind = KINDS[n]
  if (kind === undefined) throw new Error(`there is no kind ${n}`)
  return kind
}

/** How many subjects a kind has in a run of so many requests. */
const subjectsOf = ({ share, each }: Kind, requests: number): number =>
  Math.max(2, Math.ceil((requests * share) / 100 / each))

/** The `n`-th key of a kind. */
const keyText = ({ name, caller }: Kind, n: number): string => {
  if (caller === 'demo') return 'demo'
  return `${caller === 'temp' ? 'temp' : 'pl'}_${name}_${n}`
}

/** A client address: a way to write it, and the bucket it is counted in. */
export type Place = { from: (random: Random) => string; bucket: string }

/** The `n`-th address: IPv4, an IPv6 /64 or IPv4-mapped. */
export function addressOf(n: number): Place {
  const low = `${(n >> 8) & 255}.${n & 255}.7`
  const ipv4 = `${50 + (n >> 16)}.${low}`
  const network = `2001:db8:${(n >> 16).toString(16)}:${(n & 0xffff).toString(16)}`
  const forms: Place[] = [
    { from: () => ipv4, bucket: ipv4 },
    { from: random => `${network}:1::${between(random, 1, 9)}`, bucket: `${network}::/64` },
    { from: () => `::ffff:${ipv4}`, bucket: ipv4 },
  ]
  return pick(() => (n % 3) / 3, forms)
}

/** The networks of the callers; quotas count IPv4 by the /16, IPv6 by the /64. */
export const CALLERS: readonly Place[] = Array.from({ length: 9 }, (_, n) =>
  n % 3 === 1
    ? {
        from: random => `2001:db8:c:${n}:2::${between(random, 1, 9)}`,
        bucket: `2001:db8:c:${n}::/64`,
      }
    : {
        from: random => `100.${64 + n}.${between(random, 0, 255)}.1`,
        bucket: `100.${64 + n}.0.0/16`,
      },
)

/** The list: the port of a query determines the /16 networks of its answer. */
const NETWORKS = 14
export const PORTS = Array.from({ length: 20 }, (_, n) => 2000 + n)
export const networksOf = (port: number): string[] =>
  Array.from({ length: 1 + (port % 3) }, (_, n) => `20.${(port * 3 + n * 5) % NETWORKS}`)
/** No proxy has this port. */
const EMPTY_PORT = 1999

export const listText = (): string =>
  PORTS.flatMap(port => networksOf(port).map(network => `http://${network}.0.1:${port}\n`)).join('')

/** A request as numbers: its kind, subject, address and port. */
export type Request = { kind: number; subject: number; place: number; port: number; from: string }

/** Subjects of a kind in use at one time, and how often a run goes over all of them. */
const WAVE_WIDTH = 4
const LAPS = 3

/** A function from the progress of a run (0 to 1) to the next request. */
export function createTraffic(requests: number, random: Random): (progress: number) => Request {
  const pools = KINDS.map(kind => subjectsOf(kind, requests))
  const tickets = KINDS.flatMap(({ share }, kind) => new Array<number>(share).fill(kind))
  return progress => {
    const kind = pick(random, tickets)
    const pool = pools[kind] ?? 1
    const near = (): number =>
      (Math.floor(progress * LAPS * pool) + between(random, 0, WAVE_WIDTH - 1)) % pool
    const subject = near()
    const caller = kindAt(kind).caller
    // demo is counted by address alone; a temporary key also uses the addresses of its neighbours.
    const place =
      caller === 'demo'
        ? subject
        : caller === 'temp'
          ? near()
          : between(random, 0, CALLERS.length - 1)
    const at = caller === 'regular' ? CALLERS[place] : addressOf(place)
    const port = random() < 0.1 ? EMPTY_PORT : pick(random, PORTS)
    return { kind, subject, place, port, from: at?.from(random) ?? '' }
  }
}

/** The head of a request; `inHeader`: its key is in a header, not in the query. */
export function headOf({ kind, subject, port, from }: Request, inHeader: boolean): string {
  const key = keyText(kindAt(kind), subject)
  const query = `port=${port}&time=86400${inHeader ? '' : `&key=${key}`}`
  const authorization = inHeader ? `Authorization: Bearer ${key}\r\n` : ''
  const fields = `Host: 127.0.0.1\r\nX-Forwarded-For: ${from}\r\n${authorization}`
  return `GET /api?${query} HTTP/1.1\r\n${fields}\r\n`
}

/** Ids of the keys: of each kind, by subject. */
export type Ids = string[][]

/** The plans and keys of a run of so many requests. */
export function customersOf(requests: number) {
  const withPlans = KINDS.filter(({ caller }) => caller === 'regular')
  const numbers = KINDS.map(kind => (kind.caller === 'demo' ? 0 : subjectsOf(kind, requests)))
  const keys = KINDS.flatMap((kind, i) =>
    Array.from({ length: numbers[i] ?? 0 }, (_, n) => ({
      ...{ key: keyText(kind, n), plan: kind.caller === 'temp' ? null : kind.name },
    })),
  )
  return {
    plans: Object.fromEntries(withPlans.map(({ name, limits }) => [name, limits])),
    keys,
    /** The ids of the keys, in their order, by kind. */
    byKind(ids: readonly string[]): Ids {
      const left = [...ids]
      return numbers.map(number => left.splice(0, number))
    },
  }
}
