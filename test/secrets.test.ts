/**
 * Keys stay secret in malformed requests and on the command line, and so does the password of a shared
 * database. `http/secrets.test.ts` tests what the service sends, logs and stores, in process and as the binary.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { spawnImport } from '../src/cli/commands/import.ts'
import { COMMANDS } from '../src/cli/program.ts'
import { CANARIES, CANARY, canaryDirectory, tracesIn } from './support/canary.ts'
import { program, proxylist, startProgram } from './support/program.ts'
import { startChild } from './support/service.ts'
import { cleanUp, temporaryDirectory } from './support/temporary.ts'

afterAll(cleanUp)

const KEY = CANARY.good

describe('the search for canaries', () => {
  test.each([
    ['the key', KEY],
    ['its end', KEY.slice(20)],
    ['capitals', `<${KEY.toUpperCase()}>`],
    ['hexadecimal', Buffer.from(KEY).toString('hex')],
    ['base64', Buffer.from(`Basic ${KEY}:`).toString('base64')],
    ['percent-encoding', [...KEY].map(c => `%${c.charCodeAt(0).toString(16)}`).join('')],
    ['bytes', Buffer.from(`\0\xff${KEY}\0`)],
  ])('finds %s', (_, content) => expect(tracesIn(content)).not.toBeEmpty())

  test('ignores the prefix that lists show', () => {
    expect(tracesIn(CANARIES.map(key => key.slice(0, 8)).join('…'))).toEqual([])
  })
})

describe('a malformed request', () => {
  const big = 'x'.repeat(9_000)
  let service: Awaited<ReturnType<typeof startChild>>
  beforeAll(async () => {
    service = await startChild(canaryDirectory())
  })

  test.each([
    ['an unknown version', `GET /api?key=${KEY} HTTP/9.9\r\nHost: a\r\n\r\n`],
    ['an unknown method', `${KEY} /api?key=${KEY} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['no version', `GET /api?key=${KEY}\r\n\r\n`],
    ['a key as host', `GET http://${KEY}/api?key=${KEY} HTTP/1.1\r\nHost: ${KEY}\r\n\r\n`],
    ['too large a head', `GET /api?key=${KEY} HTTP/1.1\r\nHost: a\r\nX-A: ${KEY}${big}\r\n\r\n`],
    ['too long a target', `GET /api?key=${KEY}${big} HTTP/1.1\r\nHost: a\r\n\r\n`],
    [
      'too large a body',
      `POST /api?key=${KEY} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n${KEY}${big}`,
    ],
    ['an invalid header', `GET /api HTTP/1.1\r\nHost: a\r\n${KEY}\r\n\r\n`],
    ['a fragment', `GET /api?key=${KEY}#${KEY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`],
    ['HTTP/1.0', `GET /api?key=${KEY} HTTP/1.0\r\n\r\n`],
  ])('with %s gets an answer without the key', async (_, request) => {
    const { port } = new URL(service.url)
    const answer = await new Promise<string>(resolve => {
      const chunks: Buffer[] = []
      const socket = connect(Number(port), '127.0.0.1', () => socket.end(request))
      socket.on('data', chunk => void chunks.push(Buffer.from(chunk)))
      socket.on('error', () => {}) // closed before all was sent
      socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
    })
    expect(tracesIn(answer)).toEqual([])
  })

  test('leaves no key in the log', async () => {
    await service.stop()
    expect(tracesIn(service.output())).toEqual([])
  })
})

/** Files that hold keys where none belongs, such as what a client saved of its own requests. */
const SPOILED = {
  'urls.txt': CANARIES.map(key => `http://192.0.2.1:8080/api?key=${key}\nhttp://${key}:80\n`).join(
    '',
  ),
  'row.csv': `ip,type,city,country\n${KEY},http,,\n192.0.2.1:80,${KEY},,\n192.0.2.1:80,http,,${KEY}\n`,
  'rows.ndjson': ['ip', 'type', 'anon', 'ping', 'works', 'country', 'timecheck', 'smtp']
    .map(name => JSON.stringify({ ip: '192.0.2.1:80', type: 'http', [name]: KEY }))
    .join('\n'),
  'member.json': JSON.stringify([{ ip: '192.0.2.1:80', type: 'http', [KEY]: 1 }]),
  'header.csv': `ip,type,${KEY}\n192.0.2.1:80,http,1\n`,
  'error.json': JSON.stringify({ status: 'error', message: KEY, [KEY]: KEY }),
  'broken.json': `[{"ip":"${KEY}`,
  'other.html': `<html>${KEY}</html>`,
}

