/**
 * Client addresses (contract B7): combinations of peer, X-Forwarded-For and
 * trusted ranges are counted in the bucket that the oracle names, in process and, a sample of them,
 * over real sockets, where the demo key's two requests a minute show the bucket. The oracle does not
 * parse addresses: they are made as numbers and then written as text, so nothing here can misread one.
 * Every address has 128 bits; IPv4 is `::ffff:a.b.c.d`.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientBucket } from '../../../src/access/entitlements.ts'
import { readRanges } from '../../../src/config/parsers.ts'
import { createClientIp } from '../../../src/http/client-ip.ts'
import { between, pick, randomOf } from '../../support/random.ts'
import { exchange } from '../support/client.ts'
import { startServe } from '../support/serve.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

type Random = () => number

/** An address as a number. */
type Address = bigint
const V4_BLOCK = 0xffffn << 32n
export const v4 = (...octets: number[]): Address =>
  V4_BLOCK | octets.reduce((sum, octet) => (sum << 8n) | BigInt(octet), 0n)
const isV4 = (address: Address): boolean => address >> 32n === 0xffffn

const dotted = (address: Address): string =>
  [24n, 16n, 8n, 0n].map(shift => (address >> shift) & 255n).join('.')
const groups = (address: Address): bigint[] =>
  Array.from({ length: 8 }, (_, n) => (address >> BigInt(16 * (7 - n))) & 0xffffn)
const hex = (address: Address): string =>
  groups(address)
    .map(group => group.toString(16))
    .join(':')
const padded = (address: Address): string =>
  groups(address)
    .map(group => group.toString(16).padStart(4, '0'))
    .join(':')
/** With the zeros after the first group left out, if there are any. */
const shortened = (address: Address): string => {
  const [first, ...rest] = hex(address).split(':')
  const zeros = rest.findIndex(group => group !== '0')
  const left = zeros < 0 ? [] : rest.slice(zeros)
  return zeros === 0 ? hex(address) : `${first}::${left.join(':')}`
}
const withTail = (address: Address): string =>
  `${hex(address).split(':').slice(0, 6).join(':')}:${dotted(address)}`

/** A way to write an address. */
type Spelling = (address: Address) => string
const V4_SPELLINGS: readonly Spelling[] = [
  dotted,
  dotted,
  address => `${dotted(address)}:51234`,
  address => ` \t${dotted(address)} `,
  address => `::ffff:${dotted(address)}`,
  address => `::FFFF:${dotted(address)}`,
  hex,
  withTail,
  padded,
  address => `::ffff:${dotted(address)}%eth0`,
  address => `[::ffff:${dotted(address)}]:443`,
]
const V6_SPELLINGS: readonly Spelling[] = [
  hex,
  shortened,
  padded,
  withTail,
  address => padded(address).toUpperCase(),
  address => `${shortened(address)}%eth0`,
  address => `[${shortened(address)}]`,
  address => `[${hex(address)}]:8080`,
  address => ` [${padded(address)}%2]:1  `,
]
/** Ways in which the operating system writes the peer of a socket. */
const V4_PEERS: readonly Spelling[] = [dotted, address => `::ffff:${dotted(address)}`]
const V6_PEERS: readonly Spelling[] = [shortened, hex, address => `${shortened(address)}%eth0`]

/** Header entries that are not addresses; each ends the search. */
const MALFORMED: readonly string[] = [
  ...['', ' ', '-', 'unknown', 'unix', 'localhost', '_hidden', 'null', '0', '2130706433', 'é'],
  ...['1.2.3', '1.2.3.4.5', '256.1.1.1', '1.2.3.-4', '01.2.3.4', '0x7f.0.0.1', '1.2.3.4/8'],
  ...['1.2.3.4:', '1.2.3.4:123456', '1.2.3.4:http', '1.2.3.4%eth0', '1.2.3.4 5.6.7.8', '1.2.3.4;'],
  ...['"1.2.3.4"', 'for=1.2.3.4', 'http://1.2.3.4', '1.2.3.4\t5.6.7.8', '１.2.3.4', '.1.2.3.4'],
  ...[':', ':::', '::g', '12345::', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '::1.2.3'],
  ...['[::1', '::1]', '[]', '[]:80', '[::1]x', '[::1]:', '[::1]:123456', '[[::1]]', '%eth0'],
  ...['::ffff:1.2.3.256', '::ffff:1.2.3.4.5', '1.2.3.4::', 'x'.repeat(3000), '1'.repeat(500)],
]

