/**
 * The fuzzer's requests that are valid HTTP: their method, target and header fields, and the
 * statuses they may get where these are certain.
 */

import { between, pick, shuffled } from '../../../support/random.ts'
import { allowed, escapedWhole, type Keys, type Kind, misplaced } from './keys.ts'
import * as values from './values.ts'

type Change = (random: () => number, text: string, other: string) => string

const position = (random: () => number, text: string): number => between(random, 0, text.length)
const byte = (random: () => number): string => String.fromCharCode(between(random, 0, 255))
/** Bytes with a meaning in HTTP, URLs or UTF-8. */
const SPECIAL = [...'%&=?#;:/\\ \r\n\t\0"\'+,.@[]{}\x7f\x80\xc0\xed\xf4\xff']

const CHANGES: readonly Change[] = [
  (random, text) => {
    const at = between(random, 0, Math.max(0, text.length - 1))
    const flipped = text.charCodeAt(at) ^ (1 << between(random, 0, 7))
    return text.slice(0, at) + String.fromCharCode(flipped & 255) + text.slice(at + 1)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + byte(random) + text.slice(at)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + pick(random, SPECIAL) + text.slice(at)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + text.slice(at + between(random, 1, 8))
  },
  (random, text) => {
    const at = position(random, text)
    const piece = text.slice(at, at + between(random, 1, 20))
    return text.slice(0, at) + piece.repeat(between(random, 1, 4)) + text.slice(at)
  },
  (random, text, other) => {
    const from = position(random, other)
    return text.slice(0, position(random, text)) + other.slice(from, from + 200)
  },
]

/** The text after a few changes; spliced pieces come from `other`. */
export function mutate(random: () => number, text: string, other: string): string {
  let changed = text
  const times = between(random, 1, 1 + between(random, 0, 5))
  for (let n = 0; n < times; n += 1) changed = pick(random, CHANGES)(random, changed, other)
  return changed
}

/** One request. `statuses` are those it may get; `null` is any below 500. */
export type Case = {
  method: string
  target: string
  headers: readonly string[]
  statuses: readonly number[] | null
}
type Random = () => number

const chance = (random: Random, share: number): boolean => random() < share

/** A name as it is, or percent-encoded in part. */
const spelled = (random: Random, name: string): string =>
  chance(random, 0.1) ? escapedWhole(name.slice(0, 2)) + name.slice(2) : name

/** Query pieces for some of the named parameters. */
function some(
  random: Random,
  table: { readonly [name: string]: readonly string[] },
  share: number,
): string[] {
  return Object.entries(table)
    .filter(() => chance(random, share))
    .map(([name, accepted]) => `${spelled(random, name)}=${pick(random, accepted)}`)
}

const { GOOD_TXT, GOOD_RECORDS, GOOD_JSON } = values
const { fields: _fields, split_ip: _splitIp, ...ONLY_JSON } = GOOD_JSON
/** What `get` may say, the parameters that go with it, and those that it ignores. */
const FORMS = [
  { gets: [null, null, 'txt', 'txt.file', ''], own: GOOD_TXT, ignored: GOOD_JSON },
  { gets: ['json', 'json.file', '%6Ason'], own: GOOD_JSON, ignored: GOOD_TXT },
  { gets: ['csv', 'csv.file', 'cs%76'], own: GOOD_RECORDS, ignored: { ...GOOD_TXT, ...ONLY_JSON } },
  { gets: ['ndjson', 'ndjson.file'], own: GOOD_RECORDS, ignored: { ...GOOD_TXT, ...ONLY_JSON } },
] as const

