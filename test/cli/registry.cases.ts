/** Transcripts of the `keys` and `plans` commands; see `transcript.ts` for their form. */
import { fails, prints, type Step, says, type Transcript } from '../support/transcript.ts'

const KEY_LINE = /^pl_[A-Za-z0-9]{32}\n$/
const TEMP_LINE = /^temp_[A-Za-z0-9]{32}\n$/
const PLANS = `NAME      BURST    DAILY      SUBNETS    CLIENTS    COUNT      DOWNLOADS  ENABLED
classic   2/5s     34560      10         unlimited  unlimited  4          on
demo      2/60s    unlimited  unlimited  unlimited  50         1          on
standard  5/5s     34560      unlimited  unlimited  unlimited  4          on
temp      2/3600s  unlimited  unlimited  unlimited  30         1          on
`
const SMALL = 'small     2/5s     1000       10         unlimited  100        4          on\n'
const UNLIMITED = { subnets: 'unlimited', clients: 'unlimited', count: 'unlimited' }
const row = (name: string, more: object): object => ({
  ...{ name, burst: '5/5s', daily: 34560, ...UNLIMITED, downloads: 4, enabled: true },
  ...more,
})
const BUILT_IN = [
  row('classic', { burst: '2/5s', subnets: 10 }),
  row('demo', { burst: '2/60s', daily: 'unlimited', count: 50, downloads: 1 }),
  row('standard', {}),
  row('temp', { burst: '2/3600s', daily: 'unlimited', count: 30, downloads: 1 }),
]

/** Makes a data directory with the built-in plans and no key. */
const MADE = says('plans set standard', /^plan standard: /)
const KNOWN = /^proxylist: this key exists already, with id [a-z0-9]{8}\n$/

const given = (stdin: string, key: string): Step => ({
  ...prints('keys add --key -', `${key}\n`, /^key [a-z0-9]{8} on plan standard, /),
  stdin,
})
const refused = (stdin: string, says: string): Step => ({
  ...fails('keys add --key -', `proxylist: the key on stdin must be ${says}\n`, 2),
  stdin,
})
const FORM = '16 to 256 characters without white space, not demo and not starting with temp_'

export const KEYS: readonly Transcript[] = [
  {
    name: 'keys add prints the key alone on stdout, and on stderr its id, its plan and its end',
    steps: [
      prints('keys add', KEY_LINE, /^key [a-z0-9]{8} on plan standard, /),
      prints('keys add --expires 30d', KEY_LINE, /until 2026-12-20T12:00:00\.000Z/),
      prints(
        'keys add --expires 2027-01-31T00:00:00+02:00',
        KEY_LINE,
        /until 2027-01-30T22:00:00\.000Z/,
      ),
    ],
  },
  {
    name: 'keys add takes a given key once',
    steps: [
      prints('keys add --key 5f4dcc3b5aa765d6', '5f4dcc3b5aa765d6\n', /./),
      fails('keys add --key 5f4dcc3b5aa765d6 --plan classic', KNOWN),
    ],
  },
  {
    name: 'keys add --key - reads the key from a line of stdin',
    steps: [
      given('one-0123456789abcdef', 'one-0123456789abcdef'),
      given('four-ключ-0123456789abc\r\n\r\n', 'four-ключ-0123456789abc'),
      given(`${'x'.repeat(256)}\n`, 'x'.repeat(256)),
      {
        ...fails('keys add', KNOWN),
        ...{ env: { PROXYLIST_KEY: '-' }, stdin: 'one-0123456789abcdef\n' },
      },
    ],
  },
  {
    name: 'keys add --key - refuses several lines and bad keys without repeating them',
    steps: [
      refused('one-0123456789abcdef\ntwo-0123456789abcdef\n', 'one line'),
      refused(`one-0123456789abcdef\n${'y'.repeat(100_000)}`, 'one line'),
      ...['', '\nlate-0123456789abcdef\n', ' spaced-0123456789abcdef\n', 'temp_0123456789abcdef\n']
        .concat('x'.repeat(100_000), 'nul-\0-0123456789abcdef\n')
        .map(stdin => refused(stdin, FORM)),
      MADE,
      prints('keys list --json', '[]\n'),
    ],
  },
  {
    name: 'keys temp prints the key alone, which lasts a day or --ttl',
    steps: [
      prints('keys temp', TEMP_LINE, /until 2026-11-21T12:00:00\.000Z/),
      prints('keys temp --ttl 1h --label trial', TEMP_LINE, /until 2026-11-20T13:00:00\.000Z/),
    ],
  },
  {
    name: 'keys list without keys is a header or an empty array',
    steps: [
      MADE,
      prints('keys list', /^ID +PREFIX +PLAN +STATE +EXPIRES [^\n]*LABEL +NOTE\n$/),
      prints('keys list --json', '[]\n'),
    ],
  },
  {
    name: 'keys export without keys prints nothing, and keys import says that there are none',
    steps: [
      MADE,
      prints('keys export', ''),
      { ...says('keys import -', '-: note: no key was found\n0 keys are imported\n'), stdin: '\n' },
    ],
  },
]

