/**
 * Three views of a list: through the program, in the database file, and through a server
 * that runs on it meanwhile.
 */
import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { addKeys } from '../../../support/fixtures.ts'
import { run } from '../../../support/launch.ts'
import { repeat } from '../../support/repeat.ts'
import { files, startServe } from '../../support/serve.ts'
import { DEADLINE, fingerprintOf } from './kill.ts'

/** Every row of the list: none in a run is older than a day. */
const EVERYTHING = 'time=86400'
const KEY = `pl_${'W'.repeat(32)}`
/** What says that there is nothing: a first import may be killed before it has made a file. */
const NOTHING = /no proxies match|there is no /
/** Between two requests to a running server. */
const ASK_EVERY_MS = 15

/** A list's content as two fingerprints: of every member, and of the addresses in their order. */
export type Content = { full: string; addresses: string }

async function listed(binary: string, data: string, query: string): Promise<string> {
  const command = [binary, 'list', `${EVERYTHING}&${query}`, '--data', data]
  const { exitCode, stdout, stderr } = await run(command, DEADLINE)
  if (exitCode === 0) return fingerprintOf(stdout)
  if (exitCode === 1 && NOTHING.test(stderr)) return 'nothing'
  throw new Error(`list exited with ${exitCode}: ${stderr}`)
}

/** The fingerprint of the full list, from the program. @throws Error when it fails. */
export const fullOf = (binary: string, data: string): Promise<string> =>
  listed(binary, data, 'get=json&pretty=0')

export const contentOf = async (binary: string, data: string): Promise<Content> => ({
  full: await fullOf(binary, data),
  addresses: await listed(binary, data, 'type_prefix=1'),
})

/** The indexes that every list has. */
const INDEX_NAMES = ['age', 'country', 'city', 'port'].map(name => `proxies_by_${name}`)

/** What SQLite finds wrong with a file. */
export const integrityFaults = (db: Database): string[] =>
  db
    .prepare<{ integrity_check: string }, []>('pragma integrity_check')
    .all()
    .map(row => row.integrity_check)
    .filter(text => text !== 'ok')

/** What is wrong with a list's file, if there is one: damage, a missing index or city, or an index not used. */
export function listFaults(data: string): string[] {
  if (!existsSync(files(data).list)) return []
  const db = new Database(files(data).list, { readwrite: true })
  try {
    const faults = integrityFaults(db)
    const found = db
      .prepare<{ name: string }, []>("select name from sqlite_schema where type = 'index'")
      .all()
      .map(({ name }) => name)
    for (const name of INDEX_NAMES) if (!found.includes(name)) faults.push(`no index ${name}`)
    const strays = db
      .prepare<{ n: number }, []>(
        'select count(*) as n from proxies where city > 0 and city not in (select id from cities)',
      )
      .get()
    if (strays?.n !== 0) faults.push(`${strays?.n} rows of an unknown city`)
    const plan = db
      .prepare<{ detail: string }, []>(
        `explain query plan select id from proxies where country = 37
         order by checked_at desc, ping_ms, id`,
      )
      .all()
      .map(({ detail }) => detail)
      .join('; ')
    if (!plan.includes('proxies_by_country')) faults.push(`selects by country ${plan}`)
    return faults
  } finally {
    db.close(true)
  }
}

/** What a watched server answered: how often, and what was none of the allowed lists. */
export type Seen = { answers: number; wrong: string[] }

export type Watch = {
  /** The fingerprint of the addresses it serves now, as in `Content`. */
  now: () => Promise<string>
  /** Stops the requests and the server. */
  end: () => Promise<Seen>
}

/** Starts a server on `data` and asks it for the list again and again. */
export async function watchServer(
  binary: string,
  data: string,
  allowed: readonly string[],
): Promise<Watch> {
  addKeys(data, { free: {} }, [{ key: KEY, plan: 'free' }])
  const server = await startServe(binary, { data, more: ['--grace', '1s', '--log', 'off'] })
  const url = `http://127.0.0.1:${server.port}/api?key=${KEY}&${EVERYTHING}&type_prefix=1`
  const headers = { 'accept-encoding': 'identity' }
  const now = async (): Promise<string> => {
    const response = await fetch(url, { headers })
    const body = await response.bytes()
    return response.status === 200 ? fingerprintOf(body) : `status ${response.status}`
  }
  const seen: Seen = { answers: 0, wrong: [] }
  const asking = repeat(async () => {
    const shown = await now().catch(String)
    seen.answers += 1
    if (!allowed.includes(shown)) seen.wrong.push(shown)
    await Bun.sleep(ASK_EVERY_MS)
  })
  const end = async (): Promise<Seen> => {
    await asking.stop()
    await server.stop()
    return seen
  }
  return { now, end }
}
