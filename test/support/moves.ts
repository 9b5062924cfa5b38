/**
 * What tests of moves share: their options, the stores of a database whose clock is moved by hand,
 * and what can be compared of a directory.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { MoveOptions } from '../../src/move/move.ts'
import { feedLinesIn, openFeeds } from '../../src/sqlite/feeds.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { T0 } from './fixtures.ts'
import { connectTo } from './postgres.ts'
import { clockByHand, openSharedRegistry } from './shared.ts'
import { onCleanUp } from './temporary.ts'

/** The options of a move that nothing interrupts. */
export const orderFor = (dir: string, url: string): MoveOptions => ({
  ...{ dir, url, timeoutMs: 20_000, clock: () => T0, progress() {} },
  signal: new AbortController().signal,
})

/** The registry of a database that was moved, and its clock, which is set by hand. */
export async function openShared(url: string) {
  let elapsedMs = 0
  // Long after everything: so each request asks the database, whose clock this is not.
  const shared = openSharedRegistry(url, () => (elapsedMs += 1e9))
  onCleanUp(shared.close)
  return { ...shared, setClock: await clockByHand(shared.connection) }
}

/** The rows of a list with its cities, and the states of its feeds. */
export async function listed(dir: string) {
  const list = openList(dir)
  const feeds = openFeeds(dir)
  try {
    return {
      rows: list.db.query('select * from proxies order by id').all(),
      cities: list.db.query('select * from cities order by id').all(),
      feeds: [await feeds.list(), await feeds.find('one'), await feeds.find('two')],
      feedLines: feedLinesIn(dir).readLines(),
    }
  } finally {
    feeds.close()
    list.close()
  }
}

/** All files of a directory with their content; an empty WAL is none, which a connection that closes may just remove. */
export const contentOf = (dir: string): { [file: string]: string } =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true })
      .map(String)
      .filter(name => {
        const found = statSync(join(dir, name), { throwIfNoEntry: false })
        return found?.isFile() && !name.endsWith('-shm') && !(name.endsWith('-wal') && !found.size)
      })
      .sort()
      .map(name => [name, Bun.hash(readFileSync(join(dir, name))).toString()]),
  )

/** The rows of each table of a database that holds data; none where there is no schema. */
export async function holdings(url: string): Promise<{ [table: string]: number }> {
  const { query, close } = connectTo(url)
  try {
    const tables = await query<{ table: string }>(
      `select tablename as "table" from pg_tables where schemaname = 'proxylist' and tablename in
         ('keys', 'old_secrets', 'usage', 'networks', 'days', 'cities', 'proxies', 'feeds')`,
    )
    const rows: { [table: string]: number } = {}
    for (const { table } of tables) {
      const [row] = await query<{ n: number }>(`select count(*)::int as n from proxylist.${table}`)
      if (row !== undefined && row.n > 0) rows[table] = row.n
    }
    return rows
  } finally {
    await close()
  }
}
