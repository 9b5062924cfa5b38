/** The table of options. Flags, environment variables and `--help` are made from it. */
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { TYPES } from '../proxies/proxy.ts'
import { type Environment, TEST_CLOCK } from './environment.ts'
import * as parsers from './parsers.ts'

/** One option. `value` names its argument; a switch has none. */
type Setting = {
  value?: string
  help: string
  /** The name of the flag if two commands share it, such as `listen`. By default the name of the setting. */
  flag?: string
  /** Whether the flag may be repeated. `read` receives all strings, one per line. */
  isRepeatable?: boolean
  /** The default string. Without it, the value of a missing option is `undefined`. */
  fallback?: string | ((env: Environment) => string)
  /** Parses the string; `choices` lists the accepted strings, if there are few. @throws Expected */
  read: ((text: string) => unknown) & { choices?: readonly string[] }
}

const flag = (help: string) => ({ help, fallback: '0', read: parsers.readSwitch })
const limit = (help: string) => ({
  ...{ value: 'N', help: `${help}, or unlimited`, read: parsers.readLimit },
})
const file = (help: string) => ({
  ...{ value: 'FILE', help, read: parsers.nonEmpty('the path of a file') },
})
const link = (help: string) => ({ value: 'URL', help, read: parsers.readLink })
const database = (help: string) => ({ value: 'URL', help, read: parsers.readDatabase })
const size = (fallback: string, help: string) => ({
  ...{ value: 'SIZE', fallback, help, read: parsers.readBytes },
})
const duration = (fallback: string, help: string) => ({
  ...{ value: 'DURATION', fallback, help },
  read: parsers.durationFrom(0, Infinity, 'a duration such as 90s, 15m, 24h or 30d'),
})
/** The first word is the default. */
const choice = <const T extends readonly [string, ...string[]]>(
  value: string,
  help: string,
  words: T,
) => ({
  ...{ value, fallback: words[0], help, read: parsers.readOneOf(words) },
})

/** The first state directory that systemd sets, else `./data`. */
const stateDirectory = ({ STATE_DIRECTORY: directories }: Environment): string =>
  directories?.split(':')[0] || './data'

