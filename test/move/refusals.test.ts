/**
 * Holds that a move is all or nothing (contract I5): what it refuses, and that nothing is left of one that
 * is interrupted, at any point.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../src/lib/errors.ts'
import {
  backUpDatabase,
  type MoveOptions,
  moveFromDatabase,
  moveToDatabase,
} from '../../src/move/move.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { flipLast } from '../support/damage.ts'
import { smallDisk } from '../support/disk.ts'
import { addKeys, dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { contentOf, holdings, listed, orderFor } from '../support/moves.ts'
import {
  connectTo,
  emptyDatabase,
  HAS_POSTGRES,
  holdOpen,
  untilWaiting,
} from '../support/postgres.ts'
import { program, proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS = Array.from({ length: 3000 }, (_, i) => ({
  ...{ ip: `10.0.${i >> 8}.${i & 255}:80`, type: 'http', city: `city ${i % 7}` },
}))

/** The message with which work fails. */
const failureOf = (work: Promise<unknown>): Promise<string> =>
  work.then(() => 'it did not fail', messageOf)

/** A database that holds what a directory held. */
async function movedDatabase(rows = ROWS): Promise<{ dir: string; url: string }> {
  const dir = dataDirectory(rows)
  const url = await emptyDatabase()
  await moveToDatabase(orderFor(dir, url))
  return { dir, url }
}

async function run(url: string, ...statements: string[]): Promise<void> {
  const { query, close } = connectTo(url)
  for (const statement of statements) await query(statement)
  await close()
}
async function runMigrated(url: string, ...statements: string[]): Promise<void> {
  const connection = connectTo(url)
  await migrate(connection)
  await connection.close()
  await run(url, ...statements)
}

/** What is refused: how the scene differs, and the sentence. */
type Refusals = readonly (readonly [
  what: string,
  sentence: RegExp,
  prepare: (dir: string, url: string) => Promise<unknown> | unknown,
])[]

/** Registers a test of each refusal, in a directory and a database of a scene, which stay as they are. */
function testRefusals(
  refusals: Refusals,
  move: typeof moveToDatabase | typeof moveFromDatabase,
  scene: () => Promise<{ dir: string; url: string }>,
): void {
  test.each(refusals)('%s; nothing is changed', async (_, sentence, prepare) => {
    const { dir, url } = await scene()
    await prepare(dir, url)
    const state = async () => [existsSync(dir) && contentOf(dir), await holdings(url)]
    const before = await state()
    expect(await failureOf(move(orderFor(dir, url)))).toMatch(sentence)
    expect(await state()).toEqual(before)
  })
}