/** What to type after a command: the key itself where somebody could put it by mistake. */
const TYPED: { [usage: string]: readonly (readonly string[])[] } = {
  '': [[]],
  '<file...>': Object.keys(SPOILED).map(name => [name]),
  '[file...]': [[], ...Object.keys(SPOILED).map(name => [name])],
  '<ip:port>': [['203.0.113.7:1080'], [KEY]],
  '[command]': [['judge'], [KEY]],
  '<shell>': [['bash'], [KEY]],
  '[query]': [[`key=${KEY}&type=http`], [`type=http&city=${KEY}`], [`type=${KEY}`], [KEY]],
  '<id>': [[KEY], [KEY.slice(3)]],
  '<name>': [['small'], [KEY]],
  '<file>': [['copy.tar'], ['copy.tar']],
  '[topic]': [['feeds']],
}

describe('the command line shows no key that it is given or keeps', () => {
  // `serve` has the tests above; `keys add` prints the key on stdout, as it must.
  const commands = COMMANDS.filter(({ name }) => name !== 'serve')

  /** Everything that is typed of a command. */
  function linesOf({ name, arguments: usage = '', settings }: (typeof COMMANDS)[number]) {
    const typed = TYPED[usage]
    if (typed === undefined) throw new Error(`say in TYPED what to type for ${usage}`)
    const data = settings.includes('data') ? ['--data', canaryDirectory()] : []
    const lines = typed.map(args => [...name.split(' '), ...args, ...data])
    return settings.includes('json') ? [...lines, [...(lines[0] ?? []), '--json']] : lines
  }

  test.each(commands.map(command => [command.name, command] as const))(
    '%s',
    async (name, command) => {
      const cwd = temporaryDirectory()
      for (const [file, text] of Object.entries(SPOILED)) writeFileSync(join(cwd, file), text)
      for (const line of linesOf(command)) {
        const { stdout, stderr } = await proxylist(line, { cwd, env: { PROXYLIST_KEY: KEY } })
        const shown = name === 'keys add' ? stderr : stdout + stderr
        expect([line, tracesIn(shown)]).toEqual([line, []])
      }
    },
  )

  test('serve, with a key in its environment or as another option', async () => {
    const env = { PROXYLIST_KEY: KEY }
    for (const option of ['--listen', '--retain', '--trust-proxy', '--errors', '--grace']) {
      const { exitCode, stdout, stderr } = await proxylist(['serve', option, KEY], { env })
      expect([option, exitCode, tracesIn(stdout + stderr)]).toEqual([option, 2, []])
    }
    const help = await proxylist(['keys', 'add', '--help'], { env })
    expect(tracesIn(help.stdout)).toEqual([])
  })
})

/** The URL of a database that is not there, with a password to search for. */
const DATABASE = `postgres://who:${CANARY.unknown}@127.0.0.1:1/proxies`