export const SETTINGS = {
  data: {
    value: 'DIR',
    fallback: stateDirectory,
    help: 'data directory (default: $STATE_DIRECTORY, else ./data)',
    read: parsers.nonEmpty('the path of a directory'),
  },
  listen: {
    value: 'ADDRESS',
    fallback: '127.0.0.1:8080',
    help: 'HOST:PORT, :PORT (all interfaces) or unix:/PATH; port 0 takes a free one',
    read: parsers.readListen,
  },
  socketMode: choice(
    'MODE',
    'who may connect to a unix socket: 660 (group), 600 (owner) or 666 (all)',
    ['660', '600', '666'],
  ),
  sample: flag('serve the built-in sample list'),
  retain: {
    value: 'DURATION',
    fallback: '7d',
    help: 'delete proxies not checked for this long, at least 1m',
    read: parsers.durationFrom(MINUTE_MS, Infinity, 'a duration of at least 1m, such as 24h or 7d'),
  },
  trustProxy: {
    value: 'CIDR,…',
    help: 'trust X-Forwarded-For from these addresses',
    read: parsers.readRanges,
  },
  cors: {
    value: 'ORIGIN,…',
    help: 'web pages that may read answers: * or origins (https://app.example.com)',
    read: parsers.readOrigins,
  },
  errors: choice('FORM', 'error bodies: json or text', ['json', 'text']),
  log: choice('FORM', 'access log on stdout: json or off', ['json', 'off']),
  grace: duration('10s', 'time for requests in flight after SIGTERM'),
  cacheBytes: size('64MiB', 'memory for the response cache; 0 turns it off'),
  providerService: {
    value: 'NAME',
    fallback: 'the service',
    help: "name of the provider's own service",
    read: parsers.readServiceName,
  },
  database: database(
    'shared PostgreSQL database; better as PROXYLIST_DATABASE: the process list shows flags',
  ),
  databaseTimeout: {
    value: 'DURATION',
    fallback: '2s',
    help: 'longest wait for the database: of a request in total, of a command per statement',
    read: parsers.durationFrom(100, 10 * MINUTE_MS, 'a duration from 100ms to 10m, such as 2s'),
  },
  maxLag: {
    value: 'DURATION',
    fallback: '60s',
    help: '/readyz returns 503 while the copies of a node are older',
    read: parsers.durationFrom(2 * SECOND_MS, DAY_MS, 'a duration from 2s to 1d, such as 60s'),
  },
  page: choice('STATE', 'serve the page at / and /docs: on or off', ['on', 'off']),
  publicStats: choice('PART', 'content of /stats: full, totals (two numbers, no filters) or off', [
    'full',
    'totals',
    'off',
  ]),
  siteName: {
    value: 'NAME',
    fallback: 'proxylist',
    help: 'name of this service on its pages',
    read: parsers.readSiteName,
  },
  contact: link(
    'your http, https or mailto URL: the contact link on pages, for check in its User-Agent',
  ),
  keyUrl: link('URL of the "Get a key" link: http, https or mailto'),
  adminListen: {
    value: 'ADDRESS',
    help: 'address of the console and /metrics, as --listen; off by default',
    read: parsers.readListen,
  },
  alertUrl: {
    value: 'URL',
    help: 'gets a POST in JSON when something needs attention, and when that is over',
    read: parsers.readHttpUrl,
  },
  metricsOpen: flag('answer /metrics without a token'),
  feed: {
    value: 'SOURCE',
    help: 'import this file, directory or URL regularly; repeatable',
    isRepeatable: true,
    read: parsers.readSources,
  },
  feeds: file('feeds file, instead of the one in the data directory'),
  feedEvery: {
    value: 'DURATION',
    fallback: '60s',
    help: 'interval of feeds without every=, 1s to 7d',
    read: parsers.durationFrom(SECOND_MS, 7 * DAY_MS, 'a duration from 1s to 7d, such as 60s'),
  },
  geoip: {
    value: 'FILE.mmdb',
    fallback: '',
    help: 'City or Country database for missing places; repeatable, or with commas',
    isRepeatable: true,
    read: parsers.readFiles,
  },
  format: {
    value: 'FORMAT',
    fallback: 'auto',
    help: 'auto, txt, csv, json or ndjson',
    read: parsers.readOneOf(['auto', 'txt', 'csv', 'json', 'ndjson'], true),
  },
  type: {
    value: 'TYPE',
    help: `type of rows without one: ${TYPES.join(', ')}`,
    read: parsers.readOneOf(TYPES, true),
  },
  map: {
    value: 'COLUMN=FIELD',
    help: 'field of a column (name or number); - ignores the column; repeatable',
    isRepeatable: true,
    read: parsers.readMapping,
  },
  pingUnit: {
    value: 'UNIT',
    help: 'unit of ping if files do not state it: s or ms (default: s, at most 60)',
    read: parsers.readOneOf(['s', 'ms']),
  },
  allowEmpty: flag('with --replace, accept a file without rows'),
  allowShrink: flag('with --replace, accept under half of 100 or more rows'),
  replace: flag('replace the whole list by the files'),
  force: flag('replace existing data, which is kept in a folder beside'),
  progress: flag('show every second how many bytes were read'),
  strict: flag('reject everything at the first bad row'),
  json: flag('print JSON'),
  plan: {
    value: 'NAME',
    help: 'plan of the key; standard for a new one',
    read: parsers.readPlanName,
  },
  label: { value: 'TEXT', help: 'name that the customer sees', read: parsers.readLabel },
  note: { value: 'TEXT', help: 'note that only you see', read: parsers.readLabel },
  from: {
    value: 'CIDR,…',
    help: 'networks that may use the key; any for all',
    read: parsers.readCallers,
  },
  expires: {
    value: 'WHEN',
    help: `end of the key: ${parsers.EXPIRY}; a new key has none`,
    read: parsers.readExpiry,
  },
  key: {
    value: 'VALUE',
    help: 'use this key of 16 or more characters; - reads it from stdin',
    read: parsers.readKeyOption,
  },
  overlap: duration('24h', 'longest validity of old secrets; 0s ends them at once'),
  window: flag('only the windows: burst, demo and temp'),
  day: flag('only the day: its requests and networks'),
  address: {
    value: 'IP',
    help: 'only this client address of demo or temp (IPv6: its /64)',
    read: parsers.readAddress,
  },
  ttl: duration('24h', 'validity of the key'),
  burst: {
    value: 'N/DURATION',
    help: 'most requests in every interval of this length, or unlimited',
    read: parsers.readBurst,
  },
  daily: limit('most requests a UTC day'),
  subnets: limit('most unique /16 networks served a UTC day'),
  clients: limit('most unique caller networks (/16) a UTC day'),
  count: limit('most records in one answer'),
  downloads: limit('most long answers at once, of a key (demo, temp: of a client address)'),
  enabled: {
    value: 'STATE',
    help: 'on or off; off refuses all keys of the plan',
    read: parsers.readOneOf(['on', 'off']),
  },
  judgeListen: {
    value: 'ADDRESS',
    flag: 'listen',
    fallback: ':80',
    help: 'judge: address for checks, HOST:PORT or :PORT (all interfaces)',
    read: parsers.readTcpListen,
  },
  judgeListenTls: {
    value: 'ADDRESS',
    flag: 'listen-tls',
    help: 'judge: address for checks with TLS; needs --cert and --key',
    read: parsers.readTcpListen,
  },
  judgeCert: {
    ...file('judge: certificate chain in PEM; reloaded when it changes'),
    flag: 'cert',
  },
  judgeKey: { ...file('judge: private key of the certificate in PEM'), flag: 'key' },
  judgeSecret: file('file of the shared secret of judge and check; created if missing'),
  judge: {
    value: 'URL',
    help: 'URL of the judge, such as http://judge.example.com',
    read: parsers.readJudge('http:'),
  },
  judgeTls: {
    value: 'URL',
    help: 'URL of the judge with TLS, such as https://judge.example.com',
    read: parsers.readJudge('https:'),
  },
  judgeCa: file('CA certificate (PEM) for the judge; replaces the system CAs'),
  once: flag('check each due address once, then exit'),
  get: choice(
    'FORM',
    'with --once, without --data: print working proxies as json, ndjson, csv or txt',
    ['json', 'ndjson', 'csv', 'txt'],
  ),
  rate: {
    value: 'N/s',
    fallback: '20/s',
    help: 'checks started per second, 1/s to 5000/s',
    read: parsers.readRate,
  },
  inFlight: {
    value: 'N',
    fallback: '500',
    help: 'most concurrent checks, 1 to 20000',
    read: parsers.integerFrom(1, 20_000),
  },
  speedBytes: size('1GiB', 'most traffic of speed tests per UTC day; 0 turns them off'),
  target: {
    value: 'TARGET',
    help: 'test a service: NAME=URL,status=200,match=TEXT,not=TEXT; repeatable',
    isRepeatable: true,
    read: parsers.nonEmpty('NAME=URL,status=200,match=TEXT,not=TEXT'),
  },
  smtpTarget: {
    value: 'HOST:25',
    help: 'test smtp with this mail server',
    read: parsers.nonEmpty('HOST:25 of a mail server that you may use'),
  },
  ownAddress: {
    value: 'IP',
    fallback: '',
    help: 'another address of this machine, to tell when a proxy reveals it; repeatable',
    isRepeatable: true,
    read: parsers.readAddresses,
  },
  exclude: {
    value: 'CIDR,…',
    help: 'addresses and networks to skip',
    read: parsers.readRanges,
  },
  allowPrivate: flag('check private and loopback addresses, and let the judge have one'),
  dryRun: flag('check the files, but store nothing'),
} as const satisfies { [name: string]: Setting }

