/** Tests of how `serve` begins to listen and how it ends; `serve.test.ts` runs them. */
import { describe, expect, test } from 'bun:test'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/app.ts'
import { ask } from '../support/answer.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import type { Outcome } from '../support/launch.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { temporaryDirectory } from '../support/temporary.ts'

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
    expect(await ask(first, ASK)).toBe('200 192.0.2.1:80\n')
    await first.stop()
  })

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

const start = (path: string, dir: string) =>
  startProgram(['serve', '--listen', `unix:${path}`, '--data', dir])
const serve = (path: string, dir: string) =>
  proxylist(['serve', '--listen', `unix:${path}`, '--data', dir])
const askOver = async (unix: string) => (await fetch(`http://localhost${ASK}`, { unix })).text()

describe('a unix socket', () => {
  test('answers, and its file is for owner and group', async () => {
    const path = join(temporaryDirectory(), 'socket')
    await using server = start(path, dataDirectory())
    await server.says(/listening on unix:.*\n/)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
    expect(statSync(path).isSocket()).toBeTrue()
    expect(statSync(path).mode & 0o777).toBe(0o660)
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    expect(server.written.stdout).toMatch(/"client":"unix"/)
  })

  test('that a killed server left behind is taken over', async () => {
    const path = join(temporaryDirectory(), 'socket')
    const dir = dataDirectory()
    const killed = start(path, dir)
    await killed.says(/listening on unix:.*\n/)
    killed.kill('SIGKILL')
    await killed.ended
    expect(statSync(path).isSocket()).toBeTrue()
    await using server = start(path, dir)
    await server.says(/listening on unix:.*\n/)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
  })

  test('that another server answers on is left to it', async () => {
    const path = join(temporaryDirectory(), 'socket')
    const dir = dataDirectory()
    await using first = start(path, dir)
    await first.says(/listening on unix:.*\n/)
    const second = await serve(path, dir)
    expectRefusal(second, path)
    expect(await askOver(path)).toBe('192.0.2.1:80\n')
  })

  test('never takes the place of another file', async () => {
    const path = join(temporaryDirectory(), 'precious')
    writeFileSync(path, 'keep me')
    const outcome = await serve(path, dataDirectory())
    expectRefusal(outcome, path)
    expect(readFileSync(path, 'utf8')).toBe('keep me')
  })

  test('cannot be made in a directory there is not', async () => {
    const path = join(temporaryDirectory(), 'none', 'socket')
    const outcome = await serve(path, dataDirectory())
    expectRefusal(outcome, path)
  })
})

describe('ending', () => {
  const many = Array.from({ length: 60_000 }, (_, i) => ({
    ip: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80`,
    type: 'http',
  }))

  /** Begins to read an answer too large for the socket's buffers, and stops after its first bytes. */
  async function readSlowly(url: URL) {
    const socket = connect(Number(url.port), url.hostname)
    const chunks: Uint8Array[] = []
    const begun = Promise.withResolvers<void>()
    const closed = Promise.withResolvers<string>()
    socket.on('data', chunk => {
      if (chunks.push(Buffer.from(chunk)) === 1) socket.pause()
      begun.resolve()
    })
    socket.on('error', closed.reject)
    socket.on('close', () => closed.resolve(Buffer.concat(chunks).toString()))
    closed.promise.catch(() => {})
    socket.write(`GET ${ASK}&get=json HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await begun.promise
    const rest = (): Promise<string> => {
      socket.resume()
      return closed.promise
    }
    return { rest, socket }
  }

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
