/** Transcripts of the `keys` and `plans` commands; see `transcript.ts` for their form. */
import type { Step, Transcript } from '../support/transcript.ts'

const KEY_LINE = /^pl_[A-Za-z0-9]{32}\n$/
const PLANS = `NAME      BURST    DAILY      SUBNETS    CLIENTS    COUNT      DOWNLOADS  ENABLED
classic   2/5s     34560      10         unlimited  unlimited  4          on
demo      2/60s    unlimited  unlimited  unlimited  50         1          on
standard  5/5s     34560      unlimited  unlimited  unlimited  4          on
temp      2/3600s  unlimited  unlimited  unlimited  30         1          on
`
const SMALL = 'small     2/5s     1000       10         unlimited  100        4          on\n'
const row = (name: string, more: object): object => ({
  name,
  burst: '5/5s',
  daily: 34560,
  subnets: 'unlimited',
  clients: 'unlimited',
  count: 'unlimited',
  downloads: 4,
  enabled: true,
  ...more,
})
const DEMO = row('demo', { burst: '2/60s', daily: 'unlimited', count: 50, downloads: 1 })
const TEMP = row('temp', { burst: '2/3600s', daily: 'unlimited', count: 30, downloads: 1 })
const CLASSIC = row('classic', { burst: '2/5s', subnets: 10 })
const pretty = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Makes a data directory with the built-in plans and no key. */
const MADE = { args: 'plans set standard', stderr: /^plan standard: / }

const noKey = (stdin: string, says: string): Step => ({
  ...{ args: 'keys add --key -', stdin, exitCode: 2 },
  stderr: `proxylist: the key on stdin must be ${says}\n`,
})

export const KEYS: readonly Transcript[] = [
  {
    name: 'keys add prints the key alone on stdout, and on stderr its id, its plan and when it ends',
    steps: [
      { args: 'keys add', stdout: KEY_LINE, stderr: /^key [a-z0-9]{8} on plan standard, / },
      ...[
        ['30d', '2026-12-20T12:00:00.000Z'],
        ['2027-01-31T00:00:00+02:00', '2027-01-30T22:00:00.000Z'],
      ].map(([when = '', until = '']) => ({
        args: ['keys', 'add', '--expires', when],
        stdout: KEY_LINE,
        stderr: new RegExp(`until ${until.replaceAll('.', '\\.')}`),
      })),
    ],
  },
  {
    name: 'keys add refuses a plan there is not, names those there are, and makes no key',
    steps: [
      {
        args: 'keys add --plan gold',
        exitCode: 1,
        stderr: "proxylist: there is no plan 'gold' for keys; plans are classic, standard\n",
      },
      { args: 'keys list --json', stdout: '[]\n' },
    ],
  },
  {
    name: 'keys add takes a key of any form once',
    steps: [
      { args: 'keys add --key 5f4dcc3b5aa765d6', stdout: '5f4dcc3b5aa765d6\n', stderr: /./ },
      {
        args: 'keys add --key 5f4dcc3b5aa765d6 --plan classic',
        exitCode: 1,
        stderr: /^proxylist: this key exists already, with id [a-z0-9]{8}\n$/,
      },
    ],
  },
  {
    name: 'keys add --key - takes the key from the line of stdin',
    steps: [
      ...[
        ['one-0123456789abcdef', 'one-0123456789abcdef'],
        ['four-ключ-0123456789abc', 'four-ключ-0123456789abc\r\n\r\n'],
        ['x'.repeat(256), `${'x'.repeat(256)}\n`],
      ].map(([key = '', stdin = '']) => ({
        args: 'keys add --key -',
        stdin,
        stdout: `${key}\n`,
        stderr: /^key [a-z0-9]{8} on plan standard, /,
      })),
      {
        args: 'keys add',
        env: { PROXYLIST_KEY: '-' },
        stdin: 'one-0123456789abcdef\n',
        exitCode: 1,
        stderr: /^proxylist: this key exists already, with id [a-z0-9]{8}\n$/,
      },
    ],
  },
  {
    name: 'keys add --key - refuses what is no key, or more than one, without repeating it, and makes none',
    steps: [
      ...[
        'one-0123456789abcdef\ntwo-0123456789abcdef\n',
        `one-0123456789abcdef\n${'y'.repeat(100_000)}`,
      ].map(stdin => noKey(stdin, 'one line')),
      ...['', '\nlate-0123456789abcdef\n', ' spaced-0123456789abcdef\n', 'temp_0123456789abcdef\n']
        .concat('x'.repeat(100_000), 'nul-\0-0123456789abcdef\n')
        .map(stdin =>
          noKey(
            stdin,
            '16 to 256 characters without white space, not demo and not starting with temp_',
          ),
        ),
      MADE,
      { args: 'keys list --json', stdout: '[]\n' },
    ],
  },
  {
    name: 'keys temp prints the key alone; it lasts a day unless --ttl says otherwise',
    steps: [
      {
        args: 'keys temp',
        stdout: /^temp_[A-Za-z0-9]{32}\n$/,
        stderr: /until 2026-11-21T12:00:00\.000Z/,
      },
      {
        args: 'keys temp --ttl 1h --label trial',
        stdout: /^temp_[A-Za-z0-9]{32}\n$/,
        stderr: /until 2026-11-20T13:00:00\.000Z/,
      },
    ],
  },
  {
    name: 'keys list without a key is a header, or an empty array',
    steps: [
      MADE,
      { args: 'keys list', stdout: /^ID +PREFIX +PLAN +STATE +EXPIRES [^\n]*LABEL +NOTE\n$/ },
      { args: 'keys list --json', stdout: '[]\n' },
    ],
  },
]

