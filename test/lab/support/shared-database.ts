/**
 * Owns the PostgreSQL that nodes of a long run share: a durable server of PG_BIN or of the npm
 * package, a role for the nodes that is no superuser, and a connection beside theirs.
 */
import { resolve } from 'node:path'
import { SQL } from 'bun'
import { PACKAGE_BIN, type Server, startPostgres } from '../../support/postgres.ts'
import { onCleanUp } from '../../support/temporary.ts'

/** The folder with the programs of PostgreSQL. */
export const postgresBin = (): string =>
  process.env.PG_BIN ? resolve(process.env.PG_BIN) : PACKAGE_BIN

/** Survives a crash as a server in use does; the slots for superusers stay free for the run. */
const DURABLE = {
  ...{ fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on' },
  ...{ max_connections: '60', superuser_reserved_connections: '5', shared_buffers: '256MB' },
  ...{
    wal_level: 'replica',
    max_wal_senders: '4',
    checkpoint_timeout: '60s',
    wal_keep_size: '256MB',
  },
}

export const ROLE = 'proxylist'
const DATABASE = 'proxylist'

export type SharedDatabase = Awaited<ReturnType<typeof startShared>>

/** Starts a server with an empty database that the role owns. */
export async function startShared(settings: { readonly [name: string]: string } = {}) {
  const server = await startPostgres({ ...DURABLE, ...settings }, postgresBin())
  const sql = new SQL({ url: server.url('postgres'), max: 1 })
  await sql.unsafe(`create role ${ROLE} login`)
  await sql.unsafe(`create database ${DATABASE} owner ${ROLE}`)
  const [row] = await sql.unsafe("select current_setting('server_version') as version")
  await sql.close()
  return withAdmin(server, String(row.version))
}

/** A server with the database of `startShared`. */
export function withAdmin(server: Server, version: string) {
  const open = () => new SQL({ url: server.url(DATABASE), max: 1, connectionTimeout: 5 })
  let admin = open()
  onCleanUp(() => admin.close({ timeout: 0 }))
  return {
    server,
    version,
    /** The URL that nodes get. */
    url: () => server.url(DATABASE).replace('postgres@', `${ROLE}@`),
    /** Runs statements as a superuser, over a connection of its own that is opened again when lost. */
    async run(text: string): Promise<{ [column: string]: unknown }[]> {
      try {
        return [...(await admin.unsafe(text))]
      } catch (error) {
        void admin.close({ timeout: 0 }).catch(() => {})
        admin = open()
        throw error
      }
    },
  }
}