/** A valid query, and the names of the parameters that its output mode uses. */
function goodQuery(random: Random): { pieces: string[]; names: string[] } {
  const form = pick(random, FORMS)
  const { own, ignored } = form
  const pieces = [
    ...some(random, values.GOOD_FILTERS, 0.15),
    ...some(random, own, 0.3),
    ...Object.keys(ignored)
      .filter(() => chance(random, 0.1))
      .map(name => `${name}=${pick(random, values.HOSTILE.slice(0, -4)).replace(/[&#]/g, '')}`),
  ]
  const get = pick(random, form.gets)
  if (get !== null) pieces.push(`get=${get}`)
  const mode = pick(random, values.GOOD_MODES)
  if (chance(random, 0.2)) pieces.push(`${pick(random, ['cm', 'country_mode'])}=${mode}`)
  if (chance(random, 0.05)) pieces.push(`type=${pick(random, ['http', 'socks4'])}`)
  const names = [...Object.keys(values.GOOD_FILTERS), 'cm', 'country_mode', 'get']
  return { pieces, names: [...names, ...Object.keys(own)] }
}

const KINDS: readonly (readonly [kind: Kind, share: number])[] = [
  ['free', 0.75],
  ['unknown', 0.1],
  ['limited', 0.05],
  ['temp', 0.04],
  ['demo', 0.04],
  ['none', 0.02],
]

function kindOf(random: Random): Kind {
  let left = random()
  for (const [kind, share] of KINDS) {
    left -= share
    if (left < 0) return kind
  }
  return 'free'
}

function keyOf(random: Random, keys: Keys, kind: Kind): string {
  if (kind === 'demo') return 'demo'
  return kind === 'none' ? '' : pick(random, keys[kind])
}

const SERVED = [200, 404]
const LIMITED = [200, 404, 429]
/** The statuses of a valid and of an invalid query with each kind of key. */
const STATUSES: { [kind in Kind]: { good: readonly number[]; bad: readonly number[] } } = {
  free: { good: SERVED, bad: [400] },
  limited: { good: LIMITED, bad: [400] },
  temp: { good: LIMITED, bad: [400] },
  demo: { good: LIMITED, bad: [400] },
  unknown: { good: [403], bad: [403] },
  none: { good: [400], bad: [400] },
}

const address = (random: Random): string =>
  `10.${[1, 2, 3].map(() => between(random, 0, 255)).join('.')}`

/** Header fields that must not change the answer. */
function harmless(random: Random): string[] {
  const all = [
    ...[
      'Accept-Encoding: gzip',
      'Accept-Encoding: zstd, gzip;q=0.5',
      'Accept-Encoding: gzip;q=x,,;=',
    ],
    ...[
      'Accept-Encoding: identity',
      `Accept-Encoding: ${'gzip,'.repeat(100)}`,
      'Accept-Encoding: *;q=0',
    ],
    ...[
      'X-Forwarded-For: ,;\xff,::%1',
      `X-Forwarded-For: ${'1.1.1.1,'.repeat(200)}`,
      'Range: bytes=0-1',
    ],
    ...['If-None-Match: *', 'Cookie: a=b; __proto__=1', 'User-Agent: \x80\xff', 'Accept: */*;q=\\'],
    ...['X-Request-Id: 1', 'Forwarded: for=_x', 'Origin: null', 'X: \t', `X: ${'x'.repeat(2000)}`],
    ...[
      'Content-Type: application/json',
      'Content-Length: 0',
      'Connection: keep-alive',
      'TE: trailers',
    ],
    `X-Forwarded-For: ${address(random)}`,
  ]
  return Array.from({ length: between(random, 0, 2) }, () => pick(random, all))
}

function assemble(
  random: Random,
  pieces: readonly string[],
  headers: readonly string[],
  statuses: Case['statuses'],
): Case {
  const target = `${pick(random, ['/api?', '/api?', '/api/?'])}${shuffled(random, pieces).join('&')}`
  const all = [...new Set(['Host: a', ...headers, ...harmless(random)])]
  if (chance(random, 0.93)) return { method: 'GET', target, headers: all, statuses }
  if (chance(random, 0.6)) return { method: 'HEAD', target, headers: all, statuses }
  const method = pick(random, ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])
  const sized = [...new Set([...all, 'Content-Length: 0'])]
  return { method, target, headers: sized, statuses: [405] }
}

