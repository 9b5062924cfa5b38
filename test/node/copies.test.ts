/** Copies of a list, and of keys and plans, in PostgreSQL are exactly these, from whichever version they follow (contract I1, I3). */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newKey } from '../../src/access/key.ts'
import type { Plan } from '../../src/access/plan.ts'
import type { ChangeSource, Version } from '../../src/node/ports.ts'
import { createChangeSource } from '../../src/postgres/changes.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { createListStore } from '../../src/postgres/list.ts'
import type { ImportMode } from '../../src/proxies/store.ts'
import { readStoredKeys } from '../../src/sqlite/access/keys.ts'
import { createPlanStore } from '../../src/sqlite/access/plans.ts'
import { openKeyCopy, openListCopy } from '../../src/sqlite/copy.ts'
import { damageOf } from '../support/damage.ts'
import { fillList, T0, type TestRow } from '../support/fixtures.ts'
import { HAS_POSTGRES, migratedDatabase, optionsFor } from '../support/postgres.ts'
import { createRandom } from '../support/random.ts'
import { openSharedRegistry } from '../support/shared.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const clock = (): number => T0

let connection: Connection
let source: ChangeSource
let openSource: () => ChangeSource
let list: ReturnType<typeof createListStore>
const random = createRandom(7)
const below = (n: number): number => Math.floor(random() * n)

beforeAll(async () => {
  if (!HAS_POSTGRES) return
  const database = await migratedDatabase()
  connection = database.connection
  const open = () => {
    const opened = openConnection(optionsFor(database.url))
    onCleanUp(opened.close)
    return opened
  }
  list = createListStore(open(), clock)
  openSource = () => createChangeSource(connection, open())
  source = openSource()
})

const CITIES = ['Berlin', 'Paris', 'Лондон', '']
const OUTS = ['', '9.9.9.9', '2001:db8::7']
const randomRow = (): TestRow => ({
  ip: `10.0.${below(3)}.${below(40)}:80`,
  type: ['http', 'socks5'][below(2)],
  age: below(1000),
  city: CITIES[below(4)],
  city_en: random() < 0.3 ? `City ${below(9)}` : '',
  ping: below(900),
  ip_out: OUTS[below(3)],
})

const randomImport = async (
  mode: ImportMode = random() < 0.15 ? 'replace' : 'merge',
): Promise<void> =>
  void (await fillList(list, Array.from({ length: 1 + below(60) }, randomRow), mode))

const randomWorks = async (): Promise<void> => {
  const importTx = list.begin('set')
  for (let n = 0; n < 20; n += 1) {
    importTx.lower({ ip: `10.0.${below(3)}.${below(40)}`, port: 80 }, below(101))
  }
  await importTx.commit()
}
const randomChange = () => (random() < 0.2 ? randomWorks() : randomImport())

const COLUMNS = 'checked_at, ping_ms, types, anon, works, speed, services, country'
const names = `coalesce(c.name, '') as name, coalesce(c.name_en, '') as name_en`

/** The rows of the database, as text. */
async function stored(): Promise<string[]> {
  const rows = await connection.query<{ line: string }>(
    `select concat_ws('|', p.id, ${COLUMNS}, ip_out, name, name_en) as line
     from (select p.*, ${names} from proxylist.proxies p
       left join proxylist.cities c on c.id = p.city) p order by id`,
  )
  return rows.map(({ line }) => line)
}

/** The rows of a copy likewise, read by a connection of its own. */
function copied(dir: string): string[] {
  const db = new Database(join(dir, 'proxies.db'), { readonly: true })
  try {
    return db
      .query<{ line: string }, []>(
        `select concat_ws('|', id, ${COLUMNS}, ip_out, name, name_en) as line
         from (select p.*, ${names} from proxies p left join cities c on c.id = p.city) order by id`,
      )
      .all()
      .map(({ line }) => line)
  } finally {
    db.close()
  }
}

type ListCopy = ReturnType<typeof openListCopy>
const openCopy = (dir = temporaryDirectory()): { dir: string; copy: ListCopy } => {
  const copy = openListCopy(dir)
  onCleanUp(() => copy.close())
  return { dir, copy }
}
const follow = (copy: ListCopy): Promise<void> => source.readList(copy.version(), copy.apply)

async function expectSame(dir: string): Promise<void> {
  expect(copied(dir)).toEqual(await stored())
  expect(damageOf(join(dir, 'proxies.db'))).toBeNull()
}

