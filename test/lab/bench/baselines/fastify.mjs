/**
 * The server proxylist is compared with: plain Fastify and better-sqlite3 under Node, written as
 * one would without special care for speed, yet well: validated queries, prepared statements,
 * indexes for the usual filters, an exact window that is committed for each request.
 * Answers TXT and JSON. Reads a JSON file named by its first argument: databaseFile, rowsFile, keys.
 */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import Database from 'better-sqlite3'
import Fastify from 'fastify'

const TYPES = ['http', 'https', 'socks4', 'socks5']
const ANONS = ['transparent', 'anonymous', 'elite']
const SERVICES = ['smtp', 'telegram', 'avito', 'google', 'the service']
const BURST = { requests: 5, seconds: 1 }
const DAILY = 1_000_000_000
const POLICY = `"burst";q=${BURST.requests};w=${BURST.seconds}, "daily";q=${DAILY};w=86400`

const SCHEMA = `
  create table proxies (
    id integer primary key, address text not null, checked_at integer not null,
    ping_ms integer not null, type text not null, anon text not null, works integer not null,
    speed integer not null, services integer not null, country text not null,
    city text not null, city_folded text not null, city_en_folded text not null,
    port integer not null, ip_out text not null
  ) strict;
  create table keys (id integer primary key, hash blob not null unique) strict;
  create table admissions (key_id integer not null, at_ms integer not null) strict;
  create table days (
    key_id integer not null, day integer not null, requests integer not null,
    primary key (key_id, day)
  ) strict, without rowid;
  create index admissions_by_key on admissions (key_id, at_ms);`
const INDEXES = `
  create index proxies_by_age on proxies (checked_at desc, ping_ms, id);
  create index proxies_by_type on proxies (type, checked_at desc, ping_ms, id);
  create index proxies_by_country on proxies (country, checked_at desc, ping_ms, id);
  create index proxies_by_type_country on proxies (type, country, checked_at desc, ping_ms, id);
  create index proxies_by_city on proxies (city_folded);
  create index proxies_by_city_en on proxies (city_en_folded);`

const { databaseFile, rowsFile, keys } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const isNew = !existsSync(databaseFile)
const db = new Database(databaseFile)
db.pragma('journal_mode = wal')
db.pragma('synchronous = normal')
if (isNew) await fill()

async function fill() {
  db.exec(SCHEMA)
  const addProxy = db.prepare(`insert into proxies values (${new Array(15).fill('?').join(',')})`)
  const addKey = db.prepare('insert into keys (hash) values (?)')
  db.exec('begin')
  for await (const line of createInterface({ input: createReadStream(rowsFile) })) {
    addProxy.run(...valuesOf(JSON.parse(line)))
  }
  for (const key of keys) addKey.run(hashOf(key))
  db.exec('commit')
  db.exec(INDEXES)
}

function valuesOf(row) {
  const [ip, port] = row.ip.split(':')
  const number = ip.split('.').reduce((bits, octet) => bits * 256 + Number(octet), 0)
  const services = SERVICES.reduce((mask, name, bit) => (row[name] ? mask | (1 << bit) : mask), 0)
  return [
    ...[number * 65536 + Number(port), row.ip, row.checked_at, Math.round(row.ping * 1000)],
    ...[row.type, row.anon, Number(row.works), row.speed, services],
    ...[row.country, row.city, row.city.toLowerCase(), row.city_en.toLowerCase()],
    ...[Number(port), row.ip_out],
  ]
}

function hashOf(key) {
  return createHash('sha256').update(key).digest()
}

const list = items => ({ type: 'string', pattern: `^(?:${items})(?:,(?:${items}))*$` })
const integer = (minimum, maximum) => ({ type: 'integer', minimum, maximum })
const QUERY = {
  type: 'object',
  required: ['key'],
  additionalProperties: false,
  properties: {
    key: { type: 'string', minLength: 1 },
    type: list(TYPES.join('|')),
    anon: list(ANONS.join('|')),
    country: list('[a-z]{2}'),
    cm: { type: 'string', enum: ['include', 'except'] },
    city: { type: 'string' },
    service: list([...SERVICES, 'the_service'].join('|')),
    ping: integer(0),
    speed: integer(0),
    works: integer(0, 100),
    time: { ...integer(0), default: 600 },
    port: integer(1, 65535),
    count: { ...integer(0), default: 0 },
    get: { type: 'string', enum: ['txt', 'json'], default: 'txt' },
  },
}

/** The conditions of a query, and the values of their parameters. */
function conditionsOf(query, nowSeconds) {
  const conditions = ['checked_at >= ?']
  const values = [nowSeconds - query.time]
  const add = (sql, ...more) => {
    conditions.push(sql)
    values.push(...more)
  }
  const addList = (column, text, not = '') => {
    const items = text.split(',')
    add(`${column} ${not}in (${items.map(() => '?').join(',')})`, ...items)
  }
  if (query.type) addList('type', query.type)
  if (query.anon) addList('anon', query.anon)
  if (query.country)
    addList('country', query.country.toUpperCase(), query.cm === 'except' ? 'not ' : '')
  if (query.city) {
    const name = query.city.toLowerCase()
    add('(city_folded = ? or city_en_folded = ?)', name, name)
  }
  if (query.ping !== undefined) add('ping_ms <= ?', query.ping)
  if (query.speed !== undefined) add('speed >= ?', query.speed)
  if (query.works !== undefined) add('works >= ?', query.works)
  if (query.port !== undefined) add('port = ?', query.port)
  if (query.service) {
    const names = query.service.replaceAll('_', ' ').split(',')
    const mask = names.reduce((bits, name) => bits | (1 << SERVICES.indexOf(name)), 0)
    add('services & ? = ?', mask, mask)
  }
  return { where: conditions.join(' and '), values }
}

