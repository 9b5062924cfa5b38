/** Tests of the admin listener of the program itself: its start and end, sockets, uploads, secrets. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { LogPage } from '../../src/admin/api-types.ts'
import { reply, startFeedServer } from '../support/feed-server.ts'
import { lines } from '../support/feeds.ts'
import { dataDirectory } from '../support/fixtures.ts'
import { launchServer } from '../support/launch.ts'
import { createClock, program, proxylist } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

/** Starts `serve` with an admin listener, and makes its token. */
async function start(dir: string, more: readonly string[] = [], admin = '127.0.0.1:0') {
  const clock = createClock()
  const server = await launchServer(
    [
      ...[...program(), 'serve', '--data', dir, '--listen', '127.0.0.1:0'],
      ...['--admin-listen', admin, ...more],
    ],
    { env: clock.env },
  )
  const line = await server.says(/admin listening on \S+\n/)
  const shown = line.trim().replace('admin listening on ', '')
  const where = shown.replace('http://', '')
  const { stdout, stderr } = await runCommand(['console', '--data', dir, '--admin-listen', where])
  const token = stdout.trim().replace(/^.*#token=/, '')
  const unix = /^unix:(.*)/.exec(shown)?.[1]
  const origin = unix === undefined ? shown : 'http://localhost'
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${origin}${path}`, {
      ...init,
      ...(unix !== undefined && { unix }),
      headers: { authorization: `Bearer ${token}`, ...init.headers },
    })
  const url = `http://127.0.0.1:${server.port}`
  return { ...server, url, shown, token, said: stderr, stdout, ask, clock }
}

/** What is answered to these bytes, sent to the admin listener with its token; it hangs up at the first. */
async function answerTo(
  { shown, token }: Awaited<ReturnType<typeof start>>,
  host: string,
  bytes: string,
) {
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = connect(Number(new URL(shown).port), '127.0.0.1', () => {
    const [line = '', ...more] = bytes.split('\r\n')
    const head = [line, `Host: ${host}`, `Authorization: Bearer ${token}`]
    socket.write([...head, ...more].join('\r\n'))
  })
  socket.on('data', chunk => resolve(String(chunk)))
  const answer = await promise
  socket.destroy()
  return answer
}

/** The value of a JSON answer. */
const valueOf = async (response: Promise<Response>) => JSON.parse(await (await response).text())

/** The server of the tests that do not mind each other, and its data directory. */
const dir = dataDirectory()
let shared: Awaited<ReturnType<typeof start>>
beforeAll(async () => {
  shared = await start(dir)
})

describe('serve --admin-listen', () => {
  test('says where it listens, and console finds it there', async () => {
    expect(shared.written.stderr).toMatch(
      /^listening on \S+\nadmin listening on http:\/\/127\.0\.0\.1:[1-9]\d*\n/,
    )
    expect(shared.stdout).toBe(`${shared.shown}/#token=${shared.token}\n`)
    expect(shared.said).toBe('')
    expect((await shared.ask('/console/overview')).status).toBe(200)
  })

  test('serves the files of the console without a token, and not on the public listener', async () => {
    const page = await fetch(`${shared.shown}/`)
    const html = 'text/html; charset=utf-8'
    expect([page.status, page.headers.get('content-type')]).toEqual([200, html])
    const script = /src="(\/-\/[^"]+\.js)"/.exec(await page.text())?.[1]
    const file = await fetch(`${shared.shown}${script}`)
    const javascript = 'text/javascript; charset=utf-8'
    expect([file.status, file.headers.get('content-type')]).toEqual([200, javascript])
    for (const path of ['/console/overview', '/metrics', script]) {
      expect((await fetch(`${shared.url}${path}`)).status).toBe(404)
    }
  })

  test('closes the connection of a request with an endless body', async () => {
    const head = 'GET /console/overview HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n'
    const answer = await answerTo(shared, new URL(shared.shown).host, head)
    expect(answer).toMatch(/^HTTP\/1\.1 200 .*\r\nconnection: close\r\n/is)
  })

  test('on a unix socket serves only its owner', async () => {
    const socket = join(temporaryDirectory(), 'admin.sock')
    const server = await start(dataDirectory(), [], `unix:${socket}`)
    expect(statSync(socket).mode & 0o777).toBe(0o600)
    expect((await server.ask('/console/overview')).status).toBe(200)
    const foreign = await server.ask('/console/overview', { headers: { host: 'evil.example' } })
    expect(foreign.status).toBe(403)
    expect(await server.stop()).toBe(0)
    expect(readdirSync(join(socket, '..'))).toEqual([])
  })

  test('ends the server when its address is in use, and leaves no lock', async () => {
    const other = dataDirectory()
    const { exitCode, stderr } = await proxylist([
      ...['serve', '--data', other, '--listen', '127.0.0.1:0'],
      ...['--admin-listen', `127.0.0.1:${shared.port}`],
    ])
    expect(exitCode).toBe(1)
    expect(stderr).toContain(`port ${shared.port} is in use`)
    expect(readdirSync(other).filter(name => name.includes('.lock'))).toEqual(['jobs.lock'])
  })
})

