/**
 * Owns every option of the command line: flag, environment twin, default, unit, help and how its
 * text is read. Commands, `--help` and the README derive from this table.
 * The only file that reads the environment.
 */
import { BlockList, isIP } from 'node:net'
import { CommandError } from './error.ts'
import { TYPES } from './proxy.ts'
import { memberNames } from './render.ts'
import { parseDuration, parseInstant } from './time.ts'

export type Environment = { readonly [name: string]: string | undefined }

/** Where the server listens. Port 0 takes a free one. */
export type Listen = { unix: string } | { hostname: string; port: number }
/** A text, or the instruction to read it elsewhere. */
type Limit = number | null

/** One option. `value` names its argument; an option without one is a switch. */
type Setting<T, Sure extends boolean = boolean> = {
  value?: string
  help: string
  /** The text used when neither flag nor environment says anything; absent: `undefined`. */
  fallback?: string
  /** Reads the text. @throws Error saying what is accepted. */
  read: (text: string) => T
  /** Whether there is always a value: a fallback, or off for a switch. */
  sure: Sure
}
type Definition<T> = Omit<Setting<T>, 'sure'>

class Expected extends Error {}
const expect = (what: string): never => {
  throw new Expected(what)
}

const text = (given: string): string => given
const oneOf =
  <const T extends readonly string[]>(values: T) =>
  (given: string): T[number] =>
    values.find(value => value === given) ?? expect(values.join(' or '))

const durationMs = (given: string): number =>
  parseDuration(given) ?? expect('a duration such as 90s, 15m, 24h or 30d')

const SWITCH: { [word: string]: boolean } = {
  1: true,
  true: true,
  yes: true,
  on: true,
  0: false,
  false: false,
  no: false,
  off: false,
}
const toggle = (given: string): boolean => SWITCH[given.toLowerCase()] ?? expect('1 or 0')

const INTEGER = 'an integer of at least 1, or unlimited'
const limit = (given: string): Limit => {
  if (given === 'unlimited') return null
  return /^[1-9]\d{0,11}$/.test(given) ? Number(given) : expect(INTEGER)
}

/** Most requests a burst window may hold: its log is read at every request. */
const BURST_REQUESTS_MAX = 1_000
const burst = (given: string): { requests: number; seconds: number } | null => {
  const accepted = `REQUESTS/DURATION such as 5/5s (up to ${BURST_REQUESTS_MAX}/24h), or unlimited`
  if (given === 'unlimited') return null
  const [requests = '', duration = ''] = given.split('/', 2)
  const ms = parseDuration(duration)
  if (!/^[1-9]\d{0,3}$/.test(requests) || ms === null || given.split('/').length !== 2) {
    return expect(accepted)
  }
  const fits = Number(requests) <= BURST_REQUESTS_MAX && ms >= 1000 && ms <= 86_400_000
  return fits && ms % 1000 === 0
    ? { requests: Number(requests), seconds: ms / 1000 }
    : expect(accepted)
}

const LISTEN = 'HOST:PORT, :PORT or unix:/PATH'
const listen = (given: string): Listen => {
  if (given.startsWith('unix:')) {
    const path = given.slice('unix:'.length)
    return path === '' ? expect(LISTEN) : { unix: path }
  }
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(given)
  const port = Number(match?.[3])
  if (!match || port > 65535) return expect(LISTEN)
  return { hostname: match[1] ?? (match[2] || '::'), port }
}

const CIDRS = 'a comma-separated list of addresses or CIDR ranges, such as 10.0.0.0/8,::1'
/** Exported for the client address: a list of trusted ranges. */
export const readRanges = (given: string): BlockList => {
  const ranges = new BlockList()
  for (const item of given.split(',').map(part => part.trim())) {
    const [address = '', bits, ...rest] = item.split('/')
    const version = isIP(address)
    const most = version === 4 ? 32 : 128
    const size = bits ?? String(most)
    if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(size) || Number(size) > most) {
      expect(CIDRS)
    }
    ranges.addSubnet(address, Number(size), version === 4 ? 'ipv4' : 'ipv6')
  }
  return ranges
}

const NAME = 'a name of lower-case letters, digits, spaces, dots or dashes that is not yet a field'
const serviceName = (given: string): string => {
  const name = given.toLowerCase().replaceAll('_', ' ')
  const taken = memberNames('').map(member => member.replaceAll('_', ' '))
  const fits = /^(?=.*[^\d])[\p{Ll}\p{Lo}\d][\p{Ll}\p{Lo}\d .-]{0,39}$/u.test(name)
  return fits && !taken.includes(name) && name === name.trim() ? name : expect(NAME)
}

const EXPIRY = 'a duration such as 30d, or a time such as 2027-01-31T00:00:00Z'
/** An expiry: milliseconds from now, or the instant itself. */
export type Expiry = { inMs: number } | { atMs: number }
const expiry = (given: string): Expiry => {
  const inMs = parseDuration(given)
  if (inMs !== null) return { inMs }
  return { atMs: parseInstant(given) ?? expect(EXPIRY) }
}

const planName = (given: string): string =>
  /^[a-z0-9][a-z0-9._-]{0,39}$/.test(given)
    ? given
    : expect('a name of lower-case letters, digits, dots, dashes or underscores')

/** Refuses what no client could send as a key, or what means another kind of key. */
const keyText = (given: string): string => {
  const usable = /^[^\s\p{Cc}]{1,256}$/u.test(given)
  const reserved = given === 'demo' || given.startsWith('temp_')
  return usable && !reserved
    ? given
    : expect('1 to 256 characters without white space, not demo and not starting with temp_')
}

