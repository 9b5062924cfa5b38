/** The list of many machines (contract I3): one merge, by the leader, and a log that every copy follows. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { StoreError } from '../../src/lib/errors.ts'
import { createList } from '../../src/node/list.ts'
import type { Connection } from '../../src/postgres/connection.ts'
import { createSharedList } from '../../src/postgres/imports.ts'
import { prune, readHead } from '../../src/postgres/log.ts'
import { createNodes } from '../../src/postgres/nodes.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import type { ImportCounts, ImportMode } from '../../src/proxies/store.ts'
import { openListCopy } from '../../src/sqlite/copy.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { inodeOf } from '../../src/sqlite/database-files.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { T0 } from '../support/fixtures.ts'
import { anyIncoming, at, load, NOW, older, someIncoming } from '../support/incoming.ts'
import { connectTo, HAS_POSTGRES, holdOpen, migratedDatabase } from '../support/postgres.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

let url = ''
let database: Connection
let shared: ReturnType<typeof createSharedList>

/** A copy in a directory of its own, which its node follows when a test says so. */
function openNode(dir = temporaryDirectory(), snapshotBytes?: number) {
  const copy = openListCopy(dir, () => T0)
  onCleanUp(copy.close)
  const list = createList(connectTo(url), connectTo(url), copy, snapshotBytes)
  return {
    dir,
    copy,
    ...list,
    lead: () =>
      list.lead(
        () => true,
        () => {},
      ),
  }
}
type TestNode = ReturnType<typeof openNode>

/** Queues an import, lets a node merge it, and returns the counts. */
async function importBy(
  node: Pick<TestNode, 'lead'>,
  rows: Iterable<IncomingProxy>,
  mode: ImportMode = 'merge',
): Promise<ImportCounts> {
  const imported = load(shared, rows, mode)
  imported.catch(() => {})
  await untilQueued()
  await node.lead()
  return imported
}

const untilQueued = () =>
  until(
    async () =>
      (await database.query('select from proxylist.imports where result is null')).length > 0,
  )

/** The rows of a copy with the names of their cities, as one text. */
function contentsOf(dir: string | null, list = openList(dir, { isReader: true })): string {
  const rows = list.db
    .query(
      `select p.*, c.name, c.name_en from proxies p left join cities c on c.id = p.city order by p.id`,
    )
    .all()
  const text = JSON.stringify(rows, (name, value) => (name === 'city' ? undefined : value))
  if (dir !== null) list.close()
  return text
}

const versionOf = ({ copy }: TestNode): number | undefined => copy.position()?.version

beforeEach(async () => {
  if (!HAS_POSTGRES) return
  const made = await migratedDatabase()
  url = made.url
  database = made.connection
  shared = createSharedList(connectTo(url))
  await createNodes(database).report({ node: 'n1', address: 'a' }, 0, 0)
})

describe.skipIf(!HAS_POSTGRES)('an import', () => {
  test('through the log has the same result on every copy as on one machine', async () => {
    const [leader, follower] = [openNode(), openNode()]
    await leader.follow()
    const own = openList(null, { clock: () => T0 })
    const someImport = fc.record({
      mode: fc.constantFrom<ImportMode>('merge', 'feed', 'set', 'replace'),
      rows: fc.array(fc.oneof(someIncoming(), anyIncoming()), { minLength: 1, maxLength: 12 }),
    })
    await fc.assert(
      fc.asyncProperty(someImport, async ({ mode, rows }) => {
        const counts = await load(own, rows, mode)
        expect(await importBy(leader, rows, mode)).toEqual(counts)
        await follower.follow()
        const expected = contentsOf(null, own)
        expect(contentsOf(leader.dir)).toBe(expected)
        expect(contentsOf(follower.dir)).toBe(expected)
      }),
      { numRuns: 40 },
    )
  })

  test('is refused while no node runs', async () => {
    await database.query('delete from proxylist.nodes')
    const importTx = shared.begin('merge')
    await expect(importTx.lock()).rejects.toThrow(/^no node is running that could import/)
  })

  test('is cancelled when it is interrupted before its merge', async () => {
    const node = openNode()
    const ending = new AbortController()
    const importTx = shared.begin('merge')
    await importTx.lock(ending.signal)
    importTx.add(at(1))
    const result = importTx.commit()
    await untilQueued()
    ending.abort(new Error('stop'))
    await expect(result).rejects.toThrow('stop')
    await node.lead()
    expect(await readHead(database.query)).toBeNull()
  })

  test('that fails on the leader says why, and the next one is merged', async () => {
    const node = openNode()
    await node.follow()
    const imported = load(shared, [at(1)])
    imported.catch(() => {})
    await untilQueued()
    await database.query(`update proxylist.imports set body = '\\x00000004deadbeef'`)
    await node.lead()
    await expect(imported).rejects.toThrow(/nothing was imported$/)
    expect(await importBy(node, [at(2)])).toMatchObject({ added: 1 })
  })

  test('that the leader could not read stays queued, for this or another leader', async () => {
    const cut = connectTo(url)
    const lost = { ...cut, query: () => Promise.reject(new StoreError('the connection was lost')) }
    const copy = openListCopy(temporaryDirectory(), () => T0)
    onCleanUp(copy.close)
    const broken = createList(connectTo(url), lost, copy)
    const imported = load(shared, [at(1)], 'replace')
    await untilQueued()
    const led = broken.lead(
      () => true,
      () => {},
    )
    expect(led).rejects.toThrow('the connection was lost')
    await led.catch(() => {})
    await openNode().lead()
    expect(await imported).toMatchObject({ added: 1 })
  })

  test('that replaces the list is approved by its sizes before and after', async () => {
    const node = openNode()
    await importBy(node, [at(1), at(2)])
    const importTx = shared.begin('replace')
    await importTx.lock()
    importTx.add(at(3))
    const refuse = (sizes: object) => {
      throw new Error(JSON.stringify(sizes))
    }
    await expect(Promise.try(() => importTx.commit(refuse))).rejects.toThrow(
      '{"before":2,"after":1}',
    )
    expect(await shared.count()).toBe(2)
  })

  test('that changes nothing adds no version', async () => {
    const node = openNode()
    await importBy(node, [at(1)])
    expect(await importBy(node, [{ ...at(1), ...older }])).toMatchObject({ unchanged: 1 })
    expect(versionOf(node)).toBe(1)
  })
})