test('console recognises a server of another data directory, and the public listener', async () => {
  const other = ['console', '--data', dataDirectory(), '--admin-listen']
  const made = await runCommand([...other, shared.shown.replace('http://', '')])
  expect(made.stderr).toBe(
    'the server there has another data directory, and refuses this token: check --data\n',
  )
  const { stderr } = await runCommand([...other, `127.0.0.1:${shared.port}`])
  expect(stderr).toContain('no console answers there yet')
})

/** Rows that an import takes a while for. */
const many = (n: number): string =>
  Array.from({ length: n }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80\n`).join('')

const ADMITTED = { method: 'POST', headers: { 'content-type': 'application/octet-stream' } }

test('the console adds, pauses, fetches and removes a feed, across a restart', async () => {
  const source = await startFeedServer({ '/a': reply(200, {}, lines(3)) })
  const dir = dataDirectory()
  const json = (method: string, body: object): RequestInit => ({
    ...{ method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
  })
  let server = await start(dir)
  const feeds = async () => (await valueOf(server.ask('/console/feeds'))).feeds
  const given = { source: `${source.url}/a?token=SECRET`, every: '7d' }
  const { id } = await valueOf(server.ask('/console/feeds', json('POST', given)))
  await server.says(/\/a\?token=\*\*\*: 3 rows\n/)
  expect(await feeds()).toMatchObject([{ rows: 3, from: 'file' }])
  const paused = { every: '7d', paused: true }
  await server.ask(`/console/feeds/${id}`, json('PUT', paused))
  expect(await server.stop()).toBe(0)
  server = await start(dir)
  expect(await feeds()).toMatchObject([{ paused: true, next_try: null }])
  await until(async () => (await runCommand(['feeds', '--data', dir])).stdout === '')
  const before = source.asked.length
  expect((await server.ask(`/console/feeds/${id}/fetch`, json('POST', {}))).status).toBe(200)
  await until(async () => (await feeds())[0].rows === 3)
  expect(source.asked).toHaveLength(before + 1)
  expect(await feeds()).toMatchObject([{ paused: true, next_try: null }])
  source.answers['/a'] = reply(503)
  await server.ask(`/console/feeds/${id}`, json('PUT', { every: '7d' }))
  await server.says(/answers with status 503/)
  const { stdout: examined } = await runCommand(['doctor', '--data', dir])
  expect(examined).toContain('token=***: answers with status 503')
  await server.ask(`/console/feeds/${id}`, json('PUT', paused))
  expect((await runCommand(['doctor', '--data', dir])).stdout).not.toContain('status 503')
  await server.ask(`/console/feeds/${id}`, { method: 'DELETE' })
  expect(await feeds()).toEqual([])
  await server.stop()
  expect(server.written.stderr + examined).not.toContain('SECRET')
})

describe('an upload', () => {
  test('is imported by its own process, and the list is served', async () => {
    const path = '/console/import?type=socks5&name=a.txt'
    const response = await shared.ask(path, { ...ADMITTED, body: many(5000) })
    const type = response.headers.get('content-type')
    expect([response.status, type]).toEqual([200, 'application/x-ndjson'])
    const last = (await response.text()).trim().split('\n').at(-1) ?? ''
    expect(JSON.parse(last)).toMatchObject({ kind: 'done', read: 5000, added: 5000 })
    expect((await valueOf(shared.ask('/console/overview'))).list.rows).toBe(5001)
  })

  test('ends at once with the server, and the list is unchanged', async () => {
    const empty = temporaryDirectory()
    const server = await start(empty)
    const response = await server.ask('/console/import?type=socks5', {
      ...{ ...ADMITTED, body: many(300_000) },
    })
    const reader = response.body?.getReader()
    server.kill('SIGTERM')
    expect(await server.ended).toBe(0)
    await reader?.cancel().catch(() => {})
    const { stdout } = await runCommand(['stats', '--data', empty, '--json'])
    expect(JSON.parse(stdout).list.total).toBe(0)
  })
})

/** The paths in the live log. */
async function livePaths(server: typeof shared): Promise<string[]> {
  await fetch(`${server.url}/api?key=demo&type=http`)
  const text = await (await server.ask('/console/log')).text()
  expect(text).not.toContain('key=')
  const { lines }: LogPage = JSON.parse(text)
  return lines.map(line => String(line.path))
}

test('a sample server on all addresses with --log off warns of no TLS, refuses imports and has a live log', async () => {
  const server = await start(temporaryDirectory(), ['--sample', '--log', 'off'], '0.0.0.0:0')
  await server.says(/the admin listener is open to other machines, and without TLS/)
  expect(await valueOf(server.ask('/console/import', { ...ADMITTED, body: 'x' }))).toMatchObject({
    message: 'the sample list is built in: nothing can be imported into it',
  })
  expect(await livePaths(server)).toEqual(['/api'])
  await server.stop()
  expect(server.written.stdout).toBe('')
})

test('a server accepts a new token without a restart', async () => {
  const where = shared.shown.replace('http://', '')
  const { stdout, stderr } = await runCommand(['console', '--data', dir, '--admin-listen', where])
  expect(stderr).toBe('the previous token is no longer valid\n')
  expect((await shared.ask('/console/overview')).status).toBe(401)
  const authorization = `Bearer ${stdout.trim().replace(/^.*#token=/, '')}`
  expect((await shared.ask('/console/overview', { headers: { authorization } })).status).toBe(200)
})

test('tokens and new keys are in no log, error or file', async () => {
  const dir = dataDirectory()
  const server = await start(dir)
  const json = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const made = await server.ask('/console/keys', { ...json, body: '{"kind":"regular"}' })
  const { id, key } = await valueOf(Promise.resolve(made))
  const rotate = { ...json, body: '{}' }
  const rotated = await valueOf(server.ask(`/console/keys/${id}/rotate`, rotate))
  const answers = await Promise.all(
    [
      ...[`/console/overview?token=${server.token}`, `/${server.token}`, `/console/keys/${key}`],
      ...['/console/keys', `/console/keys/${id}`, '/console/overview', '/metrics', '/console/none'],
    ].map(async path => (await server.ask(path)).text()),
  )
  await fetch(`${server.url}/api?key=${key}`)
  await server.stop()
  const backup = join(dir, 'backup.tar')
  await runCommand(['backup', backup, '--data', dir])
  const files = readdirSync(dir).map(name => readFileSync(join(dir, name), 'latin1'))
  const { stdout, stderr } = server.written
  const all = [...answers, ...files, stdout, stderr].join('\n')
  for (const secret of [server.token, key, rotated.key]) expect(all).not.toContain(secret)
  expect(readFileSync(backup, 'latin1')).not.toContain('admin-token')
})

test('backup, restore and doctor accept the files of the console', async () => {
  const dir = dataDirectory()
  const server = await start(dir)
  await server.stop()
  const archive = join(temporaryDirectory(), 'b.tar')
  expect((await runCommand(['backup', archive, '--data', dir])).exitCode).toBe(0)
  expect((await runCommand(['restore', archive, '--force', '--data', dir])).exitCode).toBe(0)
  const { stdout } = await runCommand(['doctor', '--data', dir])
  expect(stdout).toMatch(/permissions +ok/)
})