describe.skipIf(!HAS_POSTGRES)('the copy of a list', () => {
  test('is the list after random imports, retention and replacements, followed now and then', async () => {
    const copies = Array.from({ length: 3 }, () => openCopy())
    for (let n = 0; n < 40; n += 1) {
      if (random() < 0.1) await list.removeStale(400_000 + below(300_000), T0)
      else await randomChange()
      for (const { copy, dir } of copies) {
        if (random() > 0.3) continue
        await follow(copy)
        await expectSame(dir)
      }
    }
    const versions = []
    for (const { copy, dir } of copies) {
      await follow(copy)
      await expectSame(dir)
      versions.push(copy.version())
    }
    const { list: newest } = await source.versions()
    expect(versions).toEqual([newest, newest, newest])
  })

  test('keeps its rows in place when only some change, and no more is read than what changed', async () => {
    const { copy, dir } = openCopy()
    await follow(copy)
    await fillList(list, [{ ip: '10.0.9.9:80', type: 'http' }])
    let read = 0
    await source.readList(copy.version(), async changes => {
      expect({ isWhole: changes.isWhole, size: changes.size }).toEqual({ isWhole: false, size: 1 })
      await copy.apply({
        ...changes,
        rows: (async function* () {
          for await (const rows of changes.rows) {
            read += rows.length
            yield rows
          }
        })(),
      })
    })
    expect(read).toBe(1)
    await expectSame(dir)
  })

  test('names a city whose name was removed meanwhile, and came back under another id', async () => {
    const { copy, dir } = openCopy()
    const inCity = (city: string) => [{ ip: '10.0.0.1:80', type: 'http', city }]
    for (const city of ['Rome', 'Oslo', 'Bonn', 'Rome']) {
      await fillList(list, inCity(city), 'replace')
      await follow(copy)
      await expectSame(dir)
      expect(copied(dir)).toEqual([expect.stringContaining(`|${city}|`)])
    }
  })

  test('stays as it was when reading it ends in the middle', async () => {
    const { copy, dir } = openCopy()
    await follow(copy)
    const before = copied(dir)
    const version = copy.version()
    await randomImport()
    const broken = source.readList(copy.version(), changes =>
      copy.apply({
        ...changes,
        rows: (async function* () {
          for await (const rows of changes.rows) {
            yield rows
            throw new Error('the connection was lost')
          }
        })(),
      }),
    )
    await expect(broken).rejects.toThrow('the connection was lost')
    expect(copied(dir)).toEqual(before)
    expect(copy.version()).toEqual(version)
    await follow(copy)
    await expectSame(dir)
  })

  test('says its version while it is written, which may take long, and is written all the same', async () => {
    const { copy, dir } = openCopy()
    await follow(copy)
    await randomImport()
    const before = copy.version()
    const versions: unknown[] = []
    await source.readList(before, changes =>
      copy.apply({
        ...changes,
        rows: (async function* () {
          for await (const rows of changes.rows) {
            versions.push(copy.version())
            yield rows
            versions.push(copy.version())
          }
        })(),
      }),
    )
    expect(versions).toEqual(versions.map(() => before))
    expect(versions).not.toBeEmpty()
    await expectSame(dir)
  })

  test('is not changed by a follower that has read an older version: two may follow', async () => {
    const { copy, dir } = openCopy()
    await follow(copy)
    await randomImport()
    const other = openCopy(dir).copy
    const faster = openSource()
    await source.readList(copy.version(), async changes => {
      await randomImport('replace')
      await faster.readList(other.version(), other.apply)
      await copy.apply(changes)
    })
    await expectSame(dir)
  })
})

describe.skipIf(!HAS_POSTGRES)('the copy of a list is made again', () => {
  test('when it is that of another database, whose cities have other numbers', async () => {
    const { copy, dir } = openCopy()
    await source.readList(null, changes =>
      copy.apply({
        ...changes,
        to: { database: 'another', version: 3, mark: 'm' },
        cities: [{ id: 1, name: 'Elsewhere', nameEn: '' }],
        rows: (async function* () {})(),
      }),
    )
    expect(copied(dir)).toBeEmpty()
    await follow(copy)
    await expectSame(dir)
    expect(copy.version()).toEqual((await source.versions()).list)
  })

  test('when it was deleted or damaged', async () => {
    const { copy, dir } = openCopy()
    const file = join(dir, 'proxies.db')
    await follow(copy)
    for (const spoil of [
      () => writeFileSync(file, 'no database'),
      () => Bun.spawnSync(['rm', '-f', file, `${file}-wal`, `${file}-shm`]),
    ]) {
      spoil()
      expect(copy.version()).toBeNull()
      await follow(copy)
      await expectSame(dir)
    }
  })
})

