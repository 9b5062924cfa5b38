/**
 * What becomes of the program when its stdout is closed (`| head -1`) or nobody reads it: commands
 * end quietly with their usual status, and the server goes on. And what a terminal gets to see.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/lib/errors.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import { freePort, launch, launchServer } from '../support/launch.ts'
import { createClock, program } from '../support/program.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'
import { onTerminal } from '../support/terminal.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

/** A named pipe for the stdout of a child, and its end to read from. */
function createPipe() {
  const file = join(temporaryDirectory(), 'pipe')
  expect(Bun.spawnSync(['mkfifo', file]).exitCode).toBe(0)
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  const buffer = Buffer.alloc(1024 * 1024)
  let isOpen = true
  const close = (): void => {
    if (isOpen) closeSync(fd)
    isOpen = false
  }
  onCleanUp(async () => close())
  return {
    file,
    close,
    /** What has been written since the last call, without waiting. */
    read(): string {
      try {
        return buffer.toString('latin1', 0, readSync(fd, buffer))
      } catch {
        return '' // nothing yet
      }
    },
  }
}

/** Writes to a named pipe until it has no room. */
function fill(file: string): void {
  const fd = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK)
  try {
    for (;;) writeSync(fd, Buffer.alloc(4096))
  } catch (error) {
    expect(codeOf(error)).toBe('EAGAIN')
  } finally {
    closeSync(fd)
  }
}

const COMMANDS: readonly (readonly [line: string, exitCode: number])[] = [
  ...['list', 'list get=json', 'keys list --json', '--help'].map(line => [line, 0] as const),
  ['list type=socks4', 1],
  ['keys', 2],
]

describe('a closed stdout', () => {
  const many = Array.from({ length: 20_000 }, (_, i) => ({
    ip: `10.0.${i >> 8}.${i & 255}:80`,
    type: 'http',
  }))
  const env = { ...createClock().env, PROXYLIST_DATA: dataDirectory(many) }

  test.each(COMMANDS)('lets %s end with its usual status %d', async (line, exitCode) => {
    const args = line.split(' ')
    const usual = await runCommand(args, { env })
    expect(usual.exitCode).toBe(exitCode)
    const { file, close } = createPipe()
    const child = launch([...program(), ...args], { env, stdout: { file } })
    close()
    expect({ exitCode: await child.ended, stderr: child.written.stderr }).toEqual({
      exitCode,
      stderr: usual.stderr,
    })
  })
})

describe('a full stdout', () => {
  const env = { ...createClock().env, PROXYLIST_DATA: dataDirectory() }
  test.each(['list', 'list get=json', 'keys export', 'backup -'])(
    'makes %s say that it cannot write',
    async line => {
      const stdout = { file: '/dev/full' }
      const child = launch([...program(), ...line.split(' ')], { env, stdout })
      expect({ exitCode: await child.ended, stderr: child.written.stderr }).toEqual({
        exitCode: 1,
        stderr: 'proxylist: cannot write to stdout: no space left on device\n',
      })
    },
  )

  test('makes keys add revoke its key and keys rotate ask for another rotation', async () => {
    const run = async (...args: string[]) => {
      const child = launch([...program(), ...args], { env, stdout: { file: '/dev/full' } })
      return [await child.ended, child.written.stderr.split('\n').at(-2)]
    }
    const reason = 'could not be printed (no space left on device)'
    expect(await run('keys', 'add')).toEqual([1, `proxylist: the key ${reason}; it is revoked`])
    const { stdout } = await runCommand(['keys', 'list', '--json'], { env })
    const { id } = JSON.parse(stdout).find(({ state }: { state: string }) => state === 'active')
    const said = `proxylist: the secret ${reason}; rotate again`
    expect(await run('keys', 'rotate', id)).toEqual([1, said])
  })
})

