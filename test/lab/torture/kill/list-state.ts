/**
 * Owns looking at a list from three sides: through the program, in the database file, and
 * through a server that is running on it all the while.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openRegistry, PROXY_FILE } from '../../../../src/app.ts'
import indexes from '../../../../src/sqlite/proxies/migrations/1-indexes.sql' with { type: 'text' }
import { type Server, startServer } from '../../bench/processes.ts'
import { digestOf, outputOf, startChild } from './kill.ts'

/** Everything there is: no row of a run is older than a day. */
const EVERYTHING = 'time=86400'
const KEY = `pl_${'W'.repeat(32)}`
const FREE = { name: 'free', burst: null, daily: null, subnets: null, clients: null, count: null }
/** Between two looks at a running server. */
const LOOK_EVERY_MS = 15

/** A list's content as two digests: of all it says, and of its addresses in their order. */
export type Content = { whole: string; addresses: string }

async function listed(binary: string, data: string, query: string): Promise<string> {
  const child = startChild(binary, ['list', `${EVERYTHING}&${query}`, '--data', data])
  const { exitCode, stdout, stderr } = await outputOf(child)
  if (exitCode === 0) return digestOf(stdout)
  if (exitCode === 1 && stderr.includes('no proxies match')) return 'nothing'
  throw new Error(`list exited with ${exitCode}: ${stderr}`)
}

/** All that the list says, through the program. @throws Error when it cannot tell. */
export const wholeOf = (binary: string, data: string): Promise<string> =>
  listed(binary, data, 'get=json&pretty=0')

export const contentOf = async (binary: string, data: string): Promise<Content> => ({
  whole: await wholeOf(binary, data),
  addresses: await listed(binary, data, 'type_prefix=1'),
})

const INDEX_NAMES = [...indexes.matchAll(/index if not exists (\w+)/g)].map(match => match[1])

/** What is wrong with the file of a list: damage, a missing index or city, an index left idle. */
export function faultsOf(data: string): string[] {
  const db = new Database(join(data, PROXY_FILE), { readwrite: true })
  try {
    const faults = db
      .prepare<{ integrity_check: string }, []>('pragma integrity_check')
      .all()
      .map(row => row.integrity_check)
      .filter(text => text !== 'ok')
    const found = db
      .prepare<{ name: string }, []>("select name from sqlite_schema where type = 'index'")
      .all()
      .map(({ name }) => name)
    for (const name of INDEX_NAMES) if (!found.includes(`${name}`)) faults.push(`no index ${name}`)
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

/** What a watched server said: answers, and those that were none of the lists there may be. */
export type Seen = { answers: number; odd: string[] }

export type Watch = {
  /** The addresses it serves now, as in `Content`. */
  now: () => Promise<string>
  /** Stops looking, and the server. */
  end: () => Promise<Seen>
}

/** Starts a server on `data` that is asked for the list again and again. */
export async function watchServer(
  binary: string,
  data: string,
  allowed: readonly string[],
): Promise<Watch> {
  const registry = openRegistry(data)
  registry.plans.set(FREE)
  registry.keys.add({ key: KEY, label: '', plan: FREE.name, expiresAt: null }, Date.now())
  registry.close()
  const where = ['--data', data, '--listen', '127.0.0.1:0', '--grace', '1s', '--log', 'off']
  const server: Server = await startServer('serve', [binary, 'serve', ...where])
  const url = `http://127.0.0.1:${server.port}/api?key=${KEY}&${EVERYTHING}&type_prefix=1`
  const headers = { 'accept-encoding': 'identity' }
  const now = async (): Promise<string> => {
    const response = await fetch(url, { headers })
    const body = await response.bytes()
    return response.status === 200 ? digestOf(body) : `status ${response.status}`
  }
  const seen: Seen = { answers: 0, odd: [] }
  let isOver = false
  const looking = (async (): Promise<void> => {
    while (!isOver) {
      const shown = await now().catch(String)
      seen.answers += 1
      if (!allowed.includes(shown)) seen.odd.push(shown)
      await Bun.sleep(LOOK_EVERY_MS)
    }
  })()
  const end = async (): Promise<Seen> => {
    isOver = true
    await looking
    await server.stop()
    return seen
  }
  return { now, end }
}