test('the copy of keys is not changed by a follower that has read an older version: two may follow', async () => {
  const at = (version: number): Version => ({ database: 'db', version, mark: `m${version}` })
  const changes = { plans: [], removed: [], keys: [] }
  const copy = openKeyCopy(temporaryDirectory())
  onCleanUp(copy.close)
  await copy.apply({ ...changes, isWhole: true, since: null, to: at(5) })
  await copy.apply({ ...changes, isWhole: false, since: at(3), to: at(4) })
  expect(copy.version()).toEqual(at(5))
  await copy.apply({ ...changes, isWhole: false, since: at(5), to: at(6) })
  expect(copy.version()).toEqual(at(6))
})

describe.skipIf(!HAS_POSTGRES)('the copy of keys', () => {
  test('is read as a whole when its version is not one of the database', async () => {
    const { keys } = await source.versions()
    const isWhole = async (since: typeof keys) => (await source.readKeys(since)).isWhole
    expect(await isWhole(keys)).toBeFalse()
    expect(await isWhole({ ...keys, mark: 'lost by a failover' })).toBeTrue()
    expect(await isWhole({ ...keys, database: 'another' })).toBeTrue()
    expect(await isWhole({ ...keys, version: -1 })).toBeTrue()
  })
})

const PLAN: Plan = {
  ...{ name: 'p', burst: null, daily: 9, subnets: null, clients: null, count: null },
  ...{ downloads: null, enabled: true },
}

/** A database, and a copy of its keys that follows on demand. */
async function openBoth() {
  const { url, connection } = await migratedDatabase()
  const shared = openSharedRegistry(url)
  const { registry } = shared
  const source = createChangeSource(connection, connection)
  const dir = temporaryDirectory()
  const copy = openKeyCopy(dir)
  for (const { close } of [shared, copy]) onCleanUp(close)
  return {
    registry,
    /** Follows; returns whether it was read as a whole. */
    async follow(): Promise<boolean> {
      const changes = await source.readKeys(copy.version())
      await copy.apply(changes)
      return changes.isWhole
    },
    async expectSame(): Promise<void> {
      const { keys, plans } = registry
      const db = new Database(join(dir, 'access.db'), { readonly: true })
      const copied = readStoredKeys(db)
      const copiedPlans = createPlanStore(db).list()
      db.close()
      expect(copied).toEqual(await keys.dump())
      expect(copiedPlans).toEqual(await plans.list())
    },
  }
}

describe.skipIf(!HAS_POSTGRES)('the copy of keys and plans', () => {
  test('is brought up to date by what has changed, whatever that was', async () => {
    const { registry, follow, expectSame } = await openBoth()
    const { keys, plans } = registry
    const add = async (label: string, plan: string | null = 'standard'): Promise<string> => {
      const key = newKey(plan === null ? 'temp' : 'regular')
      return (await keys.add({ key, label, note: `of ${label}`, plan, expiresAt: T0 }, T0)).id
    }
    const one = await add('one')
    const two = await add('two', null)
    expect(await follow()).toBeTrue()
    await expectSame()
    const stored = (await keys.dump()).filter(({ id }) => id === one)
    const changes: (() => unknown)[] = [
      () => add('three'),
      () => plans.set(PLAN),
      () => keys.set(one, { plan: 'p', label: 'moved', expiresAt: null }),
      () => plans.set({ ...PLAN, daily: 3, enabled: false, burst: { requests: 1, seconds: 2 } }),
      () => keys.rotate(one, newKey('regular'), T0 + 1_000, T0),
      () => keys.rotate(one, newKey('regular'), T0 + 2_000, T0 + 500),
      () => keys.rotate(one, newKey('regular'), T0, T0), // ends the old ones
      () => keys.revoke(two, T0 + 1),
      () => keys.remove(two),
      () => keys.set(one, { plan: 'standard' }),
      () => plans.remove('p'),
      () => keys.revoke(one, T0 + 2),
      () => keys.remove(one),
      () => keys.load(stored, false), // it comes back
    ]
    for (const [n, change] of changes.entries()) {
      await change()
      expect([n, await follow()]).toEqual([n, false])
      await expectSame()
    }
    expect((await keys.dump()).map(({ label }) => label)).toContain('one')
  })

  test('may follow several changes at once, among them a secret that another key has now', async () => {
    const { registry, follow, expectSame } = await openBoth()
    const { keys, plans } = registry
    const [first, second] = [newKey('regular'), newKey('regular')]
    const add = (key: string) =>
      keys.add({ key, label: '', note: '', plan: 'standard', expiresAt: null }, T0)
    const { id } = await add(first)
    await follow()
    await keys.rotate(id, second, T0, T0)
    await add(first)
    await plans.set(PLAN)
    await keys.set(id, { plan: 'p' })
    expect(await follow()).toBeFalse()
    await expectSame()
  })
})