export type SettingName = keyof typeof SETTINGS
type Read<N extends SettingName> = ReturnType<(typeof SETTINGS)[N]['read']>

/** The typed values of some settings. Those without a default may be `undefined`. */
export type Settings<N extends SettingName = SettingName> = {
  [K in N]: (typeof SETTINGS)[K] extends { fallback: unknown } ? Read<K> : Read<K> | undefined
}

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** `--trust-proxy` */
const flagNameOf = (name: SettingName): string => {
  const { flag = dashed(name) }: Setting = SETTINGS[name]
  return `--${flag}`
}

/** `--trust-proxy <CIDR,…>` */
export const flagOf = (name: SettingName): string => {
  const { value }: Setting = SETTINGS[name]
  return `${flagNameOf(name)}${value === undefined ? '' : ` <${value}>`}`
}

/** The list of accepted values, or the name of the argument; `undefined` for a switch. */
export const valueOf = (name: SettingName): readonly string[] | string | undefined => {
  const { value, read }: Setting = SETTINGS[name]
  return read.choices ?? value
}

/** The default in `--help`; `''` without a default, or if the help text has it already. */
export const defaultOf = (name: SettingName): string => {
  const { value, fallback }: Setting = SETTINGS[name]
  return value === undefined || typeof fallback !== 'string' ? '' : fallback
}