/** A range of trusted addresses: those whose first `bits` of 128 are those of `base`. */
type Range = { text: string; base: Address; bits: number }
const rangeOf = (base: Address, bits: number, asMapped = false): Range => {
  const inV4 = isV4(base) && !asMapped
  const address = inV4 ? dotted(base) : hex(base)
  const size = inV4 ? bits - 96 : bits
  return { text: size === (inV4 ? 32 : 128) ? address : `${address}/${size}`, base, bits }
}
const contains = ({ base, bits }: Range, address: Address): boolean =>
  (base ^ address) >> BigInt(128 - bits) === 0n

/** Sizes of ranges: at the borders of octets and groups, and beside them. */
const V4_BITS = [0, 1, 7, 8, 9, 12, 15, 16, 17, 23, 24, 25, 29, 30, 31, 32].map(bits => 96 + bits)
const V6_BITS = [1, 3, 16, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 112, 127, 128]

/** A few networks, so that addresses share ranges and buckets. */
const V4_BASES = [v4(10, 0, 0, 0), v4(10, 0, 0, 255), v4(198, 51, 100, 7), v4(127, 0, 0, 1), v4(0)]
const V6_BASES = [
  0x2001_0db8_0000_0000_0000_0000_0000_0000n,
  0x2001_0db8_0000_0001_ffff_ffff_ffff_fffen,
  0xfe80_0000_0000_0000_0000_0000_0000_0001n,
  0x0000_0000_0000_0000_0000_ffff_0a00_0001n << 16n,
  1n,
]

/** An address of one of the networks, or one bit beside it. */
function anyAddress(random: Random): Address {
  if (random() < 0.6) {
    const base = pick(random, V4_BASES)
    return random() < 0.3 ? base : base ^ (1n << BigInt(between(random, 0, 31)))
  }
  const base = pick(random, V6_BASES)
  const changed = random() < 0.3 ? base : base ^ (1n << BigInt(between(random, 0, 127)))
  return isV4(changed) ? base : changed
}

function anyRange(random: Random): Range {
  const base = anyAddress(random)
  if (isV4(base)) return rangeOf(base, pick(random, V4_BITS), random() < 0.1)
  return rangeOf(base, pick(random, V6_BITS))
}

/** An entry of X-Forwarded-For and what it means; `null`: nothing. */
type Entry = { text: string; means: Address | null }

function entryOf(random: Random, address: Address): Entry {
  const spell = pick(random, isV4(address) ? V4_SPELLINGS : V6_SPELLINGS)
  return { text: spell(address), means: address }
}

const malformed = (random: Random): Entry => ({
  text: pick(random, MALFORMED),
  means: null,
})

/** One combination; `peer` null is a unix socket, `entries` null is no header. */
type Combination = {
  ranges: readonly Range[]
  peer: { text: string; means: Address } | null
  entries: readonly Entry[] | null
}

/** Entries that are read, from the right: a longer chain of trusted hops is not believed. */
const HOPS_MAX = 32

const many = <T>(length: number, make: () => T): T[] => Array.from({ length }, make)

function anyEntries(random: Random, ranges: readonly Range[]): Entry[] {
  const [first] = ranges
  const trusted = (): Entry => entryOf(random, first?.base ?? anyAddress(random))
  const anyEntry = (): Entry => {
    if (random() < 0.4) return trusted()
    return random() < 0.15 ? malformed(random) : entryOf(random, anyAddress(random))
  }
  const entries = many(between(random, 1, 6), anyEntry)
  if (random() < 0.9) return entries
  // Long chains of trusted hops, most of them about as long as HOPS_MAX.
  const hops = random() < 0.1 ? 1500 : between(random, HOPS_MAX - 3, HOPS_MAX + 3)
  return [...entries, ...many(hops, trusted)]
}

function anyCombination(random: Random): Combination {
  const ranges = many(between(random, 0, 4), () => anyRange(random))
  const near = ranges.length > 0 && random() < 0.5 ? pick(random, ranges).base : anyAddress(random)
  const peer = { text: pick(random, isV4(near) ? V4_PEERS : V6_PEERS)(near), means: near }
  return {
    ranges,
    peer: random() < 0.1 ? null : peer,
    entries: random() < 0.1 ? null : anyEntries(random, ranges),
  }
}

const headerOf = (random: Random, entries: readonly Entry[]): string =>
  entries.map(({ text }) => text).join(pick(random, [',', ', ', ' ,\t']))

/** Whether a hop is believed when it names the hop before it. */
const isBelieved = (ranges: readonly Range[], peer: Address | null): boolean =>
  peer === null || ranges.some(range => contains(range, peer))