describe('Ctrl-C before a new key is read', () => {
  const env = { ...createClock().env, PROXYLIST_DATA: dataDirectory() }
  type Listed = { id: string; state: string }
  const listed = async (): Promise<Listed[]> =>
    JSON.parse((await runCommand(['keys', 'list', '--json'], { env })).stdout)
  /** How a command ends that a signal interrupts after it has said that it made a secret. */
  async function interrupted(...args: string[]) {
    const pipe = createPipe()
    fill(pipe.file)
    const child = launch([...program(), ...args], { env, stdout: { file: pipe.file } })
    await child.says(/it is shown only once:\n/)
    child.kill('SIGINT')
    return [await child.ended, child.written.stderr.split('\n').at(-2)]
  }

  test.each(['keys add', 'keys temp'])('revokes the key of %s, which says so', async line => {
    const before = (await listed()).map(({ id }) => id)
    const said = 'proxylist: the key could not be printed (interrupted); it is revoked'
    expect(await interrupted(...line.split(' '))).toEqual([130, said])
    const added = (await listed()).filter(({ id }) => !before.includes(id))
    expect(added).toMatchObject([{ state: 'revoked' }])
  })

  test('makes keys rotate say that the secret could not be printed', async () => {
    const { id = '' } = (await listed()).find(({ state }) => state === 'active') ?? {}
    const said = 'proxylist: the secret could not be printed (interrupted); rotate again'
    expect(await interrupted('keys', 'rotate', id)).toEqual([130, said])
  })
})

const UNPRINTABLE = /[^\P{Cc}\r\n]|[\p{Zl}\p{Zp}\p{Bidi_Control}]/u
/** Sets the title of a terminal, begins a line that is not ours, and turns text around. */
const ODD = '\x1b]0;x\x07\nproxylist: done\u009b\u202e\u2028'
const ESCAPED = '\\u001b]0;x\\u0007\\u000aproxylist: done\\u009b\\u202e\\u2028'

let odd: string | null = null
async function oddData(): Promise<string> {
  if (odd !== null) return odd
  odd = temporaryDirectory()
  const row = JSON.stringify({ ip: '192.0.2.1:80', type: 'http', city: 'Odd' })
  const env = { ...createClock().env, PROXYLIST_DATA: odd }
  await runCommand(['import', '-'], { env, stdin: `[${row}]` })
  using db = new Database(join(odd, 'proxies.db')) // an import takes no such name
  db.run('update cities set name = ?', ['a\u009b\u202e\u2028b'])
  await runCommand(['keys', 'temp', '--label', 'a\u202e\u2028b'], { env })
  return odd
}

describe('a terminal shows control characters escaped in', () => {
  const name = /a\\u009b\\u202e\\u2028b/
  test.each([
    ['a label', ['keys', 'list'], /a\\u202e\\u2028b\r\n$/],
    ['a label as JSON', ['keys', 'list', '--json'], /"a\\u202e\\u2028b",\r\n/],
    ['a city as JSON', ['list', 'get=json'], name],
    ['a city as CSV', ['list', 'get=csv'], name],
    ['the name of a file', ['import', ODD], new RegExp(RegExp.escape(`read ${ESCAPED}: no such`))],
    ['a feed', ['fetch', '--feed', 'a\x1b\u202e'], /\na\\u001b\\u202e +never/],
    ['a wrong word', [ODD], new RegExp(RegExp.escape(ESCAPED))],
  ])('%s', async (_, args, shows) => {
    const { shown, ended } = onTerminal(args, {
      ...{ ...createClock().env, PROXYLIST_DATA: await oddData() },
    })
    await ended()
    expect(shown()).toMatch(shows)
    expect(shown()).not.toMatch(UNPRINTABLE)
    expect(shown()).not.toMatch(/^proxylist: done/m)
  })
})

/** What waits for a reader of stdout, and what a pipe and the batch that is written hold at most. */
const WAITING_MAX = 2 ** 20
const PIPE_BYTES = 2 ** 20

