/** A server that feeds itself (contract G1): what it imports, says and hides, and how it ends. */
import { afterAll, describe, expect, test } from 'bun:test'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { reply, startFeedServer } from '../support/feed-server.ts'
import { lines } from '../support/feeds.ts'
import { ASK, dataDirectory, KEY } from '../support/fixtures.ts'
import { launchServer } from '../support/launch.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'
import { BINARY, createClock, program, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'
import { until } from '../support/until.ts'

afterAll(cleanUp)

/** Starts a server with feeds on a data directory. */
async function start(dir: string, ...more: string[]) {
  const args = ['serve', '--data', dir, '--listen', '127.0.0.1:0', ...more]
  const server = await launchServer([...program(), ...args], { env: createClock().env })
  const ask = async (query = ''): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${server.port}${ASK}${query}`)
    return answer.status === 200 ? answer.text() : String(answer.status)
  }
  return { ...server, ask }
}

/** A feed `/a` that never answers. */
async function startHangingFeed() {
  const [asked, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const source = await startFeedServer({
    '/a'(_, socket) {
      socket.on('close', () => closed.resolve())
      asked.resolve()
    },
  })
  return { source, asked, closed }
}

test('a server imports feeds with their options, and adds places', async () => {
  const source = await startFeedServer({
    '/a': reply(200, {}, 'socks5://192.0.2.7:1080\n'),
    '/b': reply(200, {}, 'Where,type,ping\n192.0.2.8:80,http,530\n192.0.2.9:80,http,61\n'),
  })
  const places = join(temporaryDirectory(), 'city.mmdb')
  writeFileSync(places, mmdb({ '192.0.2.0/29': cityRecord('DE', 'Berlin', 'Берлин') }))
  const server = await start(
    dataDirectory([]),
    ...['--feed', `${source.url}/a`, '--geoip', places],
    ...['--feed', `${source.url}/b ping-unit=ms map=Where=ip`],
  )
  await server.says(/feed http:\/\/127.0.0.1:\d+\/a: 1 row\n/)
  await server.says(/\/b: 2 rows\n/)
  const json = '&get=json&pretty=0&fields=ip'
  const berlin = '[{"ip":"192.0.2.7:1080","country":"DE","city":"Берлин"}]'
  expect(await server.ask(`${json},country,city&type=socks5`)).toBe(berlin)
  expect(await server.ask('&country=de&city=berlin&lang=en')).toBe('192.0.2.7:1080\n')
  expect(await server.ask(`${json},ping&type=http`)).toBe(
    '[{"ip":"192.0.2.9:80","ping":0.061},{"ip":"192.0.2.8:80","ping":0.53}]',
  )
  expect(await server.stop()).toBe(0)
})

test('a server reports a failing feed once; its secrets are in no log and no file', async () => {
  const source = await startFeedServer({ '/a': reply(503) })
  const dir = dataDirectory()
  const feed = `http://user:SECRET@127.0.0.1:${source.port}/a?key=SECRET`
  const server = await start(dir, '--feed', feed)
  await server.says(
    /feed http:\/\/\*\*\*@127.0.0.1:\d+\/a\?key=\*\*\*: answers with status 503; the list stays as it was, next try in \d+ s\n/,
  )
  expect(await server.ask()).toBe('192.0.2.1:80\n')
  const { stdout } = await runCommand(['feeds', '--data', dir])
  const { stdout: examined } = await runCommand(['doctor', '--data', dir])
  await server.stop()
  expect(stdout).toContain('answers with status 503')
  expect(examined).toContain('key=***: answers with status 503')
  const files = readdirSync(dir).map(name => readFileSync(join(dir, name), 'latin1'))
  for (const name of readdirSync(dir).filter(name => name.startsWith('feeds.db'))) {
    expect([name, statSync(join(dir, name)).mode & 0o777]).toEqual([name, 0o600])
  }
  expect([server.written.stderr, stdout, examined, ...files].join('')).not.toContain('SECRET')
})

