/**
 * Holds that a URL with several hosts finds the one that is no standby, also after a failover, whatever the others
 * do, and that `doctor` finds a second one.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { openConnection, shownDatabase } from '../../src/postgres/connection.ts'
import { examineDatabase } from '../../src/postgres/doctor.ts'
import { createListener } from '../../src/postgres/nodes.ts'
import { KEY, T0 } from '../support/fixtures.ts'
import { HAS_POSTGRES, PACKAGE_BIN, startPostgres } from '../support/postgres.ts'
import { proxylist } from '../support/program.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const open = (url: string, timeoutMs: number | null = 10_000) =>
  openConnection({ url, timeoutMs, name: 'proxylist' })

/** A host that takes connections and does nothing more than this with them. */
function startHost(onOpen: (socket: { end(last?: string): void }) => void): string {
  const host = Bun.listen({
    ...{ hostname: '127.0.0.1', port: 0 },
    socket: { open: onOpen, data() {} },
  })
  onCleanUp(() => host.stop(true))
  return `127.0.0.1:${host.port}`
}
/** What a server says that takes no connections yet (PostgreSQL documentation, "Message Formats"). */
const FIELDS = 'SFATAL\0C57P03\0M\0\0'
const STARTING = `E\0\0\0${String.fromCharCode(4 + FIELDS.length)}${FIELDS}`
/** Hosts that are no use: one without power or frozen, and a load balancer without a server. */
const USELESS = {
  'is silent': () => startHost(() => {}),
  'closes each connection': () => startHost(socket => socket.end()),
}
/** The default of `--database-timeout`, and the most that is waited for any host. */
const TIMEOUT_MS = 2_000
/** How often hosts are asked, while none can be used, whether they can be again. */
const ASKED_EVERY_MS_MAX = 500

test('what is shown of a URL has its hosts and no password', () => {
  expect(shownDatabase('postgres://me:secret@a:1,[::1]:2,c/name?sslmode=require')).toBe(
    'a:1,[::1]:2,c/name',
  )
})

