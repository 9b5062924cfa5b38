/**
 * Owns the settings of a shared database (contract I), a part of the table in `settings.ts`. Their
 * values hold a password: nothing that is said of a wrong one repeats it.
 */
import { MINUTE_MS, parseDurationWithin } from '../lib/time.ts'
import { Expected } from './parsers.ts'
import { optional, setting } from './setting.ts'

const WHAT =
  'a URL such as postgres://USER:PASSWORD@HOST:5432/DATABASE with a host and a database, ' +
  'and / ? # @ % in its parts percent-encoded'
const PROTOCOLS: readonly string[] = ['postgres:', 'postgresql:']
const TLS_MODES: readonly string[] = [
  ...['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'],
]

/** Whether a part of a URL that should have been percent-encoded is taken for another one. */
function isMisread(given: string, { pathname, search, hash }: URL): boolean {
  try {
    if (decodeURIComponent(given).includes('\0')) return true
  } catch {
    return true
  }
  return /[/@]/.test(pathname.slice(1)) || search.includes('@') || hash !== ''
}

/**
 * The URL of a PostgreSQL database, with a host and the name of a database. In one that is misread, the
 * rest of a password would be a host or a name, which are shown.
 */
export function readDatabase(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !PROTOCOLS.includes(url.protocol)) throw new Expected(WHAT)
  const hasHost = (url.hostname !== '' && url.port !== '0') || url.searchParams.has('path')
  if (url.pathname.length < 2 || !hasHost || isMisread(given, url)) throw new Expected(WHAT)
  const mode = url.searchParams.get('sslmode')
  if (mode !== null && !TLS_MODES.includes(mode)) {
    throw new Expected(`a URL whose sslmode is one of ${TLS_MODES.join(', ')}`)
  }
  return given
}

/** How long is waited for the database, in milliseconds: 100 ms to 10 minutes. */
const readWaitMs = (given: string): number => {
  const ms = parseDurationWithin(given, 100, 10 * MINUTE_MS)
  if (ms === null) throw new Expected('a duration from 100ms to 10m, such as 2s')
  return ms
}

export const DATABASE_SETTINGS = {
  database: optional({
    value: 'URL',
    help: 'PostgreSQL that several machines share; better as PROXYLIST_DATABASE, because the process list shows URL',
    read: readDatabase,
  }),
  fromDatabase: optional({
    value: 'URL',
    help: 'move from this PostgreSQL into the data directory',
    read: readDatabase,
  }),
  databaseTimeout: setting({
    value: 'DURATION',
    fallback: '2s',
    help: 'the longest that a request waits for the database, its place behind others included, and a command for each answer of it',
    read: readWaitMs,
  }),
} as const
