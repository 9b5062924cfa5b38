/**
 * Owns the table of every option of the command line: argument, default, help and parser. Flags,
 * environment variables and `--help` derive from it; a test compares the README with it. Each
 * command lists the options it takes. How a string is parsed is in `parsers.ts`; the environment of
 * the process is in `environment.ts`.
 */

import { nearest } from '../lib/did-you-mean.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { TYPES } from '../proxies/proxy.ts'
import { DATABASE_SETTINGS } from './database-settings.ts'
import { type Environment, TEST_CLOCK } from './environment.ts'
import { FEED_SETTINGS } from './feed-settings.ts'
import { PAGE_SETTINGS } from './page-settings.ts'
import {
  EXPIRY,
  Expected,
  readAddress,
  readBurst,
  readBytes,
  readDirectory,
  readDurationMs,
  readExpiry,
  readKey,
  readLabel,
  readLimit,
  readListen,
  readMapping,
  readOneOf,
  readOrigins,
  readPlanName,
  readRanges,
  readRetentionMs,
  readServiceName,
  readSocketMode,
  readSwitch,
} from './parsers.ts'
import { optional, type Setting, setting } from './setting.ts'

export const SETTINGS = {
  data: setting({
    value: 'DIR',
    help: 'directory of the two databases (default: $STATE_DIRECTORY, else ./data)',
    read: readDirectory,
  }),
  listen: setting({
    value: 'ADDRESS',
    fallback: '127.0.0.1:8080',
    help: 'where to listen: HOST:PORT, :PORT (all interfaces) or unix:/PATH; port 0 takes a free one',
    read: readListen,
  }),
  socketMode: setting({
    value: 'MODE',
    fallback: '660',
    help: 'who may connect to a unix socket: 600 (owner), 660 (group too) or 666 (all)',
    read: readSocketMode,
  }),
  sample: setting({
    help: 'serve the built-in sample list instead of an imported one',
    read: readSwitch,
  }),
  retain: setting({
    value: 'DURATION',
    fallback: '7d',
    help: 'delete proxies last checked longer ago than this, at least 1m',
    read: readRetentionMs,
  }),
  trustProxy: optional({
    value: 'CIDR,…',
    help: 'trust X-Forwarded-For from these addresses',
    read: readRanges,
  }),
  cors: optional({
    value: 'ORIGIN,…',
    help: 'pages that may read answers in a browser: * or origins such as https://app.example.com',
    read: readOrigins,
  }),
  errors: setting({
    value: 'FORM',
    fallback: 'json',
    help: 'form of error bodies: json or text (the older variant)',
    read: readOneOf(['json', 'text']),
  }),
  log: setting({
    value: 'FORM',
    fallback: 'json',
    help: 'access log on stdout: json or off',
    read: readOneOf(['json', 'off']),
  }),
  grace: setting({
    value: 'DURATION',
    fallback: '10s',
    help: 'how long requests in flight may take after SIGTERM',
    read: readDurationMs,
  }),
  cacheBytes: setting({
    value: 'SIZE',
    fallback: '64MiB',
    help: 'memory for the response cache, such as 64MiB; 0 turns it off',
    read: readBytes,
  }),
  providerService: setting({
    value: 'NAME',
    fallback: 'the service',
    help: "name of the provider's own service, the fifth service flag",
    read: readServiceName,
  }),
  ...DATABASE_SETTINGS,
  ...PAGE_SETTINGS,
  ...FEED_SETTINGS,
  format: setting({
    value: 'FORMAT',
    fallback: 'auto',
    help: 'format of the files: auto, txt, csv, json or ndjson',
    read: given => readOneOf(['auto', 'txt', 'csv', 'json', 'ndjson'])(given.toLowerCase()),
  }),
  type: optional({
    value: 'TYPE',
    help: `type of rows without one: ${TYPES.join(', ')}`,
    read: given => readOneOf(TYPES)(given.toLowerCase()),
  }),
  map: optional({
    value: 'COLUMN=FIELD',
    help: 'what a column holds, by its name or number; FIELD - ignores it; repeatable',
    isRepeatable: true,
    read: readMapping,
  }),
  pingUnit: optional({
    value: 'UNIT',
    help: 'unit of ping in files that do not say: s or ms (default: s, and not over 60)',
    read: readOneOf(['s', 'ms']),
  }),
  allowEmpty: setting({ help: 'with --replace, accept a file without rows', read: readSwitch }),
  allowShrink: setting({
    help: 'with --replace, accept under half of 100 or more rows',
    read: readSwitch,
  }),
  replace: setting({ help: 'replace the whole list by the files, in one step', read: readSwitch }),
  force: setting({
    help: 'replace data that is there, which is kept in a folder beside',
    read: readSwitch,
  }),
  progress: setting({ help: 'say every second how many bytes were read', read: readSwitch }),
  strict: setting({ help: 'reject everything at the first bad row', read: readSwitch }),
  json: setting({ help: 'print JSON', read: readSwitch }),
  plan: optional({
    value: 'NAME',
    help: 'plan of the key; a new one is on standard unless this says otherwise',
    read: readPlanName,
  }),
  label: optional({ value: 'TEXT', help: 'a note, shown in keys list', read: readLabel }),
  expires: optional({
    value: 'WHEN',
    help: `end of the key: ${EXPIRY}; a new one never ends unless this says otherwise`,
    read: readExpiry,
  }),
  key: optional({
    value: 'VALUE',
    help: 'use this key instead of a new random one; - reads it from stdin, because the process list shows VALUE',
    read: readKey,
  }),
  overlap: setting({
    value: 'DURATION',
    fallback: '24h',
    help: 'how long the old secret stays valid; 0s ends every old one at once',
    read: readDurationMs,
  }),
  window: setting({ help: 'only the windows: burst, demo and temp', read: readSwitch }),
  day: setting({ help: 'only what is used of the day: requests and networks', read: readSwitch }),
  address: optional({
    value: 'IP',
    help: 'only this client address of demo or temp (IPv6: its /64)',
    read: readAddress,
  }),
  ttl: setting({
    value: 'DURATION',
    fallback: '24h',
    help: 'how long the temporary key is valid',
    read: readDurationMs,
  }),
  burst: optional({
    value: 'N/DURATION',
    help: 'most requests in every interval of this length, or unlimited',
    read: readBurst,
  }),
  daily: optional({ value: 'N', help: 'most requests a UTC day, or unlimited', read: readLimit }),
  subnets: optional({
    value: 'N',
    help: 'most unique /16 networks served a UTC day, or unlimited',
    read: readLimit,
  }),
  clients: optional({
    value: 'N',
    help: 'most unique caller networks (/16) a UTC day, or unlimited',
    read: readLimit,
  }),
  count: optional({
    value: 'N',
    help: 'most records in one answer, or unlimited',
    read: readLimit,
  }),
  downloads: optional({
    value: 'N',
    help: 'most long answers at once, of a key (demo, temp: of a client address), or unlimited',
    read: readLimit,
  }),
  enabled: optional({
    value: 'STATE',
    help: 'on or off; off refuses all keys of the plan',
    read: readOneOf(['on', 'off']),
  }),
} as const

