/** Tests of how `serve` begins to listen and how it ends; `serve.test.ts` runs them. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import type { Outcome } from '../support/launch.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { temporaryDirectory } from '../support/temporary.ts'

/** A list whose answer is too long for the buffers of a connection. */
const many = Array.from({ length: 60_000 }, (_, i) => ({
  ip: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80`,
  type: 'http',
}))

const SERVE = ['serve', '--listen', '127.0.0.1:0', '--data']

/** `serve` did not start: status 1, and one line that names where it should listen. */
function expectRefusal({ exitCode, stdout, stderr }: Outcome, where: string): void {
  expect(stderr).toMatch(/^proxylist: cannot listen on [^\n]+\n$/)
  expect(stderr).toContain(where)
  expect([exitCode, stdout]).toEqual([1, ''])
}

describe('listening', () => {
  test('port 0 takes a free port, and the line on stderr says which', async () => {
    const server = await startChild(dataDirectory())
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
    expect(await ask(server, ASK)).toBe('200 192.0.2.1:80\n')
    expect(await ask(server, '/healthz')).toBe('200 ok\n')
    expect((await server.request('/readyz')).status).toBe(200)
    await server.stop()
  })

  test('a port that is taken is one line and status 1', async () => {
    const first = await startChild(dataDirectory())
    const { host } = new URL(first.url)
    const second = await proxylist(['serve', '--data', temporaryDirectory(), '--listen', host])
    expectRefusal(second, host)
    expect(second.stderr).toEndWith(`: port ${new URL(first.url).port} is in use\n`)
    expect(await ask(first, ASK)).toBe('200 192.0.2.1:80\n')
    await first.stop()
  })

  const impossible = [
    ['a name that is not found', 'foo.invalid:80', 'there is no host named foo.invalid'],
    [
      'an address of another machine',
      '192.0.2.1:8080',
      '192.0.2.1 is not an address of this machine',
    ],
  ] as const
  test.each(impossible)(
    '%s is said as what it is, not as a port in use',
    async (_, host, reason) => {
      const outcome = await proxylist(['serve', '--data', temporaryDirectory(), '--listen', host])
      expectRefusal(outcome, host)
      expect(outcome.stderr).toEndWith(`: ${reason}\n`)
    },
  )
})

describe('a server that listens', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it with status 0', async signal => {
    const server = await startChild(dataDirectory())
    expect(await ask(server, ASK)).toBe('200 192.0.2.1:80\n')
    server.kill(signal)
    expect(await server.exited).toBe(0)
    expect(await fetch(server.url).then(Boolean, () => false)).toBeFalse()
  })

  test('files it makes are only its owner’s', async () => {
    const dir = join(temporaryDirectory(), 'data')
    const server = await startChild(dir)
    expect(await ask(server, '/api?key=demo')).toBe('404 PROXIES_NOT_FOUND')
    const files = [PROXY_FILE, ACCESS_FILE].flatMap(file => [file, `${file}-wal`, `${file}-shm`])
    for (const file of files)
      expect([file, statSync(join(dir, file)).mode & 0o777]).toEqual([file, 0o600])
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    await server.stop()
  })

  test('it needs no list and no key, and says how to get them', async () => {
    const dir = temporaryDirectory()
    const server = await startChild(dir)
    expect(await ask(server, '/api?key=demo')).toBe('404 PROXIES_NOT_FOUND')
    expect(await ask(server, '/healthz')).toBe('200 ok\n')
    expect((await server.request('/readyz')).status).toBe(200)
    await server.stop()
    expect(server.output()).toMatch(/proxylist import FILE/)
    expect(server.output()).toMatch(/proxylist keys add/)
    expect(server.output()).toContain(`--data ${dir}`)
  })

  test('with a list and a key it gives no such advice', async () => {
    const server = await startChild(dataDirectory())
    await server.stop()
    expect(server.output()).not.toMatch(/proxylist (?:import|keys)/)
  })
})

const start = (path: string, dir: string, ...more: string[]) =>
  startProgram(['serve', '--listen', `unix:${path}`, '--data', dir, ...more])
const serve = (path: string, dir: string) =>
  proxylist(['serve', '--listen', `unix:${path}`, '--data', dir])
/** A server that listens on a unix socket. */
async function listening(...given: Parameters<typeof start>) {
  const server = start(...given)
  await server.says(/listening on unix:.*\n/)
  return server
}
/** A socket that a killed server has left behind. */
async function leftBehind(dir: string): Promise<string> {
  const path = socketPath()
  const killed = await listening(path, dir)
  killed.kill('SIGKILL')
  await killed.ended
  expect(statSync(path).isSocket()).toBeTrue()
  return path
}
const socketPath = (): string => join(temporaryDirectory(), 'socket')
const askOver = async (unix: string) => (await fetch(`http://localhost${ASK}`, { unix })).text()

describe('a unix socket', () => {
  test('answers, and its file is for owner and group', async () => {
    const path = socketPath()
    await using server = await listening(path, dataDirectory())
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
    expect(statSync(path).isSocket()).toBeTrue()
    expect(statSync(path).mode & 0o777).toBe(0o660)
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    expect(server.written.stdout).toMatch(/"client":"unix"/)
    expect(existsSync(path)).toBeFalse()
  })

  test.each(['600', '666'])('has the mode of --socket-mode %s', async mode => {
    const path = socketPath()
    await using _ = await listening(path, dataDirectory(), '--socket-mode', mode)
    expect((statSync(path).mode & 0o777).toString(8)).toBe(mode)
  })

  test('believes X-Forwarded-For, and --trust-proxy names further proxies', async () => {
    const path = socketPath()
    await using server = await listening(path, dataDirectory(), '--trust-proxy', '10.0.0.0/8')
    for (const hops of ['203.0.113.9', '203.0.113.10, 10.0.0.1', '203.0.113.11, 198.51.100.7']) {
      await fetch('http://localhost/healthz', { unix: path, headers: { 'x-forwarded-for': hops } })
    }
    server.kill('SIGTERM')
    await server.ended
    const clients = [...server.written.stdout.matchAll(/"client":"([^"]+)"/g)].map(([, ip]) => ip)
    expect(clients).toEqual(['203.0.113.9', '203.0.113.10', '198.51.100.7'])
  })
})

describe('the socket', () => {
  test('that a killed server left behind is taken over', async () => {
    const dir = dataDirectory()
    const path = await leftBehind(dir)
    await using _ = await listening(path, dir)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
  })

  test('that a killed server left behind is taken over by one of several that start at once', async () => {
    const dir = dataDirectory()
    const path = await leftBehind(dir)
    const servers = Array.from({ length: 4 }, () => start(path, dir))
    const results = await Promise.all(
      servers.map(server => server.says(/(?:listening|cannot listen) on unix:.*\n/)),
    )
    expect(results.filter(line => line.startsWith('listening'))).toHaveLength(1)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
    expect(readdirSync(dirname(path))).toEqual(['socket'])
    for (const server of servers) server.kill('SIGTERM')
    const codes = await Promise.all(servers.map(server => server.ended))
    expect(codes.toSorted()).toEqual([0, 1, 1, 1])
  })

  test('of a server that ends is not removed by it once a new one has its place', async () => {
    const path = socketPath()
    const dir = dataDirectory(many)
    await using first = await listening(path, dir)
    const reading = (
      await fetch(`http://localhost${ASK}&get=json`, { unix: path })
    ).body?.getReader()
    await reading?.read()
    first.kill('SIGTERM')
    while (existsSync(path)) await Bun.sleep(1)
    await using _ = await listening(path, dir)
    let part = await reading?.read()
    while (part?.done === false) part = await reading?.read()
    expect(await first.ended).toBe(0)
    expect((await fetch('http://localhost/healthz', { unix: path })).status).toBe(200)
  })

  test('that another server answers on is left to it', async () => {
    const path = socketPath()
    const dir = dataDirectory()
    await using _ = await listening(path, dir)
    const second = await serve(path, dir)
    expectRefusal(second, path)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
  })
})

describe('a unix socket that is impossible', () => {
  test('never takes the place of another file', async () => {
    const path = join(temporaryDirectory(), 'precious')
    writeFileSync(path, 'keep me')
    const outcome = await serve(path, dataDirectory())
    expectRefusal(outcome, path)
    expect(readFileSync(path, 'utf8')).toBe('keep me')
  })

  test.each([
    ['in a directory there is not', ['none', 'socket'], 'there is no such directory'],
    [
      'with a path of more than 107 bytes',
      ['x'.repeat(120)],
      'the path of a socket may have at most 107 bytes',
    ],
  ])('cannot be made %s', async (_, parts, says) => {
    const path = join(temporaryDirectory(), ...parts)
    const outcome = await serve(path, dataDirectory())
    expectRefusal(outcome, path)
    expect(outcome.stderr).toEndWith(`: ${says}\n`)
  })
})

/** Certainly more than the head of an answer. */
const FIRST_BYTES = 10_000

/** Begins to read an answer too large for the socket's buffers, and stops after its first bytes. */
async function readSlowly(url: URL, encoding = 'identity') {
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
    `GET ${ASK}&get=json HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: ${encoding}\r\n\r\n`,
  )
  await begun.promise
  const rest = (): Promise<string> => {
    socket.resume()
    return closed.promise
  }
  return { rest, socket, received: () => received }
}

describe('ending', () => {
  test.each([
    ['SIGTERM', []],
    ['SIGINT', []],
    ['SIGTERM', ['--grace', '30d']],
  ] as const)('%s lets requests in flight finish %p', async (signal, more) => {
    await using server = startProgram([...SERVE, dataDirectory(many), ...more])
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
    expect(JSON.parse(chunks.join(''))).toHaveLength(many.length)
    expect(await server.ended).toBe(0)
  })

  test('requests that take longer than --grace are cut, and the status is still 0', async () => {
    const server = await startChild(dataDirectory(many), {}, ['--grace', '0s'])
    const { socket } = await readSlowly(new URL(server.url))
    server.kill('SIGTERM')
    expect(await server.exited).toBe(0)
    socket.destroy()
  })
})

describe('the log line of a download', () => {
  const LINE = /^\{.*"path":"\/api".*\}$/m
  const entryOf = (output: string) => JSON.parse(LINE.exec(output)?.[0] ?? '{}')

  test.each(['identity', 'gzip', 'zstd'])(
    'a download cut by --grace leaves its log line: %s',
    async encoding => {
      const server = await startChild(dataDirectory(many), {}, ['--grace', '0s'])
      const { socket, received } = await readSlowly(new URL(server.url), encoding)
      await server.stop()
      socket.destroy()
      const { status, records, bytes, truncated } = entryOf(server.output())
      expect({ status, truncated }).toEqual({ status: 200, truncated: true })
      expect(records).toBeGreaterThan(0)
      expect(records).toBeLessThan(many.length)
      expect(bytes).toBeGreaterThan(received())
    },
  )

  test('a download that its client leaves has its line, with what was sent of it', async () => {
    await using server = startProgram([...SERVE, dataDirectory(many)])
    const url = new URL((await server.says(/http:\S+\n/)).trim())
    const { socket } = await readSlowly(url)
    socket.destroy()
    while (!LINE.test(server.written.stdout)) await fetch(`${url}healthz`)
    const { status, records, bytes, truncated } = entryOf(server.written.stdout)
    expect({ status, truncated }).toEqual({ status: 200, truncated: true })
    expect([records > 0, records < many.length, bytes > 0]).toEqual([true, true, true])
  })

  test('a complete download is not truncated, and its line has all records', async () => {
    const server = await startChild(dataDirectory(many))
    const { text, headers } = await server.request(`${ASK}&get=json`)
    expect(headers.get('content-encoding')).toBeNull()
    await server.stop()
    expect(entryOf(server.output())).toMatchObject({ records: many.length, bytes: text.length })
    expect(entryOf(server.output()).truncated).toBeUndefined()
  })
})