export const PLAN_STEPS: readonly Transcript[] = [
  {
    name: 'plans list shows the built-in plans, as a table and as JSON',
    steps: [
      MADE,
      prints('plans list', PLANS),
      prints('plans list --json', `${JSON.stringify(BUILT_IN, null, 2)}\n`),
    ],
  },
  {
    name: 'plans set makes a plan like standard, and changes only what is given',
    steps: [
      says(
        'plans set small --burst 2/5s --daily 1000 --subnets 10 --count 100',
        'plan small: burst 2/5s, daily 1000, subnets 10, clients unlimited, count 100, ' +
          'downloads 4, enabled on\n',
      ),
      prints('plans list', PLANS.replace('standard', `${SMALL}standard`)),
      says('plans set classic --burst unlimited', /burst unl.*daily 34560/),
      says('plans set classic --clients 3', /burst unl.*clients 3/),
      says('plans set plain', /^plan plain: burst 5\/5s, daily 34560, /),
    ],
  },
  {
    name: 'plans set changes demo and temp',
    steps: [
      says(
        'plans set demo --burst 1/10s --count 5 --daily 20 --downloads 2',
        'plan demo: burst 1/10s, daily 20, subnets unlimited, clients unlimited, count 5, ' +
          'downloads 2, enabled on\n',
      ),
      says(
        'plans set temp --enabled off --downloads unlimited',
        /^plan temp: burst 2\/3600s, .*downloads unlimited, enabled off\n$/,
      ),
    ],
  },
  {
    name: 'plans remove removes a plan unless a key uses it',
    steps: [
      says('plans set small', /^plan small: /),
      says('plans remove small', 'plan small is removed\n'),
      prints('plans list', PLANS),
      says('plans set small', /^plan small: /),
      prints('keys add --plan small', KEY_LINE, /on plan small/),
      fails('plans remove small', /small is used by keys \(1, /),
      prints('plans list', /^small /m),
    ],
  },
]

const TEXT = { 'a.txt': '192.0.2.1:80\n' }
const IMPORTED = /^\{"read":1,/

/** Environment twins. What each accepts is in `config/settings.test.ts`. */
export const TWINS: readonly Transcript[] = [
  {
    name: 'a variable sets what no flag sets',
    files: TEXT,
    steps: [
      {
        ...prints('import a.txt', IMPORTED),
        env: { PROXYLIST_TYPE: 'socks4', PROXYLIST_JSON: '1' },
      },
      prints('list type_prefix=1', 'socks4://192.0.2.1:80\n'),
      {
        ...says('plans set small', /^plan small: burst 1\/7s, daily 9, .* count 8, downloads 4, /),
        env: { PROXYLIST_BURST: '1/7s', PROXYLIST_DAILY: '9', PROXYLIST_COUNT: '8' },
      },
      {
        ...prints('keys add', KEY_LINE, /on plan small, until 2026-11-20T13:00:00/),
        env: { PROXYLIST_PLAN: 'small', PROXYLIST_EXPIRES: '1h' },
      },
      { ...prints('plans list --json', /^\[/), env: { PROXYLIST_JSON: '0' } },
    ],
  },
  {
    name: 'a flag wins over a bad variable, which is an error without the flag',
    files: TEXT,
    steps: [
      {
        ...prints('import a.txt --type http --json', IMPORTED),
        env: { PROXYLIST_TYPE: 'ftp' },
      },
      prints('list type_prefix=1', 'http://192.0.2.1:80\n'),
      {
        ...fails('import a.txt', /^proxylist: PROXYLIST_FORMAT must be [^\n]+\n$/, 2),
        env: { PROXYLIST_FORMAT: 'perhaps' },
      },
    ],
  },
  {
    name: 'the data directory is --data, else PROXYLIST_DATA, else STATE_DIRECTORY',
    steps: [
      { ...says('plans set a-state', /^plan a-state/), env: { STATE_DIRECTORY: 's' } },
      ...['a-twin', 'a-flag --data f/deep'].map(plan => ({
        ...says(`plans set ${plan}`, /^plan a-/),
        env: { STATE_DIRECTORY: 's', PROXYLIST_DATA: 't' },
      })),
      ...Object.entries({ s: 'a-state', t: 'a-twin', 'f/deep': 'a-flag' }).map(([dir, plan]) =>
        prints(`plans list --data ${dir}`, new RegExp(`^NAME .*\\n${plan} .*\\nclassic `)),
      ),
    ],
  },
]
