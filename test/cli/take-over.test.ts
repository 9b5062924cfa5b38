/** A server takes over from a running one on its address and its data, without a failed request (contract G6). */
import { afterAll, describe, expect, test } from 'bun:test'
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { listenForDatagrams } from '../support/datagrams.ts'
import { ASK, addKeys, dataDirectory } from '../support/fixtures.ts'
import { freePort, launch } from '../support/launch.ts'
import { BINARY, createClock, proxylist, startProgram } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const isLinux = process.platform === 'linux'
const LISTENING = /listening on \S+\n/
const TAKEN = /the server of process \d+ takes over; finishing requests in flight\n/

/** Short: in most tests nobody keeps a connection. */
const GRACE = ['--grace', '300ms']

const start = (dir: string, address: string, more: readonly string[] = GRACE, env = {}) =>
  startProgram(['serve', '--data', dir, '--listen', address, '--log', 'off', ...more], env)

/** A running server, and its address. */
async function running(dir: string, address = `127.0.0.1:${freePort()}`, more = GRACE) {
  const server = start(dir, address, more)
  await server.says(LISTENING)
  if (isLinux) expect(readdirSync(dir)).toContainEqual(expect.stringMatching(/^serve-\w+\.sock$/))
  return { server, address }
}

/** Sends requests, one after the other on one connection or on new ones, until `isOver`. */
async function askUntil(isOver: () => boolean, url: string, keepalive: boolean): Promise<string[]> {
  const answers: string[] = []
  while (!isOver()) {
    const answer = await fetch(url, { keepalive }).then(
      async response => `${response.status} ${await response.text()}`,
      error => String(error),
    )
    answers.push(answer)
  }
  return answers
}

describe.skipIf(!isLinux)('serve on the address of a running server of the same data', () => {
  test('takes over: no request fails, limits stay exact, and the old server exits 0', async () => {
    const quota = 400
    const dir = dataDirectory(undefined, { burst: { requests: quota, seconds: 3600 } })
    addKeys(dir, {}, [{ key: 'more', plan: 'free' }])
    const { server: old, address } = await running(dir)
    let isOver = false
    const asked = [true, false].flatMap(keepalive =>
      ['more', 'more', 'more'].map(key =>
        askUntil(() => isOver, `http://${address}/api?key=${key}`, keepalive),
      ),
    )
    await using next = start(dir, address)
    await next.says(LISTENING)
    await old.says(TAKEN)
    expect(await old.ended).toBe(0)
    expect(old.written.stderr).not.toContain('stopping')
    await using third = start(dir, address)
    await third.says(LISTENING)
    expect(await next.ended).toBe(0)
    isOver = true
    const counts = Map.groupBy((await Promise.all(asked)).flat(), answer => answer.slice(0, 3))
    expect([...counts.keys()].filter(status => status !== '200' && status !== '429')).toEqual([])
    const admitted = counts.get('200')?.length ?? 0
    if (counts.has('429')) expect(admitted).toBe(quota)
    else expect(admitted).toBeLessThanOrEqual(quota)
    expect(readdirSync(dir).filter(name => name.endsWith('.sock'))).toHaveLength(1)
  })

  test('lets the old server finish a long answer within --grace', async () => {
    const rows = Array.from({ length: 60_000 }, (_, n) => ({
      ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}:80`,
      type: 'http',
    }))
    const dir = dataDirectory(rows)
    const { server: old, address } = await running(dir, undefined, ['--grace', '1m'])
    const [host = '', port] = address.split(':')
    const client = connect(Number(port), host)
    let text = ''
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const { promise: closed, resolve: close } = Promise.withResolvers<void>()
    client.on('data', chunk => {
      text += chunk
      client.pause() // more than the buffers hold is left
      begin()
    })
    client.on('close', () => close())
    client.write(`GET ${ASK}&get=json HTTP/1.1\r\nHost: a\r\n\r\n`)
    await begun
    await using next = start(dir, address)
    await old.says(TAKEN)
    client.resume().on('data', () => client.resume())
    await closed
    expect(text).toEndWith('\r\n0\r\n\r\n')
    expect(text.match(/"ip":/g)).toHaveLength(rows.length)
    expect(await old.ended).toBe(0)
    expect(next.isRunning()).toBe(true)
  })

  test('takes over a unix socket', async () => {
    const path = join(temporaryDirectory(), 'socket')
    const dir = dataDirectory()
    const { server: old } = await running(dir, `unix:${path}`)
    const next = start(dir, `unix:${path}`)
    await next.says(LISTENING)
    expect(await old.ended).toBe(0)
    expect((await fetch('http://a/healthz', { unix: path })).status).toBe(200)
    expect(readdirSync(join(path, '..'))).toEqual(['socket'])
    expect(await next.stop()).toBe(0)
    expect(existsSync(path)).toBe(false)
    expect(readdirSync(dir).filter(name => name.endsWith('.sock'))).toEqual([])
  })

  test('takes over the admin listener', async () => {
    const dir = dataDirectory()
    const admin = ['--admin-listen', `127.0.0.1:${freePort()}`, '--metrics-open', ...GRACE]
    const { server: old, address } = await running(dir, undefined, admin)
    await old.says(/admin listening/)
    await using next = start(dir, address, admin)
    await next.says(/admin listening/)
    expect(await old.ended).toBe(0)
    expect((await fetch(`http://${admin[1]}/metrics`)).status).toBe(200)
  })

  test('changes nothing when it ends before it is ready', async () => {
    const dir = dataDirectory()
    const { server: old, address } = await running(dir)
    // It is asked to share the address, and then cannot have the one of its console.
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const failed = start(dir, address, ['--admin-listen', `127.0.0.1:${taken.port}`])
    expect(await failed.ended).toBe(1)
    expect((await fetch(`http://${address}/healthz`)).status).toBe(200)
    await using next = start(dir, address)
    await next.says(LISTENING)
    expect(await old.ended).toBe(0)
  })

  test.each([
    ['other data', () => dataDirectory()],
    ['no data of its own', () => temporaryDirectory()],
  ])('is refused where a server of %s listens', async (_, other) => {
    const { server, address } = await running(dataDirectory())
    const args = ['serve', '--data', other(), '--listen', address]
    expect(await proxylist(args)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/: cannot listen on http:\S+: port \d+ is in use\n$/),
    })
    await server.stop()
  })

  test('is refused where another program listens, even if it shares its port', async () => {
    for (const reusePort of [false, true]) {
      using other = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        reusePort,
        fetch: () => new Response(),
      })
      const args = ['serve', '--data', dataDirectory(), '--listen', `127.0.0.1:${other.port}`]
      expect((await proxylist(args)).stderr).toMatch(/port \d+ is in use\n$/)
    }
  })
})

