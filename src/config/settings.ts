/**
 * The table of options: argument, default, help and parser. Flags, environment variables and `--help` derive from it,
 * and tests compare the documents with it.
 */
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { TYPES } from '../proxies/proxy.ts'
import { type Environment, TEST_CLOCK } from './environment.ts'
import * as parsers from './parsers.ts'

/** One option. `value` names its argument; an option without one is a switch. */
type Setting = {
  value?: string
  help: string
  /** The name of the flag, where two commands have one of the same name: `listen`. By default the setting's name. */
  flag?: string
  /** Whether the flag may be repeated. `read` gets all its strings, one a line. */
  isRepeatable?: boolean
  /** The string if neither flag nor environment has one. Without a fallback the value is `undefined`. */
  fallback?: string | ((env: Environment) => string)
  /** Reads a value, one of `choices` where there are some. @throws Expected, which says what is accepted. */
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

/** The state directory that systemd sets (the first, if there are several), else `./data`. */
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
  socketMode: {
    value: 'MODE',
    fallback: '660',
    help: 'who may connect to a unix socket: 600 (owner), 660 (group) or 666 (all)',
    read: parsers.readSocketMode,
  },
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
    'PostgreSQL that machines share; better as PROXYLIST_DATABASE: the process list shows flags',
  ),
  databaseTimeout: {
    value: 'DURATION',
    fallback: '2s',
    help: 'the longest wait for the database: of a request in all, of a command for each answer',
    read: parsers.durationFrom(100, 10 * MINUTE_MS, 'a duration from 100ms to 10m, such as 2s'),
  },
  maxLag: {
    value: 'DURATION',
    fallback: '60s',
    help: '/readyz is 503 while the copies of a node are older',
    read: parsers.durationFrom(2 * SECOND_MS, DAY_MS, 'a duration from 2s to 1d, such as 60s'),
  },
  page: choice('STATE', 'serve the page at / and /docs: on or off', ['on', 'off']),
  publicStats: choice('PART', 'what /stats shows: full, totals (two numbers, no filters) or off', [
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
  contact: link('where pages say that you are reached: http, https or mailto'),
  keyUrl: link('URL of the "Get a key" link: http, https or mailto'),
  adminListen: {
    value: 'ADDRESS',
    help: 'where the console and /metrics listen, as --listen; off unless given',
    read: parsers.readListen,
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
    help: 'what a column (name or number) holds; - ignores it; repeatable',
    isRepeatable: true,
    read: parsers.readMapping,
  },
  pingUnit: {
    value: 'UNIT',
    help: 'unit of ping where files do not say: s or ms (default: s, at most 60)',
    read: parsers.readOneOf(['s', 'ms']),
  },
  allowEmpty: flag('with --replace, accept a file without rows'),
  allowShrink: flag('with --replace, accept under half of 100 or more rows'),
  replace: flag('replace the whole list by the files'),
  force: flag('replace existing data; it is kept in a folder beside'),
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
  overlap: duration('24h', 'how long old secrets stay valid at most; 0s ends all at once'),
  window: flag('only the windows: burst, demo and temp'),
  day: flag('only the day: its requests and networks'),
  address: {
    value: 'IP',
    help: 'only this client address of demo or temp (IPv6: its /64)',
    read: parsers.readAddress,
  },
  ttl: duration('24h', 'how long the key is valid'),
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
    help: 'judge: where checks come in, HOST:PORT or :PORT (all interfaces)',
    read: parsers.readTcpListen,
  },
  judgeListenTls: {
    value: 'ADDRESS',
    flag: 'listen-tls',
    help: 'judge: where checks by TLS come in; needs --cert and --key',
    read: parsers.readTcpListen,
  },
  judgeCert: {
    ...file('judge: its certificate with the chain, in PEM; read again when it changes'),
    flag: 'cert',
  },
  judgeKey: { ...file('judge: the key of its certificate, in PEM'), flag: 'key' },
  judgeSecret: file('file of the secret that judge and check share; made when there is none'),
  judge: {
    value: 'URL',
    help: 'where the judge is asked, such as http://judge.example.com',
    read: parsers.readJudge('http:'),
  },
  judgeTls: {
    value: 'URL',
    help: 'where it is asked by TLS, such as https://judge.example.com',
    read: parsers.readJudge('https:'),
  },
  judgeCa: file('CA certificate (PEM) for the judge; replaces the system CAs'),
  once: flag('end when each address that is due was checked once'),
  get: choice(
    'FORM',
    'with --once and without --data, print the living as json, ndjson, csv or txt',
    ['json', 'ndjson', 'csv', 'txt'],
  ),
  rate: {
    value: 'N/s',
    fallback: '20/s',
    help: 'checks begun a second, 1/s to 5000/s',
    read: parsers.readRate,
  },
  inFlight: {
    value: 'N',
    fallback: '500',
    help: 'most checks under way, 1 to 20000',
    read: parsers.integerFrom(1, 20_000),
  },
  speedBytes: size('1GiB', 'what measuring speeds may cost in a UTC day; 0 measures none'),
  target: {
    value: 'TARGET',
    help: 'test a service: NAME=URL,status=200,match=TEXT,not=TEXT; repeatable',
    isRepeatable: true,
    read: parsers.nonEmpty('NAME=URL,status=200,match=TEXT,not=TEXT'),
  },
  smtpTarget: {
    value: 'HOST:25',
    help: 'test smtp with this mail server',
    read: parsers.nonEmpty('HOST:25, a mail server that you may ask'),
  },
  ownAddress: {
    value: 'IP',
    fallback: '',
    help: 'another address of this machine, which a proxy may show; repeatable',
    isRepeatable: true,
    read: parsers.readAddresses,
  },
  exclude: {
    value: 'CIDR,…',
    help: 'addresses and networks that are not checked',
    read: parsers.readRanges,
  },
  allowPrivate: flag('check private and loopback addresses, and let the judge have one'),
  dryRun: flag('check the files, but write and remember nothing'),
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

/** The closed list of values, or the word for the argument; `undefined` for a switch. */
export const valueOf = (name: SettingName): readonly string[] | string | undefined => {
  const { value, read }: Setting = SETTINGS[name]
  return read.choices ?? value
}

/** The default as `--help` shows it; `''` without one, or if the help text already says it. */
export const defaultOf = (name: SettingName): string => {
  const { value, fallback }: Setting = SETTINGS[name]
  return value === undefined || typeof fallback !== 'string' ? '' : fallback
}

/** `PROXYLIST_TRUST_PROXY` */
export const environmentNameOf = (name: SettingName): string =>
  `PROXYLIST_${dashed(name).toUpperCase().replaceAll('-', '_')}`

/** The string of a setting: from its flag, else its environment variable, else its fallback. */
function givenText(name: SettingName, flag: string | boolean | undefined, env: Environment) {
  if (flag !== undefined) return { from: flagNameOf(name), given: String(flag) }
  const variable = environmentNameOf(name)
  if (env[variable]) return { from: variable, given: env[variable] }
  const { fallback }: Setting = SETTINGS[name]
  return { from: 'default', given: typeof fallback === 'function' ? fallback(env) : fallback }
}

/** Whether a flag, the environment or the service manager sets a setting. */
export function isGiven(
  name: SettingName,
  flags: { readonly [flag: string]: string | boolean | undefined },
  env: Environment,
): boolean {
  const { fallback }: Setting = SETTINGS[name]
  const isManaged = typeof fallback === 'function' && fallback(env) !== fallback({})
  return isManaged || givenText(name, flags[name], env).from !== 'default'
}

/** Returns what `read` returns. @throws CommandError (usage) naming what was expected. */
export function readAs<T>(name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof parsers.Expected)) throw error
    throw new CommandError(`${name} must be ${error.message}`, 2)
  }
}

/**
 * Reads the named settings. Flags, keyed by the name of their setting, win over the environment.
 * @throws CommandError (usage) naming the flag or variable and what it accepts.
 */
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

/** The problems of the `PROXYLIST_` variables, as sentences. */
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
