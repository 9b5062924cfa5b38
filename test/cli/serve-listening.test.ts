/** Tests of how `serve` begins to listen and how it ends. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { ASK, addKeys, dataDirectory, T0 } from '../support/fixtures.ts'
import { createClock, proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { onTerminal } from '../support/terminal.ts'
import { runCommand } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

/** Proxies whose answer is too long for the buffers of a connection. */
const LONG = 60_000
let long: string | null = null
/** A data directory with as many: one for all tests. */
function longDirectory(): string {
  long ??= dataDirectory(
    Array.from({ length: LONG }, (_, i) => ({
      ip: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80`,
      type: 'http',
    })),
  )
  return long
}

/** `serve` does not start: status 1, and one line that names where it should listen, and why not. */
async function expectRefusal(listen: string, why: string, dir = temporaryDirectory()) {
  const outcome = await proxylist(['serve', '--data', dir, '--listen', listen])
  const where = listen.replace('unix:', '')
  expect(outcome.stderr).toMatch(/^proxylist: cannot listen on [^\n]+\n$/)
  expect(outcome.stderr).toContain(where)
  expect(outcome.stderr).toContain(why)
  expect([outcome.exitCode, outcome.stdout]).toEqual([1, ''])
}

describe('a server that listens', () => {
  test('warns of unknown variables, and of wrong variables of other commands', async () => {
    const env = { PROXYLIST_TRUST_PROXI: '127.0.0.1', PROXYLIST_RATE: 'fast' }
    const args = ['serve', '--listen', '127.0.0.1:0', '--data', temporaryDirectory()]
    const server = startProgram(args, env)
    await server.says(/^listening on .*$/m)
    expect(server.written.stderr).toStartWith(
      'PROXYLIST_TRUST_PROXI is not a setting; did you mean PROXYLIST_TRUST_PROXY?\nPROXYLIST_RATE must be ',
    )
    await server.stop()
  })

  test.each(['SIGTERM', 'SIGINT'] as const)(
    'on port 0 prints its port, keeps it, and ends with status 0 at %s',
    async signal => {
      const server = await startChild(dataDirectory())
      expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
      const { host, port } = new URL(server.url)
      await expectRefusal(host, `: port ${port} is in use\n`)
      expect(await ask(server, ASK)).toBe('200 192.0.2.1:80\n')
      server.kill(signal)
      expect(await server.exited).toBe(0)
      expect(await fetch(server.url).then(Boolean, () => false)).toBeFalse()
      expect(server.output()).not.toMatch(/proxylist (?:import|keys)/)
    },
  )

  test('starts without list and keys, says how to make them, and makes files only for its owner', async () => {
    const dir = join(temporaryDirectory(), 'data')
    const server = await startChild(dir)
    expect(await ask(server, '/api?key=demo')).toBe('404 PROXIES_NOT_FOUND')
    expect(await ask(server, '/healthz')).toBe('200 ok\n')
    expect((await server.request('/readyz')).status).toBe(200)
    const files = [PROXY_FILE, ACCESS_FILE].flatMap(file => [file, `${file}-wal`, `${file}-shm`])
    const modes = files.map(file => statSync(join(dir, file)).mode & 0o777)
    expect(modes).toEqual(files.map(() => 0o600))
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    await server.stop()
    for (const advice of ['proxylist import FILE', 'proxylist keys add', `--data ${dir}`]) {
      expect(server.output()).toContain(advice)
    }
  })
})

describe('serve does not listen', () => {
  test.each([
    ['foo.invalid:80', 'there is no host named foo.invalid'],
    ['192.0.2.1:8080', '192.0.2.1 is not an address of this machine'],
    ['unix:/none/socket', 'no such file or directory'],
    [`unix:/${'x'.repeat(120)}`, 'the path of a socket may have at most 107 bytes'],
  ])('on %s, and says why', (listen, why) => expectRefusal(listen, `: ${why}\n`))

  test('over another file', async () => {
    const path = join(temporaryDirectory(), 'precious')
    writeFileSync(path, 'keep me')
    await expectRefusal(`unix:${path}`, '')
    expect(readFileSync(path, 'utf8')).toBe('keep me')
  })
})

const start = (path: string, dir: string, ...more: string[]) =>
  startProgram(['serve', '--listen', `unix:${path}`, '--data', dir, ...more])
/** A server that listens on a unix socket. */
async function listening(...given: Parameters<typeof start>) {
  const server = start(...given)
  await server.says(/listening on unix:.*\n/)
  return server
}
const socketPath = (): string => join(temporaryDirectory(), 'socket')
const askOver = async (unix: string) => (await fetch(`http://localhost${ASK}`, { unix })).text()

describe('a unix socket', () => {
  test('is open to owner and group, and trusts X-Forwarded-For', async () => {
    const path = socketPath()
    const dir = dataDirectory()
    await using server = await listening(path, dir, '--trust-proxy', '10.0.0.0/8')
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
    expect(statSync(path).isSocket()).toBeTrue()
    expect(statSync(path).mode & 0o777).toBe(0o660)
    await expectRefusal(`unix:${path}`, 'another server is using it', dataDirectory())
    for (const hops of ['203.0.113.9', '203.0.113.10, 10.0.0.1', '203.0.113.11, 198.51.100.7']) {
      await fetch('http://localhost/healthz', { unix: path, headers: { 'x-forwarded-for': hops } })
    }
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    const clients = [...server.written.stdout.matchAll(/"client":"([^"]+)"/g)].map(([, ip]) => ip)
    expect(clients).toEqual(['unix', '203.0.113.9', '203.0.113.10', '198.51.100.7'])
    expect(existsSync(path)).toBeFalse()
  })

  test('of a killed server is replaced', async () => {
    const path = socketPath()
    const killed = await listening(path, dataDirectory(), '--socket-mode', '666')
    expect(statSync(path).mode & 0o777).toBe(0o666)
    killed.kill('SIGKILL')
    await killed.ended
    expect(statSync(path).isSocket()).toBeTrue()
    await using _ = await listening(path, dataDirectory())
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
    expect(readdirSync(dirname(path))).toEqual(['socket'])
  })

  test('of a new server stays when the old one ends', async () => {
    const path = socketPath()
    await using first = await listening(path, longDirectory())
    const { body } = await fetch(`http://localhost${ASK}&get=json`, { unix: path })
    const reading = body?.getReader()
    await reading?.read()
    first.kill('SIGTERM')
    while (existsSync(path)) await Bun.sleep(1)
    await using _ = await listening(path, dataDirectory())
    while ((await reading?.read())?.done === false);
    expect(await first.ended).toBe(0)
    expect((await fetch('http://localhost/healthz', { unix: path })).status).toBe(200)
  })
})

/** Certainly more than the head of an answer. */
const FIRST_BYTES = 10_000

/** Begins to read an answer too large for the socket's buffers, and stops after its first bytes. */
async function readSlowly(url: URL, path = ASK) {
  const socket = connect(Number(url.port), url.hostname)
  const chunks: Uint8Array[] = []
  const begun = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<string>()
  let received = 0
  socket.on('data', chunk => {
    const isBefore = received < FIRST_BYTES
    received += chunk.length
    chunks.push(Buffer.from(chunk))
    if (!isBefore || received < FIRST_BYTES) return
    socket.pause()
    begun.resolve()
  })
  socket.on('error', closed.reject)
  socket.on('close', () => closed.resolve(Buffer.concat(chunks).toString()))
  closed.promise.catch(() => {})
  socket.write(
    `GET ${path}&get=json HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n`,
  )
  await begun.promise
  const rest = (): Promise<string> => {
    socket.resume()
    return closed.promise
  }
  return { rest, socket, received: () => received }
}

const LINE = /^\{.*"path":"\/api".*\}$/m
/** The entry of the log of a download. */
const entryOf = (output: string) => JSON.parse(LINE.exec(output)?.[0] ?? '{}')
const serveLong = (...more: string[]) =>
  startProgram(['serve', '--listen', '127.0.0.1:0', '--data', longDirectory(), ...more])

describe('a server that stops', () => {
  test.each([
    ['SIGTERM', ['--grace', '30d']],
    ['SIGINT', []],
  ] as const)('finishes requests in flight after %s %p', async (signal, more) => {
    await using server = serveLong(...more)
    const url = new URL((await server.says(/http:\S+\n/)).trim())
    const reading = await readSlowly(url)
    server.kill(signal)
    await server.says(/stopping/)
    const isOpen = () => fetch(url, { keepalive: false }).then(Boolean, () => false)
    while (await isOpen()); // takes nothing new, while the old goes on
    const answer = await reading.rest()
    const [head = '', body = ''] = answer.split('\r\n\r\n')
    expect(head).toStartWith('HTTP/1.1 200 ')
    expect(head).toMatch(/transfer-encoding: chunked/i)
    expect(body).toEndWith('\r\n0') // the last chunk: nothing was truncated
    const chunks = body.split('\r\n').filter((_, i) => i % 2 === 1) // between them, their sizes
    const text = chunks.join('')
    expect(JSON.parse(text)).toHaveLength(LONG)
    expect(await server.ended).toBe(0)
    const entry = entryOf(server.written.stdout)
    expect(entry).toMatchObject({ records: LONG, bytes: Buffer.byteLength(text) })
    expect(entry.truncated).toBeUndefined()
  })

  test('finishes requests in flight after its terminal closes', async () => {
    const args = ['serve', '--listen', '127.0.0.1:0', '--data', longDirectory()]
    const server = onTerminal(args, createClock().env)
    const listening = /http:\S+(?=\r\n)/
    await until(async () => listening.test(server.shown()))
    const url = new URL(listening.exec(server.shown())?.[0] ?? '')
    const reading = await readSlowly(url)
    server.hangUp()
    while (await fetch(url, { keepalive: false }).then(Boolean, () => false));
    server.kill('SIGHUP')
    expect(await reading.rest()).toEndWith('\r\n0\r\n\r\n')
    expect(await server.exited).toBe(0)
  })

  test('cuts a download that takes longer than --grace, with a log line', async () => {
    await using server = serveLong('--grace', '0s')
    const url = new URL((await server.says(/http:\S+\n/)).trim())
    const { socket, received } = await readSlowly(url)
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    socket.destroy()
    const { status, records, bytes, truncated } = entryOf(server.written.stdout)
    expect({ status, truncated }).toEqual({ status: 200, truncated: true })
    expect(records).toBeGreaterThan(0)
    expect(records).toBeLessThan(LONG)
    expect(bytes).toBeGreaterThan(received())
  })

  test('cuts a download of a revoked key at its next chunk, with a log line', async () => {
    const key = 'revoked'
    const [id = ''] = addKeys(longDirectory(), {}, [{ key, plan: 'standard' }], T0)
    await using server = serveLong()
    const url = new URL((await server.says(/http:\S+\n/)).trim())
    const path = `/api?key=${key}&time=9999999`
    const running = await readSlowly(url, path)
    const { exitCode } = await runCommand(['keys', 'revoke', id, '--data', longDirectory()])
    expect(exitCode).toBe(0)
    const isWhole = await running.rest().then(
      answer => answer.endsWith('\r\n0\r\n\r\n'),
      () => false, // the connection was reset
    )
    expect(isWhole).toBeFalse()
    expect((await fetch(new URL(path, url))).status).toBe(403)
    while (!LINE.test(server.written.stdout)) await fetch(`${url}healthz`)
    const { status, key: logged, truncated, records } = entryOf(server.written.stdout)
    expect({ status, logged, truncated }).toEqual({ status: 200, logged: id, truncated: true })
    expect(records).toBeLessThan(LONG)
  })
})
