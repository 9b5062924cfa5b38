/**
 * Holds that a URL with several hosts finds the one that is no standby, also after a failover, whatever the others do.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { openConnection, shownDatabase } from '../../src/postgres/connection.ts'
import { createListener } from '../../src/postgres/nodes.ts'
import { HAS_POSTGRES, startPostgres } from '../support/postgres.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const open = (url: string, timeoutMs = 10_000) =>
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
/** Hosts that are no use: one without power or frozen, and a load balancer without a server. */
const USELESS = {
  'is silent': () => startHost(() => {}),
  'closes each connection': () => startHost(socket => socket.end()),
}
/** The default of `--database-timeout`, and the most that is waited for any host. */
const TIMEOUT_MS = 2_000
test('a shown URL has its hosts and no password', () => {
  expect(shownDatabase('postgres://me:secret@a:1,[::1]:2,c/name?sslmode=require')).toBe(
    'a:1,[::1]:2,c/name',
  )
})

describe.skipIf(!HAS_POSTGRES)('of several hosts', () => {
  test('the primary is used and listened to, and the new primary after a failover', async () => {
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

    const heard: (string | null)[] = []
    const listener = createListener(both.host, message => heard.push(message))
    while (heard.length === 0) {
      listener.ensure()
      await Bun.sleep(10)
    }
    await both.query(`select pg_notify('proxylist', 'list')`)
    while (heard.length === 1) await Bun.sleep(10)
    expect(heard).toEqual([null, 'list'])
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

    await both.close()
  })

  test.each(
    Object.entries(USELESS).flatMap(([what, start]) =>
      [TIMEOUT_MS, 600_000].map(timeoutMs => [what, timeoutMs, start] as const),
    ),
  )('one that %s does not block the next (timeout %p)', async (_what, timeoutMs, start) => {
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

  test('each is named with its reason when no host can be used', async () => {
    const silent = startHost(() => {})
    const connection = open(`postgres://postgres@${silent},127.0.0.1:1/postgres`, TIMEOUT_MS)
    const reasons = `${silent}: it does not answer; 127.0.0.1:1: the connection was refused`
    await expect(connection.query('select 1')).rejects.toThrow(reasons)
    await connection.close()
  })
})
