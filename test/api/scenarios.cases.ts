/**
 * The scenarios of spec and contract, rule by rule: what is asked, when, by whom, and what the
 * answer must and must not hold. Run in process and against the binary by `scenarios.test.ts`.
 */
import { type Limits, T0, type TestRow } from '../support/fixtures.ts'

/** The list every scenario asks; ages in seconds before T0. Each row is unique in the value that its name says. */
export const ROWS: readonly TestRow[] = [
  {
    ip: '192.0.2.1:1080',
    ip_out: '192.0.2.99',
    type: 'socks5',
    anon: 'elite',
    speed: 500000,
    ping: 0.532,
    age: 10,
    country: 'DE',
    city: 'Берлин',
    city_en: 'Berlin',
    works: 97,
    smtp: true,
    telegram: true,
    avito: false,
    google: true,
    'the service': false,
  },
  {
    ip: '192.0.2.2:8080',
    type: 'http',
    anon: 'anonymous',
    speed: 100,
    ping: 0.1,
    age: 20,
    country: 'FR',
    city: 'Париж',
    city_en: 'Paris',
    works: 95,
    google: true,
    'the service': true,
  },
  {
    ip: '198.51.100.3:443',
    type: 'https',
    anon: 'transparent',
    speed: 100000,
    ping: 2.5,
    age: 600,
    country: 'RU',
    city: 'Мышкин',
    works: 90,
    avito: true,
  },
  { ip: '203.0.113.4:4145', type: 'socks4', age: 30 },
  { ip: '203.0.113.5:4145', type: 'socks4', age: 601, country: 'US', works: 50, ping: 0 },
  { ip: '10.1.2.3:3128', type: 'http', age: 40, works: 99, country: 'DE', city: 'Köln' },
  { ip: '10.1.9.9:3128', type: 'http', age: 41, works: 98, country: 'DE', ip_out: '10.1.7.7' },
]

/** The plans of the scenarios; `free` sets no limit, so that filters can be asked at will. */
export const PLANS: { readonly [name: string]: Partial<Limits> } = {
  free: {},
  'two-records': { count: 2 },
  'three-a-day': { burst: { requests: 2, seconds: 5 }, daily: 3 },
  'two-subnets': { subnets: 2 },
  'one-client': { clients: 1 },
}

/** Distinctive, so that a leak cannot be missed. */
export const KEYS = {
  free: 'canary-free-0123456789',
  few: 'canary-few-0123456789',
  standard: 'canary-standard-0123456789',
  daily: 'canary-daily-0123456789',
  subnets: 'canary-subnets-0123456789',
  clients: 'canary-clients-0123456789',
  expiring: 'canary-expiring-0123456789',
  revoked: 'canary-revoked-0123456789',
  temp: 'temp_canary0123456789',
  tempOther: 'temp_canary9876543210',
  tempExpired: 'temp_canaryexpired',
} as const

/** What is stored of each. */
export const STORED = [
  { key: KEYS.free, plan: 'free' },
  { key: KEYS.few, plan: 'two-records' },
  { key: KEYS.standard, plan: 'standard' },
  { key: KEYS.daily, plan: 'three-a-day' },
  { key: KEYS.subnets, plan: 'two-subnets' },
  { key: KEYS.clients, plan: 'one-client' },
  { key: KEYS.expiring, plan: 'free', expiresAt: T0 + 60_000 },
  { key: KEYS.revoked, plan: 'free', revokedAt: T0 },
  { key: KEYS.temp, plan: null, expiresAt: T0 + 86_400_000 },
  { key: KEYS.tempOther, plan: null, expiresAt: T0 + 86_400_000 },
  { key: KEYS.tempExpired, plan: null, expiresAt: T0 },
]