describe('the password of a database', () => {
  const sharing = COMMANDS.filter(({ name, settings }) => {
    return settings.includes('database') && name !== 'serve' // which waits for its database
  })
  /** Runs a command line; what it writes must hold no trace of the password. */
  async function expectSilent(line: readonly string[], env = {}, cwd = temporaryDirectory()) {
    const { stdout, stderr } = await proxylist(line, { cwd, env })
    expect([line, tracesIn(stdout + stderr)]).toEqual([line, []])
    return stderr
  }

  test('is not shown by a command that cannot reach its database', async () => {
    const cwd = temporaryDirectory()
    for (const [file, text] of Object.entries(SPOILED)) writeFileSync(join(cwd, file), text)
    const lines = sharing.map(({ name, arguments: usage = '' }) => [
      ...name.split(' '),
      ...(TYPED[usage]?.[0] ?? []),
    ])
    await Promise.all(lines.map(line => expectSilent(line, { PROXYLIST_DATABASE: DATABASE }, cwd)))
    const stderr = await expectSilent(['keys', 'list', '--database', DATABASE])
    expect(stderr).toBe(
      'proxylist: the database 127.0.0.1:1/proxies cannot be used: the connection was refused, or there is no such host\n',
    )
  })

  test.each([
    [[DATABASE]],
    [['help', DATABASE]],
    [['keys', DATABASE]],
    [['keys', 'list', DATABASE]],
    [['keys', 'list', '--databse', DATABASE]],
    [['keys', 'list', `--databse=${DATABASE}`]],
    [[`--database=${DATABASE}`, 'keys', 'list']],
    [['keys', 'list', '--data', '/dev/null/x', '--database', `${DATABASE}/more`]],
    [['keys', 'list', '--database', DATABASE.replace('127', '@')]],
    [['keys', 'list', '--database', `${DATABASE}?sslmode=${CANARY.unknown}`]],
    [['keys', 'list', '--database-timeout', DATABASE]],
    [['keys', 'list', '--json', '--database', CANARY.unknown]],
    [['import', DATABASE]],
    [['keys', 'import', DATABASE]],
    [['version', '--database', DATABASE]],
  ])('is not shown when its URL is wrong or in the wrong place: %p', async line => {
    expect(await expectSilent(line)).toMatch(/^proxylist: [^\n]+\n$/)
  })

  test('is not shown by doctor in an unknown or wrong variable', async () => {
    for (const name of ['PROXYLIST_DATABSE', 'PROXYLIST_DATABASE_TIMEOUT']) {
      await expectSilent(['doctor'], { [name]: DATABASE })
    }
    await expectSilent(['doctor'], { PROXYLIST_DATABASE: `${DATABASE}@` })
  })

  test('is not in the list of processes: a server passes it on stdin only', async () => {
    const settings = {
      ...{ data: 'data', database: DATABASE, databaseTimeout: 2000 },
      ...{ providerService: 'the service', geoip: [] },
    }
    const print = 'printf "%s\\t%s\\n" "$0 $* $(env | tr "\\n" " ")" "$(head -n 1)"'
    const shell = ['sh', '-c', print, 'import-of-the-server']
    const task = { name: 'list', options: {}, settings }
    const { stdout } = await spawnImport(task, openSync('/dev/null', 'r'), shell).ended
    const [shown = '', given = ''] = stdout.split('\t')
    expect(shown).toStartWith('import-of-the-server import-upload')
    expect(tracesIn(shown)).toEqual([])
    expect(JSON.parse(given)).toEqual(JSON.parse(JSON.stringify(task)))
  })
})

describe('keys add --key -', () => {
  const args = (dir: string) => ['keys', 'add', '--key', '-', '--data', dir]

  test('keeps the key out of the list of processes', async () => {
    const dir = join(temporaryDirectory(), 'data')
    await using adding = startProgram(args(dir))
    const file = `/proc/${adding.pid}/cmdline`
    let line = ''
    while (line === '') {
      await new Promise(setImmediate) // it has begun, and waits for its stdin
      line = readFileSync(file, 'latin1')
    }
    expect(line).toEndWith(`\0${args(dir).join('\0')}\0`)
    adding.stdin.write(`${KEY}\n`)
    await adding.stdin.end()
    expect(await adding.ended).toBe(0)
    expect(adding.written.stdout).toBe(`${KEY}\n`)
    expect(tracesIn(adding.written.stderr)).toEqual([])
  })

  test('says what to do when stdin is a terminal', async () => {
    let written = ''
    const child = Bun.spawn([...program(), ...args(join(temporaryDirectory(), 'data'))], {
      env: { PATH: process.env.PATH, TERM: 'xterm' },
      terminal: {
        cols: 200,
        rows: 24,
        data: (_, bytes) => {
          written += Buffer.from(bytes)
        },
      },
    })
    expect(await child.exited).toBe(2)
    child.terminal?.close()
    expect(written.trim()).toBe(
      'proxylist: --key - reads the key from stdin, which is a terminal; use < FILE',
    )
  })

  test('refuses bytes that are not text', async () => {
    const stdin = new Uint8Array([0xff, 0xfe, 0x41, 0x0a])
    const { exitCode, stderr } = await proxylist(args(temporaryDirectory()), { stdin })
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^proxylist: no key on stdin: [^\n]+\n$/)
  })
})
