/**
 * Every option of the command line: argument, default, help and parser. Flags, environment variables and
 * `--help` derive from this table; tests compare the documents with it.
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
  /** Whether the flag may be given several times; `read` gets all of its strings, a line each. */
  isRepeatable?: boolean
  /** The string used when neither the flag nor the environment has one; without it, `undefined`. */
  fallback?: string | ((env: Environment) => string)
  /** @throws Expected saying what is accepted. */
  read: (text: string) => unknown
}

const flag = (help: string) => ({ help, fallback: '0', read: parsers.readSwitch })
const limit = (help: string) => ({
  ...{ value: 'N', help: `${help}, or unlimited`, read: parsers.readLimit },
})

/** The state directory that systemd sets (the first, if there are several), else `./data`. */
const stateDirectory = ({ STATE_DIRECTORY: directories }: Environment): string =>
  directories?.split(':')[0] || './data'

export const SETTINGS = {
  data: {
    value: 'DIR',
    fallback: stateDirectory,
    help: 'directory of the two databases (default: $STATE_DIRECTORY, else ./data)',
    read: parsers.nonEmpty('the path of a directory'),
  },
  listen: {
    value: 'ADDRESS',
    fallback: '127.0.0.1:8080',
    help: 'where to listen: HOST:PORT, :PORT (all interfaces) or unix:/PATH; port 0 takes a free one',
    read: parsers.readListen,
  },
  socketMode: {
    value: 'MODE',
    fallback: '660',
    help: 'who may connect to a unix socket: 600 (owner), 660 (group too) or 666 (all)',
    read: parsers.readSocketMode,
  },
  sample: flag('serve the built-in sample list instead of an imported one'),
  retain: {
    value: 'DURATION',
    fallback: '7d',
    help: 'delete proxies last checked longer ago than this, at least 1m',
    read: parsers.durationFrom(MINUTE_MS, Infinity, 'a duration of at least 1m, such as 24h or 7d'),
  },
  trustProxy: {
    value: 'CIDR,…',
    help: 'trust X-Forwarded-For from these addresses',
    read: parsers.readRanges,
  },
  cors: {
    value: 'ORIGIN,…',
    help: 'pages that may read answers in a browser: * or origins such as https://app.example.com',
    read: parsers.readOrigins,
  },
  errors: {
    value: 'FORM',
    fallback: 'json',
    help: 'form of error bodies: json or text (the older variant)',
    read: parsers.readOneOf(['json', 'text']),
  },
  log: {
    value: 'FORM',
    fallback: 'json',
    help: 'access log on stdout: json or off',
    read: parsers.readOneOf(['json', 'off']),
  },
  grace: {
    value: 'DURATION',
    fallback: '10s',
    help: 'how long requests in flight may take after SIGTERM',
    read: parsers.durationFrom(0, Infinity, 'a duration such as 90s, 15m, 24h or 30d'),
  },
  cacheBytes: {
    value: 'SIZE',
    fallback: '64MiB',
    help: 'memory for the response cache, such as 64MiB; 0 turns it off',
    read: parsers.readBytes,
  },
  providerService: {
    value: 'NAME',
    fallback: 'the service',
    help: "name of the provider's own service, the fifth service flag",
    read: parsers.readServiceName,
  },
  database: {
    value: 'URL',
    help: 'PostgreSQL that several machines share; better as PROXYLIST_DATABASE, because the process list shows URL',
    read: parsers.readDatabase,
  },
  fromDatabase: {
    value: 'URL',
    help: 'move from this PostgreSQL into the data directory',
    read: parsers.readDatabase,
  },
  databaseTimeout: {
    value: 'DURATION',
    fallback: '2s',
    help: 'the longest that a request waits for the database, its place behind others included, and a command for each answer of it',
    read: parsers.durationFrom(100, 10 * MINUTE_MS, 'a duration from 100ms to 10m, such as 2s'),
  },
  maxLag: {
    value: 'DURATION',
    fallback: '60s',
    help: '/readyz answers 503 while the copies of a node are older than this',
    read: parsers.durationFrom(2 * SECOND_MS, DAY_MS, 'a duration from 2s to 1d, such as 60s'),
  },
  page: {
    value: 'STATE',
    fallback: 'on',
    help: 'on or off; off serves neither the page at / nor /docs',
    read: parsers.readOneOf(['on', 'off']),
  },
  publicStats: {
    value: 'PART',
    fallback: 'full',
    help: 'what /stats says of the list without a key: full, totals (no cube and no cities) or off',
    read: parsers.readOneOf(['full', 'totals', 'off']),
  },
  adminListen: {
    value: 'ADDRESS',
    help: 'where the console and /metrics listen, in the forms of --listen; without it they are off',
    read: parsers.readListen,
  },
  metricsOpen: flag('answer /metrics of the admin listener without a token'),
  feed: {
    value: 'SOURCE',
    help: 'import this file, directory or URL again and again; repeatable',
    isRepeatable: true,
    read: parsers.readSources,
  },
  feeds: {
    value: 'FILE',
    help: 'file of feeds, one a line: SOURCE [type=T] [format=F] [ping-unit=ms] [map=COLUMN=FIELD] [every=60s] [replace] [headers=FILE]',
    read: parsers.nonEmpty('the path of a file'),
  },
  feedEvery: {
    value: 'DURATION',
    fallback: '60s',
    help: 'interval of feeds that name none, from 1s to 7d',
    read: parsers.durationFrom(SECOND_MS, 7 * DAY_MS, 'a duration from 1s to 7d, such as 60s'),
  },
  due: flag('skip feeds that are not due yet'),
  geoip: {
    value: 'FILE.mmdb',
    fallback: '',
    help: 'City or Country database that fills in missing places; repeatable, or with commas',
    isRepeatable: true,
    read: parsers.readFiles,
  },
  format: {
    value: 'FORMAT',
    fallback: 'auto',
    help: 'format of the files: auto, txt, csv, json or ndjson',
    read: given => parsers.readOneOf(['auto', 'txt', 'csv', 'json', 'ndjson'])(given.toLowerCase()),
  },
  type: {
    value: 'TYPE',
    help: `type of rows without one: ${TYPES.join(', ')}`,
    read: given => parsers.readOneOf(TYPES)(given.toLowerCase()),
  },
  map: {
    value: 'COLUMN=FIELD',
    help: 'what a column holds, by its name or number; FIELD - ignores it; repeatable',
    isRepeatable: true,
    read: parsers.readMapping,
  },
  pingUnit: {
    value: 'UNIT',
    help: 'unit of ping in files that do not say: s or ms (default: s, and not over 60)',
    read: parsers.readOneOf(['s', 'ms']),
  },
  allowEmpty: flag('with --replace, accept a file without rows'),
  allowShrink: flag('with --replace, accept under half of 100 or more rows'),
  replace: flag('replace the whole list by the files, in one step'),
  force: flag('replace data that is there, which is kept in a folder beside'),
  progress: flag('say every second how many bytes were read'),
  strict: flag('reject everything at the first bad row'),
  json: flag('print JSON'),
  plan: {
    value: 'NAME',
    help: 'plan of the key; a new one is on standard unless this says otherwise',
    read: parsers.readPlanName,
  },
  label: { value: 'TEXT', help: 'name of the key; the customer sees it', read: parsers.readLabel },
  note: { value: 'TEXT', help: 'a note on the key; only you see it', read: parsers.readLabel },
  expires: {
    value: 'WHEN',
    help: `end of the key: ${parsers.EXPIRY}; a new one never ends unless this says otherwise`,
    read: parsers.readExpiry,
  },
  key: {
    value: 'VALUE',
    help: 'use this key instead of a new random one; - reads it from stdin, because the process list shows VALUE',
    read: parsers.readKey,
  },
  overlap: {
    value: 'DURATION',
    fallback: '24h',
    help: 'how long old secrets stay valid at most; 0s ends all of them at once',
    read: parsers.durationFrom(0, Infinity, 'a duration such as 90s, 15m, 24h or 30d'),
  },
  window: flag('only the windows: burst, demo and temp'),
  day: flag('only what is used of the day: requests and networks'),
  address: {
    value: 'IP',
    help: 'only this client address of demo or temp (IPv6: its /64)',
    read: parsers.readAddress,
  },
  ttl: {
    value: 'DURATION',
    fallback: '24h',
    help: 'how long the temporary key is valid',
    read: parsers.durationFrom(0, Infinity, 'a duration such as 90s, 15m, 24h or 30d'),
  },
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
} as const satisfies { [name: string]: Setting }

