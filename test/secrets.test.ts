/**
 * Holds that keys are secret: a key is found nowhere but in the request that carries it, is stored
 * as a hash only, and a refusal does not show whether it was ever known. And that the password of a
 * shared database is.
 */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { hashKey } from '../src/access/key.ts'
import { STATUS } from '../src/api/errors.ts'
import { spawnImport } from '../src/cli/commands/import.ts'
import { COMMANDS } from '../src/cli/program.ts'
import { ACCESS_FILE } from '../src/sqlite/data-directory.ts'
import type { Answer } from './support/answer.ts'
import { CANARIES, CANARY, canaryDirectory, tracesIn } from './support/canary.ts'
import { program, proxylist, startProgram } from './support/program.ts'
import { type Service, startChild, startService } from './support/service.ts'
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

  test('does not mind the prefix that lists show', () => {
    expect(tracesIn(CANARIES.map(key => key.slice(0, 8)).join('…'))).toEqual([])
  })
})

type Ask = readonly [path: string, init?: RequestInit]
const headers = (fields: { [name: string]: string }): RequestInit => ({ headers: fields })

let clients = 0

/** The same from another address, except for demo: a client that sends many wrong keys is slowed. */
function fromElsewhere([path, init = {}]: Ask): Ask {
  const fields = new Headers(init.headers)
  if (path.includes('key=demo') || fields.has('x-forwarded-for')) return [path, init]
  clients += 1
  fields.set('x-forwarded-for', `198.18.${clients >> 8}.${clients & 255}`)
  return [path, { ...init, headers: fields }]
}

/** Those to the other paths that a key may be sent to. */
const waysBesides = (key: string): Ask[] => [
  ['/key', headers({ authorization: `Bearer ${key}` })],
  ['/key', { method: 'HEAD', headers: { authorization: `Bearer ${key}` } }],
  ['/key', headers({ authorization: key })],
  ['/key', headers({ authorization: `Bearer ${key} ${key}` })],
  [`/key?key=${key}`],
  [`/key?key=${key}`, headers({ authorization: `Bearer ${key}` })],
  [`/key?${key}`, headers({ authorization: `Bearer ${key}` })],
  [`/key?x=${key}`, headers({ authorization: `Bearer ${key}` })],
  [`/key/${key}`],
  [`/openapi.json?key=${key}`],
  [`/docs?key=${key}`],
  [`/docs?lang=${key}`, headers({ 'if-none-match': key })],
]