/** A valid request. */
function good(random: Random, keys: Keys): Case {
  const kind = kindOf(random)
  const { pieces, headers } = allowed(random, keyOf(random, keys, kind))
  return assemble(random, [...pieces, ...goodQuery(random).pieces], headers, STATUSES[kind].good)
}

/** A valid request except for one value, one name, or one repeated parameter. */
function spoiled(random: Random, keys: Keys): Case {
  const kind = kindOf(random)
  const { pieces, headers } = allowed(random, keyOf(random, keys, kind))
  const query = goodQuery(random)
  const name = pick(random, query.names)
  const flaws = [
    () => [`${name}=${pick(random, values.BAD[name] ?? [])}`],
    () => [`${name}=${pick(random, values.BAD[name] ?? [])}`],
    () => [`${name}=${pick(random, values.BAD[name] ?? [])}`],
    () => [`${pick(random, values.STRANGE_NAMES)}=1`],
    () => ['works=1', 'works=1'],
    () => ['cm=include', 'country_mode=except'],
  ]
  const all = [...pieces, ...query.pieces, ...pick(random, flaws)()]
  return assemble(random, all, headers, STATUSES[kind].bad)
}

const PATHS = values.words(`
    /api /api /api /api /api/ //api /API /%61pi /api%00 /api;x /api// /healthz /readyz /
    /favicon.ico /../api /api/.. /api/../api /* /api/x/y`)
const ODD_HOSTS = ['a', '', 'a b/c?d#e', 'x?key=other', '[::1]:80', '\xff', 'a'.repeat(300), 'api']

/** Parts in any combination. */
function wild(random: Random, keys: Keys): Case {
  const names = [...Object.keys(values.BAD), 'key', ...values.STRANGE_NAMES]
  const allValues = [...values.HOSTILE, ...Object.values(values.GOOD_FILTERS).flat()]
  const key = keyOf(random, keys, kindOf(random))
  const other = keyOf(random, keys, kindOf(random))
  const carry = chance(random, 0.5) ? allowed(random, key) : misplaced(random, key, other)
  const pieces = Array.from({ length: between(random, 0, 8) }, () =>
    [pick(random, names), pick(random, allValues)].join(
      pick(random, ['=', '=', '=', '', '==', '%3D']),
    ),
  )
  const glue = pick(random, ['&', '&', '&', '&', '&&', ';', '?', '%26', '#', ','])
  const query = shuffled(random, [...carry.pieces, ...pieces]).join(glue)
  const path = pick(random, PATHS) + (chance(random, 0.03) ? `/${encodeURIComponent(key)}` : '')
  const host = `Host: ${pick(random, ODD_HOSTS)}`
  const headers = [host, ...carry.headers, ...harmless(random)]
  return { method: 'GET', target: `${path}?${query}`, headers, statuses: null }
}

const MAKERS: readonly ((random: Random, keys: Keys) => Case)[] = [good, good, spoiled, wild]

/** The target with everything percent-encoded that would end the request line. */
const contained = (target: string): string => {
  const safe = target.replace(/[\0-\x20\x7f]/g, found => escapedWhole(found))
  return safe.startsWith('/') ? safe : `/${safe}`
}

/** A request of the grammar. */
export function makeCase(random: Random, keys: Keys): Case {
  const { headers, ...made } = pick(random, MAKERS)(random, keys)
  return { ...made, headers, target: contained(made.target) }
}

/** A request of the grammar whose target was changed at random. */
export function mutatedCase(random: Random, keys: Keys): Case {
  const made = makeCase(random, keys)
  const target = mutate(random, made.target, makeCase(random, keys).target)
  return { ...made, target: contained(target), statuses: null }
}

/** The bytes of a request. */
export const bytesOf = ({ method, target, headers }: Case): string =>
  `${method} ${target} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`