export const PLAN_STEPS: readonly Transcript[] = [
  {
    name: 'plans list shows the built-in plans, as a table and as JSON',
    steps: [
      MADE,
      { args: 'plans list', stdout: PLANS },
      { args: 'plans list --json', stdout: pretty([CLASSIC, DEMO, row('standard', {}), TEMP]) },
    ],
  },
  {
    name: 'plans set makes a plan like standard but for what is given, and changes only that; unlimited lifts a limit',
    steps: [
      {
        args: 'plans set small --burst 2/5s --daily 1000 --subnets 10 --count 100'.split(' '),
        stderr:
          'plan small: burst 2/5s, daily 1000, subnets 10, clients unlimited, count 100, ' +
          'downloads 4, enabled on\n',
      },
      { args: 'plans list', stdout: PLANS.replace('standard', `${SMALL}standard`) },
      { args: 'plans set classic --burst unlimited', stderr: /burst unl.*daily 34560/ },
      { args: 'plans set classic --clients 3', stderr: /burst unl.*clients 3/ },
      { args: 'plans set plain', stderr: /^plan plain: burst 5\/5s, daily 34560, / },
    ],
  },
  {
    name: 'plans set refuses a name no option could give, and one that would do nothing',
    steps: [
      { args: ['plans', 'set', 'Big Plan'], exitCode: 2, stderr: /^proxylist: NAME must be / },
      {
        args: 'plans set temp_x',
        exitCode: 2,
        stderr:
          'proxylist: NAME must not start with temp_: the plan of all temporary keys is temp\n',
      },
    ],
  },
  {
    name: 'plans set demo and temp change them; what they do not count is refused',
    steps: [
      {
        args: 'plans set demo --burst 1/10s --count 5 --daily 20 --downloads 2'.split(' '),
        stderr:
          'plan demo: burst 1/10s, daily 20, subnets unlimited, clients unlimited, count 5, ' +
          'downloads 2, enabled on\n',
      },
      {
        args: 'plans set temp --enabled off --downloads unlimited',
        stderr: /^plan temp: burst 2\/3600s, .*downloads unlimited, enabled off\n$/,
      },
      ...['--subnets', '--clients'].map(flag => ({
        args: ['plans', 'set', 'demo', flag, '3'],
        exitCode: 2,
        stderr: 'proxylist: plan demo counts no networks: it has no --subnets and --clients\n',
      })),
      ...['demo', 'temp'].flatMap(plan => [
        { args: ['plans', 'remove', plan], exitCode: 1, stderr: /is built in and stays/ },
        {
          args: ['keys', 'add', '--plan', plan],
          exitCode: 1,
          stderr: `proxylist: there is no plan '${plan}' for keys; plans are classic, standard\n`,
        },
      ]),
    ],
  },
  {
    name: 'plans remove removes a plan, once, and keeps a built-in one and one that a key uses',
    steps: [
      { args: 'plans set small', stderr: /^plan small: / },
      { args: 'plans remove small', stderr: 'plan small is removed\n' },
      { args: 'plans list', stdout: PLANS },
      { args: 'plans remove small', exitCode: 1, stderr: /there is no plan of this name/ },
      { args: 'plans remove classic', exitCode: 1, stderr: /classic is built in/ },
      { args: 'plans set small', stderr: /^plan small: / },
      { args: 'keys add --plan small', stdout: KEY_LINE, stderr: /on plan small/ },
      { args: 'plans remove small', exitCode: 1, stderr: /small is used by keys \(1, / },
      { args: 'plans list', stdout: /^small /m },
    ],
  },
]

const TEXT = { 'a.txt': '192.0.2.1:80\n' }
const IMPORTED = /^\{"read":1,/

/** Environment twins: flags win over them. What each accepts is in `config/settings.test.ts`. */
export const TWINS: readonly Transcript[] = [
  {
    name: 'a twin gives what no flag gives',
    files: TEXT,
    steps: [
      {
        args: 'import a.txt',
        env: { PROXYLIST_TYPE: 'socks4', PROXYLIST_JSON: '1' },
        stdout: IMPORTED,
      },
      { args: 'list type_prefix=1', stdout: 'socks4://192.0.2.1:80\n' },
      {
        args: 'plans set small',
        env: { PROXYLIST_BURST: '1/7s', PROXYLIST_DAILY: '9', PROXYLIST_COUNT: '8' },
        stderr: /^plan small: burst 1\/7s, daily 9, .* count 8, downloads 4, enabled on\n$/,
      },
      {
        args: 'keys add',
        env: { PROXYLIST_PLAN: 'small', PROXYLIST_EXPIRES: '1h' },
        stdout: KEY_LINE,
        stderr: /on plan small, until 2026-11-20T13:00:00/,
      },
      { args: 'plans list --json', env: { PROXYLIST_JSON: '0' }, stdout: /^\[/ },
    ],
  },
  {
    name: 'the flag wins over its twin, even over a bad one, which is named where there is no flag',
    files: TEXT,
    steps: [
      { args: 'import a.txt --type http --json', env: { PROXYLIST_TYPE: 'ftp' }, stdout: IMPORTED },
      { args: 'list type_prefix=1', stdout: 'http://192.0.2.1:80\n' },
      ...[
        ['import a.txt', 'PROXYLIST_FORMAT'],
        ['plans list', 'PROXYLIST_JSON'],
      ].map(([args = '', name = '']) => ({
        ...{ args, env: { [name]: 'perhaps' }, exitCode: 2 },
        stderr: new RegExp(`^proxylist: ${name} must be [^\\n]+\\n$`),
      })),
    ],
  },
  {
    name: 'the data directory: --data, else PROXYLIST_DATA, else STATE_DIRECTORY',
    steps: [
      { args: 'plans set a-state', env: { STATE_DIRECTORY: 's' }, stderr: /^plan a-state/ },
      ...['a-twin', 'a-flag --data f/deep'].map(plan => ({
        args: `plans set ${plan}`,
        env: { STATE_DIRECTORY: 's', PROXYLIST_DATA: 't' },
        stderr: /^plan a-/,
      })),
      ...Object.entries({ s: 'a-state', t: 'a-twin', 'f/deep': 'a-flag' }).map(([dir, plan]) => ({
        args: ['plans', 'list', '--data', dir],
        stdout: new RegExp(`^NAME .*\\n${plan} .*\\nclassic `),
      })),
    ],
  },
]