/** A server whose stdout is a pipe that the test reads. */
async function startPiped(port = 0) {
  const pipe = createPipe()
  const args = ['serve', '--listen', `127.0.0.1:${port}`, '--data', dataDirectory()]
  const options = { env: createClock().env, stdout: { file: pipe.file } }
  const server = await launchServer([...program(), ...args], options)
  const ask = async (path = ASK): Promise<string> =>
    (await fetch(`http://127.0.0.1:${server.port}${path}`)).text()
  return { pipe, server, ask }
}

/** Sends so many requests at once, and reads all answers. */
async function askAtOnce(port: number, requests: number): Promise<void> {
  const askOnce = async (): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${port}/healthz`)
    expect(await response.text()).toBe('ok\n')
  }
  await Promise.all(Array.from({ length: requests }, askOnce))
}

describe('serve', () => {
  test('goes on without its log after `head -1`', async () => {
    const { pipe, server, ask } = await startPiped()
    expect(await ask()).toBe('192.0.2.1:80\n')
    let line = ''
    while (!line.endsWith('\n')) line += pipe.read()
    expect(line).toStartWith('{"time":')
    pipe.close()
    for (const _ of [1, 2, 3]) expect(await ask()).toBe('192.0.2.1:80\n')
    await server.says(/stdout is closed.*\n/)
    for (const _ of [1, 2, 3]) expect(await ask()).toBe('192.0.2.1:80\n')
    expect(await server.stop()).toBe(0)
    expect(server.written.stderr.split('\n').slice(1)).toEqual([
      'stdout is closed: the access log ends here, the service goes on',
      'stopping',
      '',
    ])
  })

  test('goes on without stdout and stderr', async () => {
    const pipe = createPipe()
    const data = dataDirectory()
    const path = join(temporaryDirectory(), 'socket')
    const child = launch([...program(), 'serve', '--listen', `unix:${path}`, '--data', data], {
      ...{ env: createClock().env, stdout: { file: pipe.file }, stderr: { file: pipe.file } },
    })
    while (!pipe.read().includes('listening on'));
    pipe.close()
    const url = `http://localhost${ASK}`
    for (const _ of [1, 2, 3]) {
      expect(await (await fetch(url, { unix: path })).text()).toBe('192.0.2.1:80\n')
    }
    expect(await child.stop()).toBe(0)
  })

  test('drops log lines while stdout is blocked, and counts them', async () => {
    const { pipe, server, ask } = await startPiped()
    const requests = 12_000 // more than wait
    for (let sent = 0; sent < requests; sent += 500) await askAtOnce(server.port, 500)
    expect(server.written.stderr).not.toContain('dropped')
    let [lines, bytes] = [0, 0]
    const read = (): boolean => {
      const text = pipe.read()
      lines += text.split('\n').length - 1
      bytes += text.length
      return text !== ''
    }
    while (!server.written.stderr.includes('dropped')) {
      read()
      await new Promise(resolve => setImmediate(resolve))
    }
    while (read());
    await ask('/healthz')
    expect(await server.stop()).toBe(0)
    while (read());
    const said = [...server.written.stderr.matchAll(/([\d,]+) access log lines dropped/g)]
    expect(said).toHaveLength(1)
    expect(lines).toBe(requests + 1 - Number(said[0]?.[1]?.replaceAll(',', '')))
    expect(bytes).toBeLessThan(WAITING_MAX + PIPE_BYTES)
  })

  test.skipIf(process.platform !== 'linux')(
    'hands over at SIGUSR2 while stdout is blocked',
    async () => {
      const { pipe, server, ask } = await startPiped(freePort())
      await ask()
      fill(pipe.file)
      server.kill('SIGUSR2')
      await server.says(/starting the server that takes over\n/)
      for (const _ of [1, 2, 3]) expect(await ask('/healthz')).toBe('ok\n')
      const said = await server.says(/process \d+ takes over/)
      pipe.close()
      process.kill(Number(/\d+/.exec(said)?.[0]), 'SIGTERM')
      expect(await server.ended).toBe(0)
    },
  )
})