export type Step = {
  /** Seconds after T0; the clock may also step back. */
  at?: number
  path?: string
  /** The query string, without key. */
  query?: string
  /** Sent as `key`; `null` sends none. */
  key?: string | null
  method?: string
  headers?: { [name: string]: string }
  status: number
  code?: string
  /** The whole body, or its parts. */
  body?: string
  contains?: readonly (string | RegExp)[]
  forbidden?: readonly (string | RegExp)[]
  answerHeaders?: { [name: string]: string | RegExp | null }
}
/** Steps without a key of their own use this scenario's. */
type Scenario = { name: string; key?: string | null; steps: readonly Step[] }

const [DE1, FR, RU, UNKNOWN, OLD, DE2, DE3] = ROWS.map(({ ip }) => String(ip))

/** A step that expects exactly these addresses, in this order, as text. */
const lists = (query: string, ...addresses: (string | undefined)[]): Step => ({
  query,
  status: 200,
  body: addresses.map(address => `${address}\n`).join(''),
})
const refuses = (query: string, ...contains: (string | RegExp)[]): Step => ({
  query,
  status: 400,
  code: 'INVALID_PARAMETER',
  contains,
})
const finds = (query: string): Step => ({ query, status: 404, code: 'PROXIES_NOT_FOUND' })
/** A step that finds nothing, and says why. */
const lacks = (query: string, why: string): Step => ({
  ...finds(query),
  contains: [`"message":"no proxies match the filters${why}"`],
})
/** The same from a client address. */
const by = (address: string, step: Step): Step => ({
  ...step,
  headers: { 'X-Forwarded-For': address },
})
const one = (name: string, ...steps: Step[]): Scenario => ({ name, steps })

/**
 * Each filter once, as it goes from the query to the list; `sqlite/proxies/select.test.ts` tests their
 * selects, and `query.test.ts` their reading.
 */
const FILTERS: readonly Scenario[] = [
  one(
    'filters the last 600 seconds, freshest check first (spec 4.1)',
    lists('', DE1, FR, UNKNOWN, DE2, DE3, RU),
    lists('type=%20SOCKS5,,https', DE1, RU),
    lists('anon=elite,transparent', DE1, RU),
    lists('ping=532', DE1, FR),
    lists('ping=531', FR),
    lists('speed=100000', DE1, RU),
    lists('works=98', DE2, DE3),
    lists('works=0', DE1, FR, DE2, DE3, RU), // an unknown value passes no filter on it (D2)
    lists('country=fr,ru', FR, RU),
    lists('country=de&cm=except', FR, UNKNOWN, RU), // and here an unknown country stays
    lists('country=de,ru&country_mode=except&cm=except', FR, UNKNOWN),
    finds('country=zz'),
    lists('city=berlin,ПАРИЖ,k%C3%96ln', DE1, FR, DE2),
    lists('city=Berlin,Мышкин&lang=en', DE1, RU),
    finds('city=Берлин&lang=en'),
    lists('port=3128', DE2, DE3),
    lists('ip=192.0.2.1:1080', DE1),
    finds('ip=192.0.2.1:1'),
    finds('city=the_service'), // the underscore stands for a space in service and fields only (A5)
    lists('service=google,smtp', DE1),
    lists('service=the_service', FR),
    lists('type=http&country=de&works=99', DE2),
    lists('count=2', DE1, FR),
    lists('count=0&time=20', DE1, FR), // not given (4.1)
    lists('type=&works=&time=&get=&country=,', ...[DE1, FR, UNKNOWN, DE2, DE3, RU]),
  ),
  one(
    'compares time to the second, by a moving clock (A4)',
    lists('time=40', DE1, FR, UNKNOWN, DE2),
    lists('time=601', DE1, FR, UNKNOWN, DE2, DE3, RU, OLD),
    { ...lists('time=40', DE1, FR, UNKNOWN), at: 0.001 },
    { ...lists('', DE1, FR, UNKNOWN, DE2, DE3), at: 1 },
    { ...finds('time=0'), at: 1 },
  ),
]