describe('SIGHUP', () => {
  test('reads the feeds file again; a mistake or a named pipe keeps the feeds', async () => {
    const source = await startFeedServer({
      '/a': reply(200, {}, 'socks5://192.0.2.7:1080\n'),
      '/b': reply(200, {}, 'http://192.0.2.8:3128\n'),
    })
    const dir = dataDirectory()
    const file = join(temporaryDirectory(), 'feeds.conf')
    const sources = async (): Promise<string[]> => {
      const { stdout } = await runCommand(['feeds', '--json', '--data', dir])
      return (JSON.parse(stdout) as { source: string }[]).map(state => state.source)
    }
    writeFileSync(file, '# none yet\n')
    const server = await start(dir, '--feeds', file)
    const reload = async (text: string, says: RegExp): Promise<void> => {
      writeFileSync(file, text)
      server.kill('SIGHUP')
      await server.says(says)
    }
    await reload(`${source.url}/a\n`, /feeds\.conf was read again: 1 feed\n/)
    await server.says(/\/a: 1 row\n/)
    expect(await server.ask('&type=socks5')).toBe('192.0.2.7:1080\n')
    const wrong = /feeds\.conf:1: unknown option 'evry'[^\n]*; the feeds stay as they were\n/
    await reload(`${source.url}/b evry=5m\n`, wrong)
    expect(await sources()).toEqual([`${source.url}/a`])
    await reload(`${source.url}/b every=5m\n`, /feeds\.conf was read again: 1 feed\n/)
    await server.says(/\/b: 1 row\n/)
    expect(await sources()).toEqual([`${source.url}/b`])
    expect(await server.ask('&port=3128')).toBe('192.0.2.8:3128\n')
    await reload(`${source.url}/b check\n/c check\n`, /feeds\.conf was read again: 2 feeds\n/)
    const both = ['/c', `${source.url}/b`] // as the checker fetches them
    expect(await sources()).toEqual(both)
    rmSync(file)
    Bun.spawnSync(['mkfifo', file])
    server.kill('SIGHUP')
    await server.says(/feeds\.conf: it is not a regular file; the feeds stay as they were\n/)
    expect(await sources()).toEqual(both)
    expect(await server.stop()).toBe(0)
  })

  test('does not end a server without a feeds file, or one that finishes requests', async () => {
    const dir = dataDirectory()
    const server = await start(dir)
    server.kill('SIGHUP')
    expect(await server.ask()).toBe('192.0.2.1:80\n')
    server.kill('SIGTERM')
    server.kill('SIGHUP')
    expect(await server.ended).toBe(0)
  })
})

test('the import of a killed server ends, and its process shows no secret', async () => {
  const rows = lines(60_000)
  const source = await startFeedServer({ '/a': reply(200, {}, rows) })
  const dir = dataDirectory()
  const server = await start(dir, '--feed', `${source.url}/a?key=${KEY}`)
  const child = (): string =>
    Bun.spawnSync(['ps', '-o', 'pid=', '--ppid', `${server.pid}`])
      .stdout.toString()
      .trim()
  await until(() => child() !== '')
  const pid = child()
  for (const what of ['cmdline', 'environ']) {
    expect(readFileSync(`/proc/${pid}/${what}`, 'utf8')).not.toContain(KEY)
  }
  server.kill('SIGKILL')
  await until(() => !existsSync(`/proc/${pid}`))
})

test('SIGTERM ends a server at once while a feed hangs', async () => {
  const { source, asked, closed } = await startHangingFeed()
  const server = await start(dataDirectory(), '--feed', `${source.url}/a`)
  await asked.promise
  expect(await server.stop()).toBe(0)
  await closed.promise
  expect(server.written.stderr).toEndWith('\nstopping\n')
})

test('another proxylist can be a feed, its key in the header file', async () => {
  const other = await startChild(
    dataDirectory([{ ip: '192.0.2.9:3128', type: 'https', country: 'de', ping: 1 }]),
  )
  const headers = join(temporaryDirectory(), 'headers')
  writeFileSync(headers, `Authorization: Bearer ${KEY}\n`)
  const feed = `${other.url}/api?get=json&time=9999 headers=${headers}`
  const server = await start(dataDirectory([]), '--feed', feed)
  await server.says(/: 1 row\n/)
  const json = '&get=json'
  expect(await server.ask(json)).toBe((await other.request(ASK + json)).text)
  await server.stop()
  await other.stop()
  expect(server.written.stderr + other.output()).not.toContain(KEY)
})

test('one of two servers fetches; when it is killed, the other one does', async () => {
  const source = await startFeedServer({ '/a': reply(200, { ETag: '"1"' }, lines(3)) })
  const dir = dataDirectory()
  const feed = ['--feed', `${source.url}/a every=1s`]
  const first = await start(dir, ...feed)
  await first.says(/: 3 rows\n/)
  const second = await start(dir, ...feed)
  for (const server of [first, second]) {
    expect(await server.ask()).toContain('198.51.100.2:80\n')
  }
  expect(second.written.stderr).not.toContain('/a:')
  first.kill('SIGKILL')
  await second.says(/: 3 rows\n/)
  await second.stop()
})

test('Ctrl-C ends fetch, which says that the list stays', async () => {
  const { source, asked } = await startHangingFeed()
  const dir = dataDirectory()
  const fetching = startProgram(['fetch', '--feed', `${source.url}/a`, '--data', dir])
  await asked.promise
  fetching.kill('SIGINT')
  expect(await fetching.ended).toBe(130)
  expect(fetching.written.stderr).toBe(
    'proxylist: interrupted; feeds that were not imported yet left the list as it was\n',
  )
  const { stdout } = await runCommand(['list', 'time=999', '--data', dir])
  expect(stdout).toBe('192.0.2.1:80\n')
})

const binary = BINARY
if (binary !== undefined) {
  test('a server goes on with its own version after an upgrade of its file', async () => {
    const source = await startFeedServer({ '/a': reply(503) })
    const file = join(temporaryDirectory(), 'proxylist')
    copyFileSync(binary, file)
    const args = ['--data', dataDirectory(), '--listen', '127.0.0.1:0']
    const feed = ['--feed', `${source.url}/a every=1s`]
    const server = await launchServer([file, 'serve', ...args, ...feed])
    await server.says(/: answers with status 503/)
    rmSync(file)
    source.answers['/a'] = reply(200, {}, lines(3))
    await server.says(/works again: 3 rows\n/)
    expect(await server.stop()).toBe(0)
  })
}