/** The ways in which a key travels, meant or by mistake. */
const waysOf = (key: string): Ask[] => [
  [`/api?key=${key}`],
  [`/api?key=${key}&get=json&wrap=1`],
  [`/api?key=${key}&type=http&city=SECRETCITY`],
  [`/api?key=${key}&get=json.file&format=object`],
  [`/api/?key=${key}`],
  ['/api', headers({ authorization: `Bearer ${key}` })],
  [`/api?key=${key}`, headers({ authorization: `Bearer ${key}` })],
  [`/api?key=${key}`, headers({ authorization: 'Bearer another' })],
  ['/api?key=another', headers({ authorization: `bearer ${key}` })],
  ['/api', headers({ authorization: key })],
  ['/api', headers({ authorization: `Bearer ${key} ${key}` })],
  ['/api', headers({ authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` })],
  [`/api?key=${key}`, { method: 'HEAD' }],
  [`/api?key=${key}`, { method: 'POST', body: key }],
  [`/api?key=${key}`, { method: 'DELETE' }],
  [`/api?k%65y=${key}`],
  [`/api?key=${[...key].map(c => `%${c.charCodeAt(0).toString(16)}`).join('')}`],
  [`/api?key=${key}%zz`],
  [`/api?key=%ff${key}`],
  [`/api?key=${key}%00`],
  [`/api?key=${key}%20`],
  [`/api?key=${key}+`],
  [`/api?key=${key}&key=${key}`],
  [`/api?key=${key}&key=another`],
  [`/api?Key=${key}`],
  [`/api?api_key=${key}`],
  [`/api?${key}`],
  [`/api?key=&${key}=`],
  [`/api?key=${key}&${key}`],
  [`/api?key=${key}&${key}=1`],
  [`/api?key=demo&${key.slice(3)}=1`],
  [`/api?key=demo&x${key}`],
  ...['type', 'ping', 'country', 'ip', 'get', 'lang', 'count', 'cm'].map(
    (name): Ask => [`/api?key=${key}&${name}=${key}`],
  ),
  [`/api?key=${key}&city=${key}`],
  [`/api?key=demo&city=${key}`],
  [`/api?key=${key}&get=json&fields=${key}`],
  [`/${key}`],
  [`/api/${key}`],
  [`/api/${key}?key=${key}`],
  [`/api%2f${key}`],
  [`/key=${key}`],
  [`//api?key=${key}`],
  [`/healthz?key=${key}`],
  [`/readyz?key=${key}`],
  ...waysBesides(key),
  ...['referer', 'user-agent', 'cookie', 'x-request-id', 'x-forwarded-for', 'forwarded'].map(
    (name): Ask => [`/api?key=${key}`, headers({ [name]: key })],
  ),
  [`/api?key=${key}`, headers({ 'accept-encoding': key, accept: key, 'if-none-match': key })],
]

/** All of an answer: headers, then the body. */
const wholeOf = ({ status, headers: fields, text }: Answer): string =>
  `${status} ${JSON.stringify([...fields])} ${text}`

/** All bytes of the files in a directory, by name. */
const filesIn = (dir: string): [string, Buffer][] =>
  readdirSync(dir).map(name => [name, readFileSync(join(dir, name))])

const REFUSED = {
  INVALID_KEY: [
    ...[CANARY.unknown, CANARY.expired, CANARY.revoked, CANARY.both],
    ...['x', 'y'.repeat(999)],
  ],
  TEMP_KEY_INVALID: [
    ...[CANARY.temp_unknown, CANARY.temp_expired, CANARY.temp_revoked],
    ...['temp_', `temp_${'y'.repeat(999)}`],
  ],
}
const CARRIERS: { [name: string]: (key: string) => Ask } = {
  'in the query': key => [`/api?key=${key}`],
  'in the header': key => ['/api', headers({ authorization: `Bearer ${key}` })],
  'at /key': key => ['/key', headers({ authorization: `Bearer ${key}` })],
  'at /key, with a parameter': key => ['/key?x=1', headers({ authorization: `Bearer ${key}` })],
  'with HEAD': key => [`/api?key=${key}`, { method: 'HEAD' }],
  'with bad parameters': key => [`/api?key=${key}&works=101&nonsense=1`],
  'with filters': key => [`/api?key=${key}&get=json.file&city=none&wrap=1`],
  compressed: key => [`/api?key=${key}`, headers({ 'accept-encoding': 'zstd, gzip' })],
}
/** Everything a client can compare: its own request's id and the date are no part of it. */
const bytesOf = ({ status, headers: fields, text }: Answer): string => {
  for (const name of ['date', 'x-request-id']) fields.delete(name)
  return JSON.stringify([status, [...fields], text]) // the clock of the tests stands still
}

describe.each(['json', 'text'] as const)('with errors in %s', errors => {
  let dir: string
  let service: Service
  beforeAll(async () => {
    dir = canaryDirectory()
    service = await startService(dir, { errors })
  })

  test.each(Object.entries(REFUSED))(
    '%s does not tell whether a key was ever known',
    async (_, keys) => {
      const seen = new Map<string, string>()
      for (const [how, carrier] of Object.entries(CARRIERS)) {
        const answers: string[] = []
        // Twice: the second time, a key that was found once may come from memory.
        for (const key of [...keys, ...keys]) {
          const answer = await service.request(...fromElsewhere(carrier(key)))
          expect([how, answer.status]).toEqual([how, 403])
          answers.push(bytesOf(answer))
        }
        expect([how, ...new Set(answers)]).toHaveLength(2)
        seen.set(how, answers[0] ?? '')
      }
      for (const how of ['at /key', 'at /key, with a parameter']) {
        expect(seen.get(how)).toBe(seen.get('in the header'))
      }
    },
  )

  test('no answer, no line of the log and no file holds a key, whatever carried it there', async () => {
    const seen = new Set<string>()
    async function ask(path: string, init: RequestInit = {}): Promise<void> {
      const answer = await service.request(...fromElsewhere([path, init]))
      expect([path, tracesIn(wholeOf(answer))]).toEqual([path, []])
      const code = /"code":"(\w+)"|^Error: /.exec(answer.text)
      if (code) seen.add(code[1] ?? 'text')
    }
    for (const key of CANARIES) for (const way of waysOf(key)) await ask(...way)
    const backup = join(temporaryDirectory(), 'backup.tar')
    expect((await proxylist(['backup', backup, '--data', dir])).exitCode).toBe(0)
    const files: [string, Buffer][] = [...filesIn(dir), ['backup', readFileSync(backup)]]
    expect(files.map(([name]) => name)).toContain(`${ACCESS_FILE}-wal`)
    for (const [name, bytes] of files) expect([name, tracesIn(bytes)]).toEqual([name, []])

    const other = new Database(join(dir, ACCESS_FILE), { create: false, readwrite: true })
    other.run('pragma busy_timeout = 60000') // the service may be writing
    other.run('begin immediate')
    for (const key of [CANARY.once, CANARY.temp_good]) {
      await ask(`/api?key=${key}`)
      await ask('/api', headers({ authorization: `Bearer ${key}` }))
    }
    await ask(`/readyz?key=${KEY}`)
    other.run('rollback')
    other.close()
    await service.stop()
    const output = service.output()
    expect(output).toContain('"status":503')
    expect(tracesIn(output)).toEqual([])
    expect(output).not.toContain(KEY.slice(0, 8))
    for (const line of output.split('\n').filter(text => text.startsWith('{'))) {
      expect(line).not.toMatch(/secretcity|key=|\?|type=/i) // nor a query
    }
    // A mistake of our own is in failure.test.ts.
    const codes = Object.keys(STATUS).filter(code => code !== 'INTERNAL_ERROR')
    expect([...seen].sort()).toEqual(errors === 'text' ? ['text'] : codes.sort())
    const stored = readFileSync(join(dir, ACCESS_FILE))
    expect(stored.includes(hashKey(KEY))).toBeTrue()
    expect(readFileSync(backup).includes(hashKey(KEY))).toBeTrue()
    expect(stored.includes(hashKey(CANARY.unknown))).toBeFalse()
  })
})

describe('below the service', () => {
  const big = 'x'.repeat(9_000)
  let service: Awaited<ReturnType<typeof startChild>>
  beforeAll(async () => {
    service = await startChild(canaryDirectory())
  })

  test.each([
    ['a version there is not', `GET /api?key=${KEY} HTTP/9.9\r\nHost: a\r\n\r\n`],
    ['a method there is not', `${KEY} /api?key=${KEY} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['no version', `GET /api?key=${KEY}\r\n\r\n`],
    ['a key as host', `GET http://${KEY}/api?key=${KEY} HTTP/1.1\r\nHost: ${KEY}\r\n\r\n`],
    ['too large a head', `GET /api?key=${KEY} HTTP/1.1\r\nHost: a\r\nX-A: ${KEY}${big}\r\n\r\n`],
    ['too long a target', `GET /api?key=${KEY}${big} HTTP/1.1\r\nHost: a\r\n\r\n`],
    [
      'too large a body',
      `POST /api?key=${KEY} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n${KEY}${big}`,
    ],
    ['a header that is none', `GET /api HTTP/1.1\r\nHost: a\r\n${KEY}\r\n\r\n`],
    ['a fragment', `GET /api?key=${KEY}#${KEY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`],
    ['HTTP/1.0', `GET /api?key=${KEY} HTTP/1.0\r\n\r\n`],
  ])('%s is answered without the key', async (_, request) => {
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

  test('nothing of this is logged with the key', async () => {
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

  test('serve, of a key in its environment or in the place of another option', async () => {
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

describe('the password of a database is shown nowhere', () => {
  const sharing = COMMANDS.filter(({ name, settings }) => {
    return settings.includes('database') && name !== 'serve' // which waits for its database
  })
  /** Runs a command line; what it writes must hold no trace of the password. */
  async function expectSilent(line: readonly string[], env = {}, cwd = temporaryDirectory()) {
    const { stdout, stderr } = await proxylist(line, { cwd, env })
    expect([line, tracesIn(stdout + stderr)]).toEqual([line, []])
    return stderr
  }

  test('by a command whose database is away, be it in the environment or an option', async () => {
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
  ])('of a URL that is wrong, or in the wrong place: %p', async line => {
    expect(await expectSilent(line)).toMatch(/^proxylist: [^\n]+\n$/)
  })

  test('by doctor, of variables that it does not know or that are wrong', async () => {
    for (const name of ['PROXYLIST_DATABSE', 'PROXYLIST_DATABASE_TIMEOUT']) {
      await expectSilent(['doctor'], { [name]: DATABASE })
    }
    await expectSilent(['doctor'], { PROXYLIST_DATABASE: `${DATABASE}@` })
  })

  test('in the list of processes: those that a server starts get it on stdin alone', async () => {
    const settings = {
      ...{ data: 'data', database: DATABASE, databaseTimeout: 2000 },
      ...{ providerService: 'the service', geoip: [] },
    }
    const shell = ['sh', '-c', 'echo "$0 $*"; env; echo; head -n 1', 'import-of-the-server']
    const task = { name: 'list', options: {}, settings }
    const { stdout } = await spawnImport(task, openSync('/dev/null', 'r'), shell).ended
    const [shown = '', given = ''] = stdout.split('\n\n')
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

  test('refuses bytes that are no text', async () => {
    const stdin = new Uint8Array([0xff, 0xfe, 0x41, 0x0a])
    const { exitCode, stderr } = await proxylist(args(temporaryDirectory()), { stdin })
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^proxylist: no key on stdin: [^\n]+\n$/)
  })
})