/** Contract F1; rows that say nothing are last, and ties are in the order of A4. */
const SORTS: readonly Scenario[] = [
  one(
    'sorts in each order, then cuts to count, given or of the plan (F1)',
    lists('sort=checked&count=3', DE1, FR, UNKNOWN),
    lists('sort=ping', FR, DE1, RU, UNKNOWN, DE2, DE3),
    lists('sort=speed', DE1, RU, FR, UNKNOWN, DE2, DE3),
    lists('sort=works', DE2, DE3, DE1, FR, RU, UNKNOWN),
    lists('sort=works&count=2', DE2, DE3),
    lists('sort=ping&time=601&count=1', OLD),
    lists('sort=speed&country=fr,ru', RU, FR),
    { ...lists('sort=works', DE2, DE3), key: KEYS.few },
  ),
  one(
    'gives each proxy once with sort=random, up to count (F1)',
    {
      query: 'sort=random',
      status: 200,
      contains: [DE1, FR, UNKNOWN, DE2, DE3, RU].map(address => `${address}\n`),
      forbidden: [/(?:.*\n){7}/, String(OLD)],
    },
    {
      query: 'sort=random&count=2&get=csv&fields=type',
      status: 200,
      contains: [/^type\r\n(?:(?:http|https|socks4|socks5)\r\n){2}$/],
    },
    lists('sort=random&count=1&type=socks5', DE1),
  ),
]

/** One of each kind; `not-found.test.ts` has them all. */
const REASONS: readonly Scenario[] = [
  one(
    'explains a 404 that has one reason (A2)',
    lacks('time=5', ': the newest check is 10 s old, and time allows 5 s'),
    lacks(
      'port=1&city=x&country=zz&time=5000',
      ': no proxy in the list has the given country, city or port',
    ),
    lacks('city=%CC%81', ': no proxy in the list has the given city'), // accents alone
    lacks('country=fr&port=1080', ''),
  ),
  one('says in a 404 that demo gets works=90 (A2)', {
    ...by('198.18.9.1', lacks('type=socks4', '; without works, the demo key gets works=90')),
    key: 'demo',
  }),
]

/** The path of a refusal to the wire, once; `params.test.ts` has all refusals. */
const BAD_VALUES: readonly Scenario[] = [
  one(
    'names the parameter and its values in a refusal (A3)',
    refuses('works=101', 'works must be an integer from 0 to 100'),
    refuses('contry=', "unknown parameter 'contry'; did you mean 'country'?"),
    refuses('city=%FF', 'UTF-8'),
    refuses('works=1&works=2', 'works may be given only once'),
    lists('type=SOCKS5&anon=Elite&country=De&service=SMTP&type_prefix=FALSE', DE1),
    lists('fields=nope&split_ip=9&format=x&wrap=%FF&pretty=z&wrap=1&count=1', DE1),
  ),
]

const ACCESS: readonly Scenario[] = [
  one(
    'refuses a missing key (spec 5)',
    { key: null, status: 400, code: 'KEY_MISSING' },
    { key: '', status: 400, code: 'KEY_MISSING' },
  ),
  one(
    'refuses unknown, revoked and expired keys (spec 5)',
    { key: 'wrong', status: 403, code: 'INVALID_KEY' },
    { key: KEYS.revoked, status: 403, code: 'INVALID_KEY' },
    { key: 'temp_unknown', status: 403, code: 'TEMP_KEY_INVALID' },
    { key: KEYS.tempExpired, status: 403, code: 'TEMP_KEY_INVALID' },
  ),
  one(
    'refuses a key after its expiry (B1)',
    { key: KEYS.expiring, at: 59, status: 200 },
    { key: KEYS.expiring, at: 60, status: 403, code: 'INVALID_KEY' },
  ),
  one(
    'takes a key from the Authorization header (B1)',
    { key: null, headers: { Authorization: `Bearer ${KEYS.free}` }, ...lists('count=1', DE1) },
    { headers: { Authorization: `Bearer ${KEYS.free}` }, ...lists('count=1', DE1) },
    { headers: { Authorization: 'Bearer other' }, ...refuses('', 'key') },
  ),
  one(
    'limits count by the plan (spec 8)',
    { ...lists('', DE1, FR), key: KEYS.few },
    { ...lists('count=1', DE1), key: KEYS.few },
    { ...lists('count=3', DE1, FR), key: KEYS.few },
  ),
]