export type SettingName = keyof typeof SETTINGS
type Read<N extends SettingName> = ReturnType<(typeof SETTINGS)[N]['read']>

/** The values of some settings, typed; those without a default may be `undefined`. */
export type Settings<N extends SettingName = SettingName> = {
  [K in N]: (typeof SETTINGS)[K] extends { fallback: unknown } ? Read<K> : Read<K> | undefined
}

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** `--trust-proxy <CIDR,…>` */
export const flagOf = (name: SettingName): string => {
  const { value }: Setting = SETTINGS[name]
  return `--${dashed(name)}${value === undefined ? '' : ` <${value}>`}`
}

/** The default as `--help` shows it; `''` without one, and where the help itself says it. */
export const defaultOf = (name: SettingName): string => {
  const { value, fallback }: Setting = SETTINGS[name]
  return value === undefined || typeof fallback !== 'string' ? '' : fallback
}

/** `PROXYLIST_TRUST_PROXY` */
export const environmentNameOf = (name: SettingName): string =>
  `PROXYLIST_${dashed(name).toUpperCase().replaceAll('-', '_')}`

/** The string of a setting: from its flag, else its environment variable, else its fallback. */
function givenText(name: SettingName, flag: string | boolean | undefined, env: Environment) {
  if (flag !== undefined) return { from: `--${dashed(name)}`, given: String(flag) }
  const variable = environmentNameOf(name)
  if (env[variable]) return { from: variable, given: env[variable] }
  const { fallback }: Setting = SETTINGS[name]
  return { from: 'default', given: typeof fallback === 'function' ? fallback(env) : fallback }
}

/**
 * Reads the named settings; flags win over the environment.
 * @throws CommandError (usage) naming the flag or variable and what it accepts.
 */
export function readSettings<N extends SettingName>(
  names: readonly N[],
  flags: { readonly [flag: string]: string | boolean | undefined },
  env: Environment,
): Settings<N> {
  const entries = names.map(name => {
    const { from, given } = givenText(name, flags[name], env)
    try {
      return [name, given === undefined ? undefined : SETTINGS[name].read(given)]
    } catch (error) {
      if (!(error instanceof parsers.Expected)) throw error
      throw new CommandError(`${from} must be ${error.message}`, 2)
    }
  })
  return Object.fromEntries(entries) as Settings<N> // the types of the table say what each parser returns
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