/** `PROXYLIST_TRUST_PROXY` */
export const environmentNameOf = (name: SettingName): string =>
  `PROXYLIST_${dashed(name).toUpperCase().replaceAll('-', '_')}`

/** The string of a setting, from its flag, its environment variable or its default. */
function givenText(name: SettingName, flag: string | boolean | undefined, env: Environment) {
  if (flag !== undefined) return { from: flagNameOf(name), given: String(flag) }
  const variable = environmentNameOf(name)
  if (env[variable]) return { from: variable, given: env[variable] }
  const { fallback }: Setting = SETTINGS[name]
  return { from: 'default', given: typeof fallback === 'function' ? fallback(env) : fallback }
}

/** Whether a flag, a variable or the service manager sets the setting. */
export function isGiven(
  name: SettingName,
  flags: { readonly [flag: string]: string | boolean | undefined },
  env: Environment,
): boolean {
  const { fallback }: Setting = SETTINGS[name]
  const isManaged = typeof fallback === 'function' && fallback(env) !== fallback({})
  return isManaged || givenText(name, flags[name], env).from !== 'default'
}

/** Calls a parser. @throws CommandError (usage) that names the option and the accepted values. */
export function readAs<T>(name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof parsers.Expected)) throw error
    throw new CommandError(`${name} must be ${error.message}`, 2)
  }
}

/** Reads settings. Flags, by the name of their setting, override the environment. @throws CommandError (usage) */
export function readSettings<N extends SettingName>(
  names: readonly N[],
  flags: { readonly [flag: string]: string | boolean | undefined },
  env: Environment,
): Settings<N> {
  const entries = names.map(name => {
    const { from, given } = givenText(name, flags[name], env)
    return [name, given === undefined ? undefined : readAs(from, () => SETTINGS[name].read(given))]
  })
  return Object.fromEntries(entries) as Settings<N> // as the table types them
}

/** Problems with `PROXYLIST_` variables, as sentences. */
export function environmentProblems(env: Environment): string[] {
  const names = Object.keys(SETTINGS) as SettingName[] // of the table itself
  const byVariable = new Map(names.map(name => [environmentNameOf(name), name]))
  return Object.keys(env)
    .filter(each => each.startsWith('PROXYLIST_') && each !== TEST_CLOCK && env[each])
    .flatMap(variable => {
      const name = byVariable.get(variable)
      if (name === undefined) {
        const known = [...byVariable.keys()].map(each => each.toLowerCase())
        const near = nearest(variable, known)
        const hint = near === null ? '' : `; did you mean ${near.toUpperCase()}?`
        return [`${variable} is not a setting${hint}`]
      }
      try {
        readSettings([name], {}, env)
        return []
      } catch (error) {
        return [messageOf(error)]
      }
    })
}