describe.skipIf(!HAS_POSTGRES)('of several hosts', () => {
  test('the one that is no standby is used and listened to, and another one after a failover', async () => {
    const [first, second] = await Promise.all([startPostgres(), startPostgres()])
    await first.stop('SIGINT')
    writeFileSync(join(first.dir(), 'standby.signal'), '')
    await first.start()
    const alone = open(first.url('postgres'))
    await expect(alone.query('select 1')).rejects.toThrow(/a standby/)
    await alone.close()

    const none = open(`postgres://postgres@127.0.0.1:1,127.0.0.1:${first.port}/postgres`)
    const reasons =
      `127.0.0.1:1: the connection was refused, or there is no such host; ` +
      `127.0.0.1:${first.port}: it is `
    for (let times = 0; times < 3; times += 1) {
      await expect(none.query('select 1')).rejects.toThrow(reasons)
    }
    await none.close()

    const hosts = [1, first.port, second.port].map(port => `127.0.0.1:${port}`)
    const both = open(`postgres://postgres@${hosts.join()}/postgres`)
    const port = async (): Promise<unknown> =>
      (await both.query<{ port: number }>(`select inet_server_port() as port`))[0]?.port
    expect(await port()).toBe(second.port)

    const standbys = async (ports: readonly number[]) => {
      const url = `postgres://postgres@${ports.map(each => `127.0.0.1:${each}`).join()}/postgres`
      const { signal } = new AbortController()
      const all = await examineDatabase(
        { url, timeoutMs: TIMEOUT_MS, origin: '' },
        () => T0,
        signal,
      )
      return all.find(({ check }) => check === 'standbys')?.found
    }
    const one = 'there is no standby: the service ends with this server'
    expect(await standbys([first.port, second.port, second.port])).toBe(one)

    let heard = ''
    let isListening = false
    const listener = createListener(
      both.host,
      message => (heard = message),
      () => (isListening = true),
    )
    while (!isListening) {
      listener.ensure()
      await Bun.sleep(10)
    }
    await both.query(`select pg_notify('proxylist', 'list')`)
    while (heard === '') await Bun.sleep(10)
    expect(heard).toBe('list')
    listener.end()

    await second.stop('SIGQUIT')
    const admin = new SQL({ url: first.url('postgres'), max: 1 })
    await admin.unsafe('select pg_promote()')
    await admin.close()
    let answered: unknown = null
    while (answered === null) {
      answered = await port().catch(() => Bun.sleep(20).then(() => null))
    }
    expect(answered).toBe(first.port)

    await second.start()
    expect(await standbys([second.port, first.port])).toBe(
      `127.0.0.1:${second.port} and 127.0.0.1:${first.port} take writes: ` +
        'stop the old primary, see proxylist help machines',
    )
    await both.close()

    // Of two that take writes, it is used that was promoted, also where the old primary is named first.
    const urlOf = (some: readonly number[]) =>
      `postgres://nobody@${some.map(each => `127.0.0.1:${each}`).join()}/postgres`
    const owner = new SQL({ url: first.url('postgres'), max: 1 })
    const old = new SQL({ url: second.url('postgres'), max: 1 })
    for (const sql of [owner, old]) {
      await sql.unsafe('create role nobody login')
      await sql.close()
    }
    await using newest = open(urlOf([second.port, first.port, first.port]))
    for (let times = 0; times < 3; times += 1) {
      const [row] = await newest.query<{ port: number }>('select inet_server_port() as port')
      expect(row?.port).toBe(first.port)
      newest.renew()
    }
    const env = {
      PROXYLIST_DATABASE: urlOf([second.port, first.port]).replace('nobody', 'postgres'),
    }
    const added = await proxylist(['keys', 'add', '--plan', 'standard', '--key', KEY], { env })
    expect(added).toMatchObject({ exitCode: 0 })
    await using promoted = open(first.url('postgres'))
    expect(await promoted.query('select from proxylist.keys')).toHaveLength(1)
    expect((await proxylist(['nodes'], { env })).stderr).toStartWith(
      `127.0.0.1:${second.port} and 127.0.0.1:${first.port} take writes: `,
    )

    const twin = await startPostgres() // a copy of `second`, on its timeline
    const foreign = await startPostgres({}, `${PACKAGE_BIN}/.`) // of another system
    for (const [other, known] of [
      [twin, second],
      [foreign, first],
    ] as const) {
      const hosts = `127.0.0.1:${other.port},127.0.0.1:${known.port}`
      await using unknown = open(`postgres://postgres@${hosts}/postgres`)
      await expect(unknown.query('select 1')).rejects.toThrow(
        /127\.0\.0\.1:\d+ and 127\.0\.0\.1:\d+ take writes: stop the old primary/,
      )
    }
  })

  test.each(
    Object.entries(USELESS).flatMap(([what, start]) =>
      [TIMEOUT_MS, null].map(timeoutMs => [what, timeoutMs, start] as const),
    ),
  )('one that %s keeps nobody from the next (timeout %p)', async (_what, timeoutMs, start) => {
    const server = await startPostgres()
    const connection = open(
      `postgres://postgres@${start()},${start()},127.0.0.1:${server.port}/postgres`,
      timeoutMs,
    )
    const startedMs = performance.now()
    await connection.query('select 1')
    expect(performance.now() - startedMs).toBeLessThan(TIMEOUT_MS)
    await connection.close()
  })

  test('one that refuses is asked again and again beside one that is silent', async () => {
    let times = 0
    const refusing = startHost(socket => {
      times += 1
      socket.end(STARTING)
    })
    const url = `postgres://postgres@${startHost(() => {})},${refusing}/postgres`
    const connection = open(url, TIMEOUT_MS)
    await expect(connection.query('select 1')).rejects.toThrow(/does not answer.*starting/)
    await Bun.sleep(TIMEOUT_MS)
    expect(times).toBeGreaterThan((2 * TIMEOUT_MS) / ASKED_EVERY_MS_MAX)
    await connection.close()
  })

  test('each is named with its reason when none can be used', async () => {
    const silent = startHost(() => {})
    const connection = open(`postgres://postgres@${silent},127.0.0.1:1/postgres`, TIMEOUT_MS)
    const reasons = `${silent}: it does not answer; 127.0.0.1:1: the connection was refused`
    await expect(connection.query('select 1')).rejects.toThrow(reasons)
    await connection.close()
  })
})