const label = (given: string): string =>
  /^[^\p{Cc}]{0,200}$/u.test(given) ? given : expect('up to 200 printable characters')

const setting = <T>(definition: Definition<T>): Setting<T, true> => ({ ...definition, sure: true })
const optional = <T>(definition: Definition<T>): Setting<T, false> => ({
  ...definition,
  sure: false,
})

export const SETTINGS = {
  data: setting({
    value: 'DIR',
    help: 'directory of the two databases (default: $STATE_DIRECTORY, else ./data)',
    read: text,
  }),
  listen: setting({
    value: 'ADDRESS',
    fallback: '127.0.0.1:8080',
    help: 'where to listen: HOST:PORT, :PORT (all interfaces) or unix:/PATH; port 0 takes a free one',
    read: listen,
  }),
  sample: setting({
    help: 'serve the built-in sample list instead of an imported one',
    read: toggle,
  }),
  retain: setting({
    value: 'DURATION',
    fallback: '7d',
    help: 'forget proxies last checked longer ago than this',
    read: durationMs,
  }),
  trustProxy: optional({
    value: 'CIDR,…',
    help: 'believe X-Forwarded-For from these addresses',
    read: readRanges,
  }),
  errors: setting({
    value: 'FORM',
    fallback: 'json',
    help: 'form of error bodies: json or text (the older variant)',
    read: oneOf(['json', 'text']),
  }),
  log: setting({
    value: 'FORM',
    fallback: 'json',
    help: 'access log on stdout: json or off',
    read: oneOf(['json', 'off']),
  }),
  grace: setting({
    value: 'DURATION',
    fallback: '10s',
    help: 'how long requests in flight may take after SIGTERM',
    read: durationMs,
  }),
  providerService: setting({
    value: 'NAME',
    fallback: 'the service',
    help: "name of the provider's own service, the fifth service flag",
    read: serviceName,
  }),
  format: setting({
    value: 'FORMAT',
    fallback: 'auto',
    help: 'format of the files: auto, txt, csv, json or ndjson',
    read: oneOf(['auto', 'txt', 'csv', 'json', 'ndjson']),
  }),
  type: optional({
    value: 'TYPE',
    help: `type of rows that name none: ${TYPES.join(', ')}`,
    read: oneOf(TYPES),
  }),
  replace: setting({ help: 'swap the whole list for the files, in one step', read: toggle }),
  strict: setting({ help: 'refuse everything at the first bad row', read: toggle }),
  json: setting({ help: 'print JSON', read: toggle }),
  plan: setting({ value: 'NAME', fallback: 'standard', help: 'plan of the key', read: planName }),
  label: setting({ value: 'TEXT', fallback: '', help: 'a note, shown in keys list', read: label }),
  expires: optional({
    value: 'WHEN',
    help: `end of the key: ${EXPIRY} (default: never)`,
    read: expiry,
  }),
  key: optional({
    value: 'VALUE',
    help: 'use this key instead of a new random one (to migrate)',
    read: keyText,
  }),
  ttl: setting({
    value: 'DURATION',
    fallback: '24h',
    help: 'how long the temporary key is in force',
    read: durationMs,
  }),
  burst: optional({
    value: 'N/DURATION',
    help: 'most requests in every interval of this length, or unlimited',
    read: burst,
  }),
  daily: optional({ value: 'N', help: 'most requests a UTC day, or unlimited', read: limit }),
  subnets: optional({
    value: 'N',
    help: 'most unique /16 networks served a UTC day, or unlimited',
    read: limit,
  }),
  clients: optional({
    value: 'N',
    help: 'most unique caller networks (/16) a UTC day, or unlimited',
    read: limit,
  }),
  count: optional({ value: 'N', help: 'most records in one answer, or unlimited', read: limit }),
} as const

export type SettingName = keyof typeof SETTINGS
type Read<N extends SettingName> = ReturnType<(typeof SETTINGS)[N]['read']>

/** The values of some settings, typed; optional ones may be `undefined`. */
export type Settings<N extends SettingName = SettingName> = {
  [K in N]: (typeof SETTINGS)[K]['sure'] extends true ? Read<K> : Read<K> | undefined
}

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** `--trust-proxy CIDR,…` */
export const flagOf = (name: SettingName): string => {
  const { value }: Setting<unknown> = SETTINGS[name]
  return `--${dashed(name)}${value === undefined ? '' : ` <${value}>`}`
}

/** `PROXYLIST_TRUST_PROXY` */
export const environmentNameOf = (name: SettingName): string =>
  `PROXYLIST_${dashed(name).toUpperCase().replaceAll('-', '_')}`

/** The text a setting was given: by flag, else by its environment twin, else its fallback. */
function givenText(name: SettingName, flag: string | boolean | undefined, env: Environment) {
  const { fallback, value }: Setting<unknown> = SETTINGS[name]
  if (flag !== undefined) return { from: `--${dashed(name)}`, given: String(flag) }
  const twin = environmentNameOf(name)
  if (env[twin]) return { from: twin, given: env[twin] }
  if (name === 'data') return { from: 'default', given: env.STATE_DIRECTORY || './data' }
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
  return Object.fromEntries(entries) as Settings<N> // the table's types say what each read gives
}

/** The process's environment. */
export const processEnvironment = (): Environment => process.env

/** Tests of the binary move its clock by writing Unix milliseconds to this file. */
export const testClockFile = (): string | undefined => process.env.PROXYLIST_TEST_CLOCK || undefined

// Elysia reads this when it is loaded and would otherwise run in its development mode, which
// answers with internals. This file is imported before it.
Bun.env.NODE_ENV ??= 'production'