describe.skipIf(!isLinux)('SIGUSR2', () => {
  test.skipIf(BINARY === undefined)(
    'keeps the server running when the program cannot start, and says why',
    async () => {
      const copy = join(temporaryDirectory(), 'proxylist')
      copyFileSync(BINARY ?? '', copy)
      const address = `127.0.0.1:${freePort()}`
      const args = ['serve', '--data', dataDirectory(), '--listen', address, '--log', 'off']
      await using server = launch([copy, ...args], { env: createClock().env })
      await server.says(LISTENING)
      rmSync(copy)
      server.kill('SIGUSR2')
      await server.says(/the server that takes over cannot be started \(.*\); this one goes on\n/)
      server.kill('SIGUSR1')
      expect((await fetch(`http://${address}/healthz`)).status).toBe(200)
      expect(await server.stop()).toBe(0)
    },
  )

  test.skipIf(BINARY === undefined)(
    'ends the new server too when the old one is stopped before the takeover',
    async () => {
      const copy = join(temporaryDirectory(), 'proxylist')
      copyFileSync(BINARY ?? '', copy)
      const args = ['serve', '--data', dataDirectory(), '--listen', `127.0.0.1:${freePort()}`]
      await using server = launch([copy, ...args], { env: createClock().env })
      await server.says(LISTENING)
      rmSync(copy)
      writeFileSync(copy, '#!/bin/sh\necho begun >&2\nexec sleep 60\n', { mode: 0o755 })
      server.kill('SIGUSR2')
      await server.says(/begun\n/)
      server.kill('SIGTERM')
      expect(await server.ended).toBe(0) // and nobody else has its stderr
    },
  )

  test('starts the program at its path, which takes over as the main process', async () => {
    const socket = join(temporaryDirectory(), 'notify')
    using manager = listenForDatagrams(socket)
    const dir = dataDirectory()
    const address = `127.0.0.1:${freePort()}`
    const old = start(dir, address, GRACE, { NOTIFY_SOCKET: socket, WATCHDOG_PID: '1' })
    expect(manager.receive()).toStartWith('READY=1\n')
    old.kill('SIGUSR2')
    const said = await old.says(TAKEN)
    const pid = Number(/\d+/.exec(said)?.[0])
    const messages = [manager.receive(), manager.receive()]
    expect(messages).toContain(`MAINPID=${pid}`)
    expect(messages.join('\n')).not.toContain('STOPPING')
    // It has been left to init, as which systemd stops it with SIGTERM: what is no child of it gets SIGKILL.
    const [, parent] = /^PPid:\s(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    expect(readFileSync(`/proc/${parent}/cmdline`, 'utf8')).not.toContain(address)
    expect(await old.exited).toBe(0)
    expect((await fetch(`http://${address}${ASK}`)).status).toBe(200)
    process.kill(pid, 'SIGTERM')
    expect(manager.receive()).toStartWith('STOPPING=1\n')
  })
})