type Fields = NonNullable<Step['answerHeaders']>
/** A step at an instant that is answered, and one that a limit refuses: until when, and with which fields. */
const ok = (at: number, query = '', answerHeaders: Fields = {}): Step => ({
  ...{ at, query, status: 200, answerHeaders },
})
const full = (at: number, code: string, seconds?: number, more: Partial<Step> = {}): Step => ({
  ...{ at, status: 429, code, ...more },
  contains: [
    ...(seconds === undefined ? [] : [`"retry_after":${seconds}`]),
    ...(more.contains ?? []),
  ],
  answerHeaders: { ...(seconds && { 'retry-after': `${seconds}` }), ...more.answerHeaders },
})
const nothing = (at: number, query: string): Step => ({ at, ...finds(query) })

const LIMITS: readonly Scenario[] = [
  {
    name: 'allows five requests in any five seconds, with an exact retry_after (B3)',
    key: KEYS.standard,
    steps: [
      ...[0, 1, 2, 3, 4].map(at => ok(at)),
      full(4.5, 'RATE_LIMIT_EXCEEDED', 1, {
        answerHeaders: { 'ratelimit-policy': '"burst";q=5;w=5, "daily";q=34560;w=86400' },
      }),
      full(4.999, 'RATE_LIMIT_EXCEEDED'),
      ok(5),
      full(5.5, 'RATE_LIMIT_EXCEEDED'),
      ok(6),
    ],
  },
  {
    name: 'limits requests a day until midnight UTC (B6)',
    key: KEYS.daily,
    steps: [
      ok(0),
      nothing(10, 'country=zz'),
      ok(20, '', { ratelimit: '"burst";r=1;t=5, "daily";r=0;t=43180' }),
      full(21, 'DAILY_LIMIT_REACHED', 43_179, { contains: ['"daily_limit":3'] }),
      full(43_199, 'DAILY_LIMIT_REACHED', 1),
      ok(43_200, 'time=99999'),
    ],
  },
  {
    name: 'refuses an answer over the subnet quota (B6)',
    key: KEYS.subnets,
    steps: [
      ok(0, 'country=de'),
      ok(0, 'count=2'),
      full(0, 'SUBNET_LIMIT_REACHED', 43_200, {
        ...{ query: 'country=ru', contains: ['"used_subnets":2'] },
      }),
      ok(0, 'country=fr'),
      nothing(0, 'country=zz'),
      ok(43_200, 'country=ru&time=99999'),
    ],
  },
  {
    name: 'limits client networks a day (B2)',
    key: KEYS.clients,
    steps: [
      by('198.18.0.1', { status: 200 }),
      by('198.18.99.1', { status: 200 }),
      by(
        '198.19.0.1',
        full(0, 'SUBNET_LIMIT_REACHED', undefined, { contains: ['"used_subnets":1'] }),
      ),
    ],
  },
  {
    name: 'allows demo 2 requests a minute for each address, masked, works=90 (B4)',
    key: 'demo',
    steps: [
      by('198.18.1.1', {
        ...lists('', '192.0.0.0:1080', '192.0.0.0:8080', '10.1.0.0:3128', '198.51.0.0:443'),
        at: 0,
      }),
      by('198.18.1.1', { ...lists('ip=10.1.0.0:3128', '10.1.0.0:3128'), at: 1 }),
      by('198.18.1.1', full(1, 'DEMO_LIMIT_REACHED', 59)),
      by('198.18.1.2', nothing(1, 'ip=10.1.2.3:3128')),
      by('198.18.1.1', {
        ...ok(60, 'get=json&ip=192.0.0.0:1080&wrap=1'),
        contains: ['"ip": "192.0.0.0:1080"', '"ip_out": "192.0.0.0"', '"works": 90', '"count": 50'],
        forbidden: ['192.0.2'],
      }),
      by('2001:db8:1:2::1', ok(60)),
      by('2001:db8:1:2::2', ok(60)),
      by('2001:db8:1:2:3::3', full(60, 'DEMO_LIMIT_REACHED')),
      by('2001:db8:1:3::1', ok(60)),
    ],
  },
  {
    name: 'allows temp_ keys 2 requests an hour by key and by address, unmasked (B5)',
    key: KEYS.temp,
    steps: [
      by('198.18.2.1', { ...lists('count=1', DE1), at: 0 }),
      by('198.18.2.2', { ...ok(1, 'get=json&wrap=1'), contains: ['"count": 30'] }),
      by('198.18.2.3', full(2, 'TEMP_LIMIT_REACHED', 3598)),
      ...[ok(3), full(4, 'TEMP_LIMIT_REACHED', 3596)].map(step => ({
        ...by('198.18.2.1', step),
        key: KEYS.tempOther,
      })),
      by('198.18.2.4', { ...ok(5), key: KEYS.tempOther }),
    ],
  },
]