/** The client: an address, or `null` for the unix socket. */
export function clientOf({ ranges, peer, entries }: Combination): Address | null {
  let client = peer?.means ?? null
  const hops = (entries ?? []).slice(-HOPS_MAX).reverse()
  for (const { means } of hops) {
    if (means === null || !isBelieved(ranges, client)) return client
    client = means
  }
  return client
}

/** A name for whom limits count: one IPv4 address, one IPv6 /64, or the unix socket. */
const bucketOf = (client: Address | null): string => {
  if (client === null) return 'unix'
  return isV4(client) ? dotted(client) : `${hex(client >> 64n)} /64`
}

type Checked = {
  /** Combinations of each kind. */
  kinds: { [kind in keyof typeof KINDS]: number }
  /** How many buckets there were. */
  buckets: number
  /** Combinations in which an untrusted peer changed its bucket. */
  changed: string[]
  /** Combinations whose bucket is not the oracle's. */
  wrong: string[]
}

const isUntrusted = ({ ranges, peer }: Combination): boolean =>
  !isBelieved(ranges, peer?.means ?? null)

/** Kinds of combinations; a check must include each. */
const KINDS = {
  'untrusted peers': isUntrusted,
  'unix sockets': ({ peer }: Combination) => peer === null,
  'malformed entries': ({ entries }: Combination) =>
    entries?.some(({ means }) => means === null) ?? false,
  'chains longer than HOPS_MAX': ({ entries }: Combination) => (entries?.length ?? 0) > HOPS_MAX,
}

/** Two names for each bucket: a bucket of one may not be several of the other. */
function createPairing() {
  const theirs = new Map<string, string>()
  const ours = new Map<string, string>()
  return {
    /** Whether the names agree with all earlier ones. */
    agrees(their: string, our: string): boolean {
      if (!theirs.has(their) && !ours.has(our)) {
        theirs.set(their, our)
        ours.set(our, their)
      }
      return theirs.get(their) === our && ours.get(our) === their
    },
    size: () => theirs.size,
  }
}

const describe = ({ ranges, peer }: Combination, header: string | null): string =>
  JSON.stringify({
    trusted: ranges.map(({ text }) => text).join(),
    peer: peer?.text ?? 'unix',
    header: header?.slice(0, 300) ?? null,
  })

/** The bucket that the program counts a combination in, and that of its peer without a header. */
function bucketsOf({ ranges, peer }: Combination, header: string | null) {
  const trusted = ranges.length === 0 ? undefined : readRanges(ranges.map(r => r.text).join())
  const address = createClientIp(trusted)
  const text = peer?.text ?? null
  return { bucket: clientBucket(address(text, header)), alone: clientBucket(address(text, null)) }
}

export function checkCombinations(seed: number, count: number): Checked {
  const random = randomOf(seed, 'addresses')
  const pairing = createPairing()
  const combinations = Array.from({ length: count }, () => anyCombination(random))
  const changed: string[] = []
  const wrong: string[] = []
  for (const combination of combinations) {
    const header = combination.entries && headerOf(random, combination.entries)
    const { bucket, alone } = bucketsOf(combination, header)
    if (isUntrusted(combination) && bucket !== alone) changed.push(describe(combination, header))
    const expected = bucketOf(clientOf(combination))
    if (pairing.agrees(expected, bucket)) continue
    wrong.push(`${bucket} is not ${expected}: ${describe(combination, header)}`)
  }
  const counts = Object.entries(KINDS).map(([kind, is]) => [kind, combinations.filter(is).length])
  const kinds = Object.fromEntries(counts) as Checked['kinds'] // the names of KINDS
  return { kinds, buckets: pairing.size(), changed, wrong }
}

const COMBINATIONS = 10_000
/** Servers, each with trusted ranges of its own, and combinations sent to each. */
const SERVERS = 10
const COMBINATIONS_EACH = 60
/** How often each is sent: the demo key admits two of them. */
const TIMES = 3
const DEMO_LIMIT = 2
/** Request heads up to the first size are read, from the second size they are refused. */
const HEAD_BYTES = { read: 7_900, refused: 8_400 }

const list = (items: object): string =>
  Object.entries(items)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')

function inProcess({ seed, say }: Run, count: number): Finding[] {
  const { kinds, buckets, changed, wrong } = checkCombinations(seed, count)
  for (const line of [...changed, ...wrong].slice(0, 5)) say(line)
  return [
    {
      promise: 'an untrusted peer never changes its bucket',
      figure: `${changed.length} of ${kinds['untrusted peers']} untrusted peers`,
      bound: '0',
      holds: changed.length === 0 && kinds['untrusted peers'] > 0,
    },
    {
      promise: 'a client is counted in the bucket that the oracle names',
      figure: `${wrong.length} wrong of ${count} combinations (${list({ buckets, ...kinds })})`,
      bound: '0 wrong',
      holds: wrong.length === 0,
    },
  ]
}