test.skipIf(!HAS_POSTGRES)('stale rows are removed on every copy', async () => {
  const [leader, follower] = [openNode(), openNode()]
  await importBy(leader, [at(1), at(2, { checkedAt: NOW - 7200 })])
  const removed = shared.removeStale(3_600_000, T0)
  await untilQueued()
  await leader.lead()
  expect(await removed).toMatchObject({ removed: 1 })
  await follower.follow()
  expect(contentsOf(follower.dir)).toBe(contentsOf(leader.dir))
})

describe.skipIf(!HAS_POSTGRES)('a copy', () => {
  test('that is new, or behind the log, is made from a snapshot; one that is up to date keeps its file', async () => {
    const [leader, follower, behind] = [openNode(), openNode(), openNode()]
    await importBy(leader, [at(1)])
    await behind.follow()
    await follower.follow()
    const inode = inodeOf(join(follower.dir, PROXY_FILE))
    await importBy(openNode(leader.dir, 1), [at(2)]) // and a snapshot
    await follower.follow()
    await database.query('update proxylist.list_log set at = 0')
    await prune(database)
    await importBy(leader, [at(3)])
    const fresh = openNode()
    for (const node of [leader, follower, behind, fresh]) {
      await node.follow()
      expect(versionOf(node)).toBe(4)
      expect(contentsOf(node.dir)).toBe(contentsOf(leader.dir))
    }
    expect(inodeOf(join(follower.dir, PROXY_FILE))).toBe(inode)
  })

  test('of a database whose log is empty is its first snapshot', async () => {
    const [leader, follower] = [openNode(), openNode()]
    await importBy(leader, [at(1)])
    await database.query('delete from proxylist.list_log')
    await follower.follow()
    await leader.lead()
    await follower.follow()
    expect([versionOf(leader), versionOf(follower)]).toEqual([2, 2])
    expect(contentsOf(follower.dir)).toBe(contentsOf(leader.dir))
  })

  test('of an upgraded database is replaced by an import of a whole list', async () => {
    const node = openNode()
    await database.query('update proxylist.installation set has_old_list = true')
    expect(await importBy(node, [at(2)], 'replace')).toMatchObject({ added: 1 })
    await node.follow()
  })

  test('whose versions a failover has lost is made again', async () => {
    const [leader, follower] = [openNode(), openNode()]
    await importBy(leader, [at(1)])
    await importBy(leader, [at(2)])
    await follower.follow()
    await database.query('delete from proxylist.list_log where version = 2')
    const other = openNode()
    await importBy(other, [at(3)])
    await follower.follow()
    expect(contentsOf(follower.dir)).toBe(contentsOf(other.dir))
    await importBy(other, [at(4)])
    await leader.follow() // the next version comes after another one than its own
    expect(contentsOf(leader.dir)).toBe(contentsOf(other.dir))
  })

  test('of another database is kept, with a message', async () => {
    const node = openNode()
    await importBy(node, [at(1)])
    await database.query('update proxylist.installation set id = gen_random_uuid()')
    await expect(node.follow()).rejects.toThrow(/^it is another database than/)
    expect(versionOf(node)).toBe(1)
  })

  test('that was lost, or damaged, is made again', async () => {
    const node = openNode()
    await importBy(node, [at(1)])
    const before = contentsOf(node.dir)
    node.copy.close()
    await Bun.write(join(node.dir, PROXY_FILE), 'damaged')
    await node.follow().catch(() => {})
    await node.follow()
    expect(contentsOf(node.dir)).toBe(before)
  })
})

describe.skipIf(!HAS_POSTGRES)('of two leaders', () => {
  test('one commits a version, the other follows; each import is merged once', async () => {
    const nodes = [openNode(), openNode()]
    for (const node of nodes) await node.follow()
    for (let round = 0; round < 10; round += 1) {
      const imported = load(shared, [at(round + 1)])
      await untilQueued()
      await Promise.allSettled(nodes.map(({ lead }) => lead()))
      for (const { lead } of nodes) await lead()
      expect(await imported).toMatchObject({ added: 1 })
    }
    const [one, two] = nodes.map(({ dir }) => contentsOf(dir))
    expect(one).toBe(two ?? '')
    expect(await readHead(database.query)).toMatchObject({ rows: 10 })
  })

  test('one whose commit is lost stays behind, and catches up', async () => {
    const leader = openNode()
    await importBy(leader, [at(1)])
    const lock = await holdOpen(url, 'lock table proxylist.list_log in exclusive mode')
    const imported = load(shared, [at(2)])
    await untilQueued()
    const led = leader.lead()
    led.catch(() => {})
    await until(
      async () =>
        (
          await database.query(
            `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          )
        ).length > 0,
    )
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where wait_event_type = 'Lock' and datname = current_database()`,
    )
    await expect(led).rejects.toThrow('cannot be used')
    await lock.end()
    expect(versionOf(leader)).toBe(1)
    await leader.lead()
    expect(await imported).toMatchObject({ added: 1 })
    expect(versionOf(leader)).toBe(2)
  })
})