const DE1_JSON = `[
  {
    "ip": "192.0.2.1:1080",
    "ip_out": "192.0.2.99",
    "type": "socks5",
    "anon": "elite",
    "speed": 500000,
    "ping": 0.532,
    "timecheck": "2026-11-20 13:59:50",
    "country": "DE",
    "city": "Берлин",
    "works": "97",
    "smtp": true,
    "telegram": true,
    "avito": false,
    "google": true,
    "the service": false
  }
]`

/** The forms of an answer, with their media types, a query and its body. */
const FORMS = [
  ['txt', 'text/plain; charset=utf-8', 'count=1', `${DE1}\n`],
  ['json', 'application/json; charset=utf-8', 'count=1', DE1_JSON],
  [
    ...(['csv', 'text/csv; charset=utf-8; header=present'] as const),
    'count=2&fields=ip,ping,city,smtp&split_ip=1',
    'ip,ping,city,smtp\r\n192.0.2.1,0.532,Берлин,true\r\n192.0.2.2,0.1,Париж,false\r\n',
  ],
  [
    ...(['ndjson', 'application/x-ndjson', 'count=2&fields=ip,speed,city&lang=en'] as const),
    '{"ip":"192.0.2.1:1080","speed":500000,"city":"Berlin"}\n' +
      '{"ip":"192.0.2.2:8080","speed":100,"city":"Paris"}\n',
  ],
] as const

const OUTPUT: readonly Scenario[] = [
  one(
    'fills the template line, where https is http (F2)',
    {
      query: 'count=2&line=%7Bscheme%7D+%7Bip%7D+%7Bport%7D+%7Bcountry%7D',
      status: 200,
      body: 'socks5 192.0.2.1 1080 DE\nhttp 192.0.2.2 8080 FR\n',
    },
    {
      query: 'type=https&line={type}={scheme}://{ip}:{port}',
      status: 200,
      body: 'https=http://198.51.100.3:443\n',
    },
  ),
  one('shows unique in the envelope (F2)', {
    query: 'get=json&wrap=1&pretty=0&unique=1&count=1&fields=ip,types',
    status: 200,
    contains: ['"unique":1', `[{"ip":"${DE1}","types":["socks5"]}]`],
  }),
  one('wraps records into an envelope (A6)', {
    query: 'get=json&wrap=1&pretty=0&fields=ip&type=SOCKS5,http&country=DE&count=1',
    status: 200,
    body:
      '{"status":"ok","count":1,"timestamp":"2026-11-20T12:00:00.000Z","filters":{"type":"http,socks5",' +
      '"time":600,"country":"de","country_mode":"include","count":1,"lang":"ru"},"data":[{"ip":"192.0.2.1:1080"}]}',
  }),
  one(
    'sends inline answers and downloads with one different header (A8, F2)',
    ...FORMS.flatMap(([kind, type, query, body]) =>
      [kind, `${kind}.file`].map(get => ({
        ...{ query: `get=${get}&${query}`, status: 200, body },
        answerHeaders: {
          'content-type': type,
          'content-disposition': get === kind ? null : `attachment; filename="proxies.${kind}"`,
        },
      })),
    ),
    { query: 'get=csv&country=zz', status: 404, code: 'PROXIES_NOT_FOUND' },
    lists('get=txt&count=1', DE1),
  ),
  one(
    'sends the same headers with every answer (A8)',
    ...[
      { status: 200 },
      { query: 'works=x', status: 400, code: 'INVALID_PARAMETER' },
      { key: 'wrong', status: 403, code: 'INVALID_KEY' },
      { query: 'country=zz', status: 404, code: 'PROXIES_NOT_FOUND' },
      { method: 'PUT', status: 405, code: 'METHOD_NOT_ALLOWED' },
    ].map(step => ({
      ...step,
      answerHeaders: {
        'cache-control': 'private, no-store',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-request-id': /^[\w-]{33}$/,
        'content-type':
          step.status === 200 ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8',
      },
    })),
  ),
  one('sends no RateLimit fields for a key without windows (A8)', {
    status: 200,
    answerHeaders: { ratelimit: null, 'ratelimit-policy': null },
  }),
]

