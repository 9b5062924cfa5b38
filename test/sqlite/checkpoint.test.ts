/** Long WALs: the server's worker checkpoints what readers kept, and a failed import leaves none behind. */
import { afterAll, describe, expect, test } from 'bun:test'
import { dirname, join } from 'node:path'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { ACCESS_FILE, PROXY_FILE, sizeOf, walOf } from '../../src/sqlite/data-directory.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { pendingBytes } from '../../src/sqlite/wal.ts'
import { damageOf } from '../support/damage.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { BARE } from '../support/incoming.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const LONG_BYTES = 20_000_000
const DEADLINE_MS = 120_000

const walBytes = (file: string): number => sizeOf(walOf(file))

/** A list with a long WAL, which a reader has kept, and a function that ends the reader. */
function withLongWal() {
  const dir = dataDirectory()
  const [writer, reader] = [openList(dir), openList(dir)]
  reader.db.run('begin')
  reader.proxies.isEmpty()
  writer.db.run('create table junk (content)')
  writer.db.run('insert into junk values (zeroblob(?))', [LONG_BYTES])
  writer.proxies.noteChange()
  const file = join(dir, PROXY_FILE)
  expect(pendingBytes(writer.db)).toBeGreaterThan(LONG_BYTES)
  return { dir, file, writer, reader, endReading: () => reader.db.run('commit') }
}

function startServer(dir: string, said: string[] = []) {
  const say = (sentence: string) => void said.push(sentence)
  return openServerList(dir, 'the service', () => T0, say)
}
type ServerList = ReturnType<typeof startServer>

/** Ticks of the servers, more often than every second, until most of the WAL is in the file. */
async function tickUntilCopied(file: string, servers: readonly ServerList[]): Promise<void> {
  const untilMs = performance.now() + DEADLINE_MS
  const list = openList(dirname(file))
  while (pendingBytes(list.db) > LONG_BYTES / 2) {
    if (performance.now() > untilMs) throw new Error('the WAL is not copied')
    for (const server of servers) {
      server.tick()
      expect(server.isEmpty()).toBeFalse()
      expect(server.version()).toMatch(/^0\./) // never closed and opened again
    }
    await Bun.sleep(5)
  }
  list.close()
  for (const server of servers) server.tick()
}

describe('a long WAL', () => {
  test('is checkpointed by running servers when no query reads the old list', async () => {
    const { dir, file, writer, reader, endReading } = withLongWal()
    const said: string[] = []
    const servers = [startServer(dir, said), startServer(dir, said)]
    for (const server of servers) server.tick() // the attempt fails: the snapshot is still being read
    endReading()
    await tickUntilCopied(file, servers)
    for (const server of servers) server.close()
    expect(said).toEqual([])
    for (const { close } of [writer, reader]) close()
    expect(damageOf(file)).toBeNull()
  })

  test('of an import that does not fit is emptied, and the list is unchanged', () => {
    const dir = dataDirectory()
    const server = startServer(dir)
    const list = openList(dir)
    const file = join(dir, PROXY_FILE)
    const rows = list.proxies.count()
    list.db.run('pragma cache_size = 10') // the transaction writes to the WAL long before its commit
    list.db.run('pragma max_page_count = 500') // the same error as on a full disk
    const importTx = list.begin('merge')
    const addAll = (): void => {
      for (let port = 1; port <= 60_000; port += 1) importTx.add({ ...BARE, port })
      void importTx.commit()
    }
    expect(addAll).toThrow(/full/)
    expect(walBytes(file)).toBeGreaterThan(1_000_000)
    void importTx.rollback()
    expect(walBytes(file)).toBe(0)
    expect(list.proxies.count()).toBe(rows)
    expect(server.isEmpty()).toBeFalse()
    list.close()
    server.close()
  })
})

test('a long WAL of usage is checkpointed and reused while the server writes', async () => {
  const dir = dataDirectory()
  const file = join(dir, ACCESS_FILE)
  const server = openServerRegistry(dir, sentence => expect(sentence).toBe(''))
  const writer = openAccessFile(file, { isServer: true })
  writer.run('create table junk (content)')
  writer.run('insert into junk values (zeroblob(?))', [LONG_BYTES])
  expect(pendingBytes(writer)).toBeGreaterThan(LONG_BYTES)
  const frames = () => Number(writer.prepare('pragma wal_checkpoint(noop)').values()[0]?.[1])
  const before = frames()
  const untilMs = performance.now() + DEADLINE_MS
  while (frames() >= before) {
    if (performance.now() > untilMs) throw new Error('the WAL is not copied')
    server.tick()
    writer.run('insert into junk values (zeroblob(500_000))') // a commit
    await Bun.sleep(5)
  }
  expect(frames()).toBeLessThan(before / 10)
  server.close()
  writer.close(true)
})