/** A combination whose peer exists on this machine: 127.0.0.1 to 127.0.0.12, or a unix socket. */
function socketCombination(
  random: () => number,
  ranges: Combination['ranges'],
  isUnix: boolean,
): Combination {
  const last = between(random, 1, 12)
  const peer = isUnix ? null : { text: `127.0.0.${last}`, means: v4(127, 0, 0, last) }
  const { entries } = anyCombination(random)
  return { ranges, peer, entries }
}

/** The header lines of the entries: one, or two with the same meaning. */
function linesOf(random: () => number, entries: readonly Entry[]): string {
  const at = random() < 0.2 ? between(random, 1, entries.length) : entries.length
  const lines = [entries.slice(0, at), entries.slice(at)].filter(part => part.length > 0)
  return lines
    .map(part => `X-Forwarded-For: ${part.map(({ text }) => text).join(', ')}\r\n`)
    .join('')
}

/** The request of a combination, and the bucket it is counted in; `null`: its head is refused. */
function requestOf(random: () => number, combination: Combination) {
  const lines = combination.entries ? linesOf(random, combination.entries) : ''
  const text = `GET /api?key=demo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n`
  const bytes = Buffer.byteLength(text)
  if (bytes > HEAD_BYTES.read && bytes < HEAD_BYTES.refused) return null
  const bucket = bytes < HEAD_BYTES.read ? bucketOf(clientOf(combination)) : null
  return { text, bucket, from: combination.peer?.text }
}

/** Counts the requests of every bucket; gives the expected status of the next one. */
function createCounter() {
  const used = new Map<string, number>()
  return (bucket: string | null): number => {
    if (bucket === null) return 431
    const count = used.get(bucket) ?? 0
    used.set(bucket, count + 1)
    return count < DEMO_LIMIT ? 404 : 429
  }
}

/** Trusted ranges around the peers of a sample. */
const LOOPBACK = [32, 31, 30, 29, 8].map(bits => ({
  text: `127.0.0.4/${bits}`,
  base: v4(127, 0, 0, 4),
  bits: 96 + bits,
}))

type Sampled = { statuses: number[]; wrong: string[] }

/** Sends combinations to a new server. */
async function sample(run: Run, random: () => number, isUnix: boolean): Promise<Sampled> {
  const data = run.directory('addresses')
  const clock = join(data, 'clock')
  writeFileSync(clock, String(Date.now())) // it stands still: no window ends
  const ranges = [pick(random, LOOPBACK), ...anyCombination(random).ranges]
  const more = ['--trust-proxy', ranges.map(({ text }) => text).join()]
  const listen = isUnix ? `unix:${join(data, 's')}` : '127.0.0.1:0'
  const server = await startServe(run.binary, { data, clock, listen, more })
  const statusOf = createCounter()
  const sampled: Sampled = { statuses: [], wrong: [] }
  for (let n = 0; n < COMBINATIONS_EACH; n += 1) {
    const request = requestOf(random, socketCombination(random, ranges, isUnix))
    for (let time = 0; request && time < TIMES; time += 1) {
      const expected = statusOf(request.bucket)
      const { status } = await exchange(server.where, request.text, request)
      sampled.statuses.push(status)
      if (status === expected) continue
      sampled.wrong.push(`${status} is not ${expected}: ${request.text.slice(0, 300)}`)
    }
  }
  await server.stop()
  return sampled
}

async function overSockets(run: Run): Promise<Finding> {
  const random = randomOf(run.seed, 'sockets')
  const servers = scaled(SERVERS, run)
  const samples: Sampled[] = []
  for (let n = 0; n < servers; n += 1) samples.push(await sample(run, random, n % 3 === 2))
  const statuses = samples.flatMap(sampled => sampled.statuses)
  const wrong = samples.flatMap(sampled => sampled.wrong)
  for (const line of wrong.slice(0, 5)) run.say(line)
  const count = (status: number): number => statuses.filter(other => other === status).length
  return {
    promise: 'over real sockets, TCP and unix, the demo key is counted in that bucket',
    figure:
      `${wrong.length} of ${statuses.length} answers wrong (${servers} servers, ` +
      `${count(404)} admitted, ${count(431)} with too large a head)`,
    bound: '0',
    holds: wrong.length === 0,
  }
}

export const addresses: Part = async run => [
  ...inProcess(run, scaled(COMBINATIONS, run)),
  await overSockets(run),
]