export type SettingName = keyof typeof SETTINGS
type Read<N extends SettingName> = ReturnType<(typeof SETTINGS)[N]['read']>

/** The values of some settings, typed; optional ones may be `undefined`. */
export type Settings<N extends SettingName = SettingName> = {
  [K in N]: (typeof SETTINGS)[K]['sure'] extends true ? Read<K> : Read<K> | undefined
}

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** `--trust-proxy <CIDR,…>` */
export const flagOf = (name: SettingName): string => {
  const { value }: Setting<unknown> = SETTINGS[name]
  return `--${dashed(name)}${value === undefined ? '' : ` <${value}>`}`
}

/** `PROXYLIST_TRUST_PROXY` */
export const environmentNameOf = (name: SettingName): string =>
  `PROXYLIST_${dashed(name).toUpperCase().replaceAll('-', '_')}`

/** The state directory that systemd sets (the first, if there are several), else `./data`. */
const stateDirectory = ({ STATE_DIRECTORY: directories }: Environment): string =>
  directories?.split(':')[0] || './data'

/** The string of a setting: from its flag, else its environment variable, else its fallback. */
function givenText(name: SettingName, flag: string | boolean | undefined, env: Environment) {
  const { fallback, value }: Setting<unknown> = SETTINGS[name]
  if (flag !== undefined) return { from: `--${dashed(name)}`, given: String(flag) }
  const variable = environmentNameOf(name)
  if (env[variable]) return { from: variable, given: env[variable] }
  if (name === 'data') return { from: 'default', given: stateDirectory(env) }
  return { from: 'default', given: value === undefined ? '0' : fallback }
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
    const { read }: Setting<unknown> = SETTINGS[name]
    try {
      return [name, given === undefined ? undefined : read(given)]
    } catch (error) {
      if (!(error instanceof Expected)) throw error
      throw new CommandError(`${from} must be ${error.message}`, 2)
    }
  })
  return Object.fromEntries(entries) as Settings<N> // the types of the table say what each parser returns
}

const PREFIX = 'PROXYLIST_'

/** The problems of the `PROXYLIST_` variables, as sentences. */
export function environmentProblems(env: Environment): string[] {
  const names = Object.keys(SETTINGS) as SettingName[] // of the table itself
  const byVariable = new Map(names.map(name => [environmentNameOf(name), name]))
  return Object.keys(env)
    .filter(variable => variable.startsWith(PREFIX) && variable !== TEST_CLOCK && env[variable])
    .flatMap(variable => {
      const name = byVariable.get(variable)
      if (name === undefined) {
        return [`${variable} is not a setting${hint(variable, [...byVariable.keys()])}`]
      }
      try {
        readSettings([name], {}, env)
        return []
      } catch (error) {
        return [messageOf(error)]
      }
    })
}

const hint = (variable: string, known: readonly string[]): string => {
  const near = nearest(
    variable,
    known.map(name => name.toLowerCase()),
  )
  return near === null ? '' : `; did you mean ${near.toUpperCase()}?`
}