const ROUTES: readonly Scenario[] = [
  one('answers /api/ like /api (A1)', { ...lists('count=1', DE1), path: '/api/' }),
  one(
    'answers and counts HEAD like GET, without the body (A1)',
    {
      method: 'HEAD',
      query: 'count=1',
      status: 200,
      body: '',
      answerHeaders: { 'content-type': 'text/plain; charset=utf-8' },
    },
    ...[ok(0), ok(0), full(0, 'DEMO_LIMIT_REACHED')].map(step => ({
      ...by('198.18.3.1', step),
      ...{ key: 'demo', method: step.status === 200 ? 'HEAD' : 'GET' },
    })),
  ),
  ...['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'].map(method =>
    one(
      `refuses ${method} (A1)`,
      { method, status: 405, code: 'METHOD_NOT_ALLOWED', answerHeaders: { allow: 'GET, HEAD' } },
      { method, path: '/api/', status: 405, code: 'METHOD_NOT_ALLOWED' },
    ),
  ),
  ...['/API', '/api/v1', '/ap', '/api%2f', '/keys', '/key/x', '/docs/x', '/openapi'].map(path =>
    one(`has no ${path} (A1)`, { path, status: 404, code: 'NOT_FOUND' }),
  ),
  one(
    'answers each other route (F3, F4, F5, F6)',
    {
      ...{ path: '/key', key: null, headers: { Authorization: `Bearer ${KEYS.few}` }, status: 200 },
      contains: ['"plan":"two-records","state":"active"', '"today":{"requests":'],
    },
    { path: '/stats', key: null, status: 200, contains: ['"total":7,"matching":6'] },
    { path: '/openapi.json', key: null, status: 200, contains: ['"openapi":"3.1.1"'] },
    { path: '/docs', key: null, status: 200, contains: ['id="parameter-type"'] },
    { path: '/', key: null, status: 200, contains: ['<title>proxylist</title>'] },
  ),
  one(
    'answers browsers and crawlers',
    { path: '/favicon.ico', key: null, status: 204, body: '' },
    { path: '/robots.txt', key: null, status: 200, contains: ['Disallow: /api\n'] },
  ),
  one(
    'needs no key for health and readiness (E)',
    { path: '/healthz', key: null, status: 200, body: 'ok\n' },
    { path: '/readyz', key: null, status: 200 },
    { path: '/healthz', method: 'POST', status: 405, code: 'METHOD_NOT_ALLOWED' },
  ),
]

export const SCENARIOS: readonly Scenario[] = [
  ...FILTERS,
  ...SORTS,
  ...REASONS,
  ...BAD_VALUES,
  ...ACCESS,
  ...LIMITS,
  ...OUTPUT,
  ...ROUTES,
]