const INTO: Refusals = [
  [
    'a database with data, which is counted',
    /^the database 127\.0\.0\.1:\d+\/\w+ is not empty, it holds 1 key, 1 plan, 3 proxies: give one that is/,
    async (_, url) => {
      await moveToDatabase(orderFor(dataDirectory(ROWS.slice(0, 3)), url))
    },
  ],
  [
    'a database that does not keep what is written',
    /^what was written is not what was read \(proxies\)$/,
    (_, url) =>
      runMigrated(
        url,
        `create function proxylist.slower() returns trigger language plpgsql
         as $$ begin new.speed := new.speed + 1; return new; end $$`,
        `create trigger slower before insert on proxylist.proxies
         for each row execute function proxylist.slower()`,
      ),
  ],
  [
    'a directory that is not there',
    /^there is no data directory \S+; check --data/,
    dir => rmSync(dir, { recursive: true }),
  ],
  [
    'a directory without data',
    /^there is nothing to move in \S+$/,
    dir => readdirSync(dir).map(name => rmSync(join(dir, name))),
  ],
  [
    'a directory without keys, which may have been lost',
    /access\.db is missing, so nothing was moved: restore a backup/,
    dir => rmSync(join(dir, ACCESS_FILE)),
  ],
  [
    'keys that are damaged',
    /access\.db is damaged/,
    dir => truncateSync(join(dir, ACCESS_FILE), 3000),
  ],
  ['a list that is damaged', /proxies\.db is damaged/, dir => flipLast(join(dir, PROXY_FILE))],
  [
    'a directory of a newer program',
    /access\.db was written by a newer proxylist \(schema 99/,
    dir => {
      const db = new Database(join(dir, ACCESS_FILE))
      db.run('pragma user_version = 99')
      db.close()
    },
  ],
  [
    'a database of a newer program',
    /was written by a newer proxylist \(schema 99/,
    (_, url) => runMigrated(url, 'update proxylist.installation set schema = 99'),
  ],
  [
    'a copy of another database',
    /access\.db is a copy of a shared database: its data are there already; serve with --database goes on/,
    async dir => {
      await moveToDatabase(orderFor(dir, await emptyDatabase()))
    },
  ],
]

describe.skipIf(!HAS_POSTGRES)('a move into a database refuses', () => {
  testRefusals(INTO, moveToDatabase, async () => ({
    ...{ dir: dataDirectory(ROWS.slice(0, 20)), url: await emptyDatabase() },
  }))

  test('a directory that a server has open: what it admits would be lost', async () => {
    const [dir, url] = [dataDirectory(), await emptyDatabase()]
    const server = await startChild(dir)
    expect(await failureOf(moveToDatabase(orderFor(dir, url)))).toMatch(
      /access\.db is in use; stop server and checker/,
    )
    await server.stop()
    expect(await holdings(url)).toEqual({})
    await moveToDatabase(orderFor(dir, url))
  })

  test('keeps servers and commands out of the directory until it is over', async () => {
    const [dir, url] = [dataDirectory(ROWS), await emptyDatabase()]
    let opened: unknown = null
    const progress = (): void => {
      if (opened !== null) return
      try {
        openRegistry(dir, { isServer: true, mustExist: true }).close()
        opened = 'was opened'
      } catch (error) {
        opened = error
      }
    }
    await moveToDatabase({ ...orderFor(dir, url), progress })
    expect(String(opened)).toContain('is locked by another process')
  })
})

const BACK: Refusals = [
  [
    'while a node runs',
    /is in use by eu-1 \(10\.0\.0\.1:8080\); stop all nodes first/,
    (_, url) =>
      run(
        url,
        `insert into proxylist.nodes values ('eu-1', '10.0.0.1:8080', 1, 0, proxylist.now_ms())`,
      ),
  ],
  [
    'a directory with data of its own',
    /access\.db is data of its own, which would be lost/,
    dir => addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free' }], T0),
  ],
  [
    'a directory with a copy of another database',
    /access\.db is a copy of another database/,
    async dir => {
      const other = await movedDatabase(ROWS.slice(0, 3))
      cpSync(other.dir, dir, { recursive: true })
    },
  ],
  [
    'a database without data',
    /holds nothing of proxylist$/,
    (_, url) => run(url, 'drop schema proxylist cascade'),
  ],
]

describe.skipIf(!HAS_POSTGRES)('a move back refuses', () => {
  testRefusals(BACK, moveFromDatabase, async () => ({
    ...(await movedDatabase(ROWS.slice(0, 20))),
    dir: join(temporaryDirectory(), 'data'),
  }))

  test('no more once a killed node was not seen for some seconds', async () => {
    const { dir, url } = await movedDatabase(ROWS.slice(0, 20))
    await run(
      url,
      `insert into proxylist.nodes values ('eu-1', 'a', 1, 0, proxylist.now_ms() - 5001)`,
    )
    await moveFromDatabase(orderFor(dir, url))
  })

  test('nothing where the directory is the copy that the move into the database has left', async () => {
    const { dir, url } = await movedDatabase(ROWS.slice(0, 20))
    await moveFromDatabase(orderFor(dir, url))
    expect((await listed(dir)).rows).toHaveLength(20)
    expect(await moveToDatabase(orderFor(dir, url))).toMatchObject({ counts: { keys: 1 } })
  })
})

describe.skipIf(!HAS_POSTGRES)('a move back', () => {
  test('waits for what is being written when it begins, and moves that too', async () => {
    const { dir, url } = await movedDatabase(ROWS.slice(0, 3))
    const connection = connectTo(url)
    const day = `insert into proxylist.days values (1, 'demo', 1, 0, 0, '{1}')`
    const session = await holdOpen(url, day)
    const moving = moveFromDatabase(orderFor(dir, url))
    await untilWaiting(connection, 'proxylist move')
    await session.end('commit')
    await moving
    const days = new Database(join(dir, ACCESS_FILE)).query('select key_id from days').all()
    expect(days).toContainEqual({ key_id: 'demo' })
    expect(await connection.query('select from proxylist.days')).toHaveLength(days.length)
    await connection.close()
  })
})

/** Interrupts a move when a share of it is done. */
const atShare = (share: number, work: () => void): Pick<MoveOptions, 'progress'> => {
  let isDone = false
  return {
    progress(done) {
      if (isDone || done < share) return
      isDone = true
      work()
    },
  }
}
const SHARES = [0, 0.3, 0.6, 0.99]
const KILLED_AFTER_MS = [150, 300, 500]

/** Ends the connections of a move on the server, before anything else goes on here. */
function endConnections(url: string): void {
  const code = `const { SQL } = require('bun'); const sql = new SQL(process.env.URL);
    await sql\`select pg_terminate_backend(pid, 5000) from pg_stat_activity
      where application_name = 'proxylist move' and datname = current_database()\`;
    await sql.close()`
  const { exitCode } = Bun.spawnSync([process.execPath, '-e', code], { env: { URL: url } })
  expect(exitCode).toBe(0)
}

/** Runs `move` until it is killed, or ends. */
async function killed(args: readonly string[], afterMs: number): Promise<void> {
  const child = Bun.spawn([...program(), 'move', ...args], { stdout: 'ignore', stderr: 'ignore' })
  await Promise.race([Bun.sleep(afterMs), child.exited])
  child.kill('SIGKILL')
  await child.exited
}

describe.skipIf(!HAS_POSTGRES)('a move that is interrupted', () => {
  test('by a signal leaves everything as it was, and can be made again', async () => {
    const [dir, url] = [dataDirectory(ROWS), await emptyDatabase()]
    const rows = await listed(dir)
    const before = contentOf(dir)
    const stopped = new Error('interrupted; nothing was changed')
    const interrupted = (order: MoveOptions, share: number): MoveOptions => {
      const controller = new AbortController()
      const { signal } = controller
      return { ...order, signal, ...atShare(share, () => controller.abort(stopped)) }
    }
    for (const share of SHARES) {
      const move = moveToDatabase(interrupted(orderFor(dir, url), share))
      expect(await failureOf(move)).toBe(stopped.message)
      expect([contentOf(dir), await holdings(url)]).toEqual([before, {}])
    }
    await moveToDatabase(orderFor(dir, url))
    const [moved, back] = [await holdings(url), join(temporaryDirectory(), 'back')]
    for (const share of SHARES) {
      const move = moveFromDatabase(interrupted(orderFor(back, url), share))
      expect(await failureOf(move)).toBe(stopped.message)
      expect([existsSync(back), await holdings(url)]).toEqual([false, moved])
    }
    await moveFromDatabase(orderFor(back, url))
    expect(await listed(back)).toEqual(rows)
  })

  test('by a lost connection leaves everything as it was', async () => {
    const [dir, url] = [dataDirectory(ROWS), await emptyDatabase()]
    const before = contentOf(dir)
    for (const share of [0.2, 0.8]) {
      const lost = atShare(share, () => endConnections(url))
      expect(await failureOf(moveToDatabase({ ...orderFor(dir, url), ...lost }))).toMatch(
        /cannot be used/,
      )
      expect([contentOf(dir), await holdings(url)]).toEqual([before, {}])
    }
    await moveToDatabase(orderFor(dir, url))
    const back = join(temporaryDirectory(), 'back')
    const lost = atShare(0.2, () => endConnections(url))
    expect(await failureOf(moveFromDatabase({ ...orderFor(back, url), ...lost }))).toMatch(
      /cannot be used/,
    )
    expect(existsSync(back)).toBeFalse()
  })

  test('by an answer that never comes says so, as a backup does', async () => {
    const { url } = await movedDatabase()
    const held = await holdOpen(url, 'lock table proxylist.days in access exclusive mode')
    const dir = join(temporaryDirectory(), 'back')
    const order = { ...orderFor(dir, url), answerMsMax: 100 }
    const backup = () => backUpDatabase(order, { kind: 'file', file: dir })
    for (const read of [() => moveFromDatabase(order), backup]) {
      expect(await failureOf(read())).toMatch(/cannot be used: it does not answer$/)
    }
    expect(existsSync(dir)).toBeFalse()
    await held.end()
  })
})

describe.skipIf(!HAS_POSTGRES)('a move that is ended', () => {
  test('by SIGKILL, whenever that comes, is done or not begun; made again, it is done', async () => {
    const [dir, url] = [dataDirectory(ROWS), await emptyDatabase()]
    const rows = (await listed(dir)).rows
    for (const afterMs of KILLED_AFTER_MS) {
      await killed(['--data', dir, '--database', url], afterMs)
      expect([0, ROWS.length]).toContain((await holdings(url)).proxies ?? 0)
    }
    const again = await proxylist(['move', '--data', dir, '--database', url])
    expect(again.stderr).toMatch(/^moved 1 key, |is a copy of a shared database/)
    expect((await holdings(url)).proxies).toBe(ROWS.length)
    const back = join(temporaryDirectory(), 'back')
    for (const afterMs of KILLED_AFTER_MS) {
      await killed(['--data', back, '--from-database', url], afterMs)
      if (!existsSync(join(back, ACCESS_FILE))) continue
      expect((await listed(back)).rows).toEqual(rows)
      rmSync(back, { recursive: true })
    }
    expect(await proxylist(['move', '--data', back, '--from-database', url])).toMatchObject({
      exitCode: 0,
    })
    expect((await listed(back)).rows).toEqual(rows)
  })

  test('between the commit and the directory is completed by the next one', async () => {
    const [dir, url] = [dataDirectory(ROWS.slice(0, 50)), await emptyDatabase()]
    const before = join(temporaryDirectory(), 'before')
    cpSync(dir, before, { recursive: true, preserveTimestamps: true })
    await moveToDatabase(orderFor(dir, url))
    await moveToDatabase(orderFor(before, url))
    expect(await failureOf(moveToDatabase(orderFor(before, url)))).toMatch(/is a copy/)
    await run(url, `update proxylist.proxies set speed = speed + 1`)
    const other = dataDirectory(ROWS.slice(0, 50))
    expect(await failureOf(moveToDatabase(orderFor(other, url)))).toMatch(/is not empty/)
  })

  test('during its commit says that nobody knows whether it was made, and goes on from what it finds', async () => {
    const [dir, url] = [dataDirectory(ROWS.slice(0, 50)), await emptyDatabase()]
    await runMigrated(
      url,
      `create function public.lose() returns trigger language plpgsql as
         'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'`,
      `create constraint trigger lose after update on proxylist.list
         deferrable initially deferred for each row execute function public.lose()`,
    )
    const before = contentOf(dir)
    expect(await failureOf(moveToDatabase(orderFor(dir, url)))).toMatch(
      /cannot be used: .*; whether the move was committed is not known: run it again/,
    )
    expect([contentOf(dir), await holdings(url)]).toEqual([before, {}])
    await run(url, 'drop trigger lose on proxylist.list')
    await moveToDatabase(orderFor(dir, url))
    expect((await holdings(url)).proxies).toBe(50)
  })

  test('by a full disk leaves the directory as it was', async () => {
    const disk = smallDisk('600k')
    if (disk === null) return
    const { url } = await movedDatabase()
    const dir = join(disk, 'data')
    mkdirSync(dir)
    expect(await failureOf(moveFromDatabase(orderFor(dir, url)))).toMatch(/disk is full|no space/)
    expect(readdirSync(dir)).toEqual([])
  })
})