const COLUMNS = {
  txt: 'address',
  json: 'address, ip_out, type, anon, speed, ping_ms, checked_at, country, city, works, services',
}
const statements = { txt: new Map(), json: new Map() }

/** The rows that match, as arrays of COLUMNS. */
function select(query, nowSeconds) {
  const { where, values } = conditionsOf(query, nowSeconds)
  let statement = statements[query.get].get(where)
  if (!statement) {
    const from = `select ${COLUMNS[query.get]} from proxies where ${where}`
    statement = db.prepare(`${from} order by checked_at desc, ping_ms, id limit ?`).raw()
    statements[query.get].set(where, statement)
  }
  return statement.all(...values, query.count || -1)
}

/** `2026-11-22 13:37:00`, in UTC+2. */
const timecheckOf = seconds =>
  new Date((seconds + 7200) * 1000).toISOString().slice(0, 19).replace('T', ' ')

function recordOf([ip, ip_out, type, anon, speed, pingMs, checkedAt, country, city, works, bits]) {
  const has = bit => (bits & (1 << bit)) !== 0
  return {
    ...{ ip, ip_out, type, anon, speed, ping: pingMs / 1000, timecheck: timecheckOf(checkedAt) },
    ...{ country, city, works: String(works) },
    ...{ smtp: has(0), telegram: has(1), avito: has(2), google: has(3), 'the service': has(4) },
  }
}

const WRITE = {
  txt: rows => `${rows.join('\n')}\n`, // rows of one column
  json: rows => JSON.stringify(rows.map(recordOf), null, 2),
}
const CONTENT_TYPES = {
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
}

const findKey = db.prepare('select id from keys where hash = ?').pluck()
const forget = db.prepare('delete from admissions where key_id = ? and at_ms <= ?')
const countAdmissions = db.prepare(
  'select count(*) as used, min(at_ms) as oldest from admissions where key_id = ?',
)
const record = db.prepare('insert into admissions (key_id, at_ms) values (?, ?)')
const requestsOf = db.prepare('select requests from days where key_id = ? and day = ?').pluck()
const countRequest = db.prepare(
  `insert into days (key_id, day, requests) values (?, ?, 1)
   on conflict (key_id, day) do update set requests = requests + 1`,
)

/** Admits a request or not, in one transaction; exact for every interval. */
const admit = db.transaction((keyId, nowMs) => {
  const windowMs = BURST.seconds * 1000
  const day = Math.floor(nowMs / 86_400_000)
  forget.run(keyId, nowMs - windowMs)
  const { used, oldest } = countAdmissions.get(keyId)
  const requests = requestsOf.get(keyId, day) ?? 0
  if (used >= BURST.requests || requests >= DAILY) {
    return { waitMs: (oldest ?? nowMs) + windowMs - nowMs, remaining: 0, requests }
  }
  record.run(keyId, nowMs)
  countRequest.run(keyId, day)
  return { waitMs: 0, remaining: BURST.requests - used - 1, requests: requests + 1 }
})

const error = (code, message) => ({
  status: 'error',
  code,
  message,
  timestamp: new Date().toISOString(),
})

const app = Fastify({ logger: false })
app.get('/api', { schema: { querystring: QUERY } }, (request, reply) => {
  const nowMs = Date.now()
  const keyId = findKey.get(hashOf(request.query.key))
  if (keyId === undefined) return reply.code(403).send(error('INVALID_KEY', 'the key is invalid'))
  const { waitMs, remaining, requests } = admit.immediate(keyId, nowMs)
  reply.headers({
    'x-request-id': request.id,
    'cache-control': 'private, no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'ratelimit-policy': POLICY,
    ratelimit: `"burst";r=${remaining};t=${BURST.seconds}, "daily";r=${DAILY - requests};t=86400`,
  })
  if (waitMs > 0) {
    reply.header('retry-after', Math.ceil(waitMs / 1000))
    return reply.code(429).send(error('RATE_LIMIT_EXCEEDED', 'too many requests'))
  }
  const rows = select(request.query, Math.floor(nowMs / 1000))
  if (rows.length === 0) {
    return reply.code(404).send(error('PROXIES_NOT_FOUND', 'no proxies match the filters'))
  }
  const { get } = request.query
  reply.headers({ 'content-type': CONTENT_TYPES[get], vary: 'Accept-Encoding' })
  return reply.send(WRITE[get](rows))
})

process.on('SIGTERM', () => process.exit(0))
process.on('SIGINT', () => process.exit(0))
process.stderr.write(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
