/** The queue of imports (contract I3). Any machine adds its rows to table `imports`; the leader merges them. */
import { setTimeout as delay } from 'node:timers/promises'
import { CommandError, StoreError } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { createCityList, type Incoming, PART_ROWS, type Stale } from '../node/ports.ts'
import { type Address, type IncomingProxy, servicesToBits } from '../proxies/proxy.ts'
import { idOf, type Row, toRow, UNKNOWN } from '../proxies/row.ts'
import type { ImportCounts, ImportMode, ImportTx, ProxyWriter, Removal } from '../proxies/store.ts'
import { joinFrames, readFrames, toFrame } from './body.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'
import { readHead } from './log.ts'

/** `retain` removes stale rows; its body is a `Stale`. */
export type Mode = ImportMode | 'retain'
type Result = { counts: ImportCounts } | { failure: string }

const ASK_EVERY_MS = 20
const NO_NODE_MS_MAX = 15 * SECOND_MS
/** A node reports every second. */
const SEEN_MS = 5 * SECOND_MS

const NO_NODE = 'no node is running that could import: start one with proxylist serve'

const NOT_MERGED =
  'no node has merged this import yet; waiting (proxylist nodes, and stderr of the nodes, say why)'

type OnWait = (reason: string) => void

const HAS_NODE = `exists (select from proxylist.nodes where seen > proxylist.now_ms() - ${SEEN_MS})`

async function enqueue(query: Query, mode: Mode, body: Uint8Array): Promise<string> {
  const { id } = await onlyRow<{ id: string }>(
    query,
    `with queued as (insert into proxylist.imports (mode, body) values ($1, $2) returning id)
     select id::text, pg_notify('proxylist', 'imports') from queued`,
    [mode, body],
  )
  return id
}

/** Removes an import from the queue; false if it was merged. */
async function withdraw(query: Query, id: string): Promise<boolean> {
  const text = 'delete from proxylist.imports where id = $1::bigint and result is null returning id'
  return (await query(text, [id])).length > 0
}

/**
 * Waits for the result of an import. Withdraws it when `signal` is aborted, or when no node runs.
 * @throws CommandError, or the reason of `signal`; then the list did not change. @throws StoreError when the database
 * fails: the import may still be merged.
 */
async function resultOf(
  query: Query,
  id: string,
  signal?: AbortSignal,
  onWait: OnWait = () => {},
): Promise<ImportCounts> {
  for (let aloneMs = 0, waitedMs = 0; ; waitedMs += ASK_EVERY_MS) {
    if (waitedMs === NO_NODE_MS_MAX) onWait(NOT_MERGED)
    const [row] = await query<{ json: string | null; hasNode: boolean }>(
      `select result::text as json, ${HAS_NODE} as "hasNode"
       from proxylist.imports where id = $1::bigint`,
      [id],
    )
    if (row === undefined) throw new StoreError('the import was removed from the database')
    if (row.json !== null) {
      await query('delete from proxylist.imports where id = $1::bigint', [id])
      const result: Result = JSON.parse(row.json)
      if ('counts' in result) return result.counts
      throw new CommandError(`${result.failure}; nothing was imported`)
    }
    aloneMs = row.hasNode ? 0 : aloneMs + ASK_EVERY_MS
    const isAlone = aloneMs > NO_NODE_MS_MAX
    if ((signal?.aborted || isAlone) && (await withdraw(query, id))) {
      signal?.throwIfAborted()
      throw new CommandError(NO_NODE)
    }
    await delay(ASK_EVERY_MS)
  }
}

function createBody() {
  const frames: Uint8Array[] = []
  let part = createPart()

  function flush(): void {
    const { positionOf: _, ...incoming } = part
    frames.push(toFrame(incoming satisfies Incoming))
    part = createPart()
  }

  return {
    add(proxy: IncomingProxy): void {
      const city = part.positionOf({ name: proxy.city, nameEn: proxy.cityEn })
      part.rows.push(toRow(proxy, city))
      part.stated.push(servicesToBits(proxy.servicesStated))
      if (part.rows.length === PART_ROWS) flush()
    },
    lower: (id: number, works: number): void => void part.lowered.push([id, works]),
    take(): Uint8Array {
      flush()
      return joinFrames(frames)
    },
  }
}

const createPart = () => ({
  ...createCityList(),
  rows: [] as Row[],
  stated: [] as number[],
  lowered: [] as [id: number, works: number][],
})

/** Begins an import. `connection` needs a long timeout, because one statement sends all rows. */
function begin({ query }: Connection, mode: ImportMode, onWait?: OnWait): ImportTx {
  const body = createBody()
  /** The addresses of a new list, to compare its size with the old list. */
  const ids = new Set<number>()
  let used: AbortSignal | undefined
  return {
    async lock(signal) {
      used = signal
      const { has } = await onlyRow<{ has: boolean }>(query, `select ${HAS_NODE} as has`)
      if (!has) throw new CommandError(NO_NODE)
    },
    add(proxy) {
      if (mode === 'replace') ids.add(idOf(proxy))
      body.add(proxy)
    },
    lower: (address: Address, works: number | null) => body.lower(idOf(address), works ?? UNKNOWN),
    async commit(approve) {
      if (mode === 'replace') {
        approve?.({ before: (await readHead(query))?.rows ?? 0, after: ids.size })
      }
      const id = await enqueue(query, mode, body.take())
      return resultOf(query, id, used, onWait)
    },
    rollback() {},
  }
}

/** The list of a shared database: any machine changes it through the queue. */
export function createSharedList(connection: Connection) {
  const { query } = connection
  return {
    begin: (mode: ImportMode, onWait?: OnWait) => begin(connection, mode, onWait),
    async removeStale(retainMs: number, nowMs: number): Promise<Removal> {
      const stale: Stale = { retainMs, nowMs }
      const id = await enqueue(query, 'retain', joinFrames([toFrame(stale)]))
      const { removed } = await resultOf(query, id)
      return { removed, mayRemain: removed > 0 }
    },
    importMark: async () => (await readHead(query))?.imported ?? '',
    count: async () => (await readHead(query))?.rows ?? 0,
  } satisfies ProxyWriter
}

/** Queues a whole list in the transaction of `query`; the leader merges it. */
export async function queueList(query: Query, proxies: Iterable<IncomingProxy>): Promise<void> {
  const body = createBody()
  let isEmpty = true
  for (const proxy of proxies) {
    body.add(proxy)
    isEmpty = false
  }
  if (!isEmpty) await enqueue(query, 'replace', body.take())
}

export type QueuedImport = { id: string; mode: Mode }

export const nextImport = async (query: Query): Promise<QueuedImport | null> =>
  (
    await query<QueuedImport>(
      'select id::text as id, mode from proxylist.imports where result is null order by id limit 1',
    )
  )[0] ?? null

export const readImport = <T extends Incoming | Stale>(
  query: Query,
  { id }: QueuedImport,
): AsyncGenerator<T> => readFrames(query, 'imports where id = $2::bigint', [id])

/** Stores the result and removes the rows. @throws StoreError if the import was withdrawn. */
export async function finishImport(
  query: Query,
  { id }: QueuedImport,
  result: Result,
): Promise<void> {
  const stored = await query(
    `update proxylist.imports set result = $2::text::json, body = ''
     where id = $1::bigint and result is null returning id`,
    [id, JSON.stringify(result)],
  )
  if (stored.length === 0) throw new StoreError('an import was withdrawn')
}
