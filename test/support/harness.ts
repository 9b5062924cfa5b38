/**
 * Shared by all tests: data directories, the service in process or as the compiled binary behind
 * one interface, a clock moved by hand, and the command line as a child process.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGuard, type Guard } from '../../src/access/auth-throttle.ts'
import { createAnswers } from '../../src/api/response-cache.ts'
import { type List, openList, openRegistry, type Registry } from '../../src/app.ts'
import { readRanges } from '../../src/config/parsers.ts'
import { createService } from '../../src/http/app.ts'
import { createClientAddress } from '../../src/http/client-ip.ts'
import { readRow } from '../../src/import/row.ts'
import type { AccessEntry } from '../../src/lib/log.ts'
import type { Filter } from '../../src/proxies/proxy.ts'

/** The instant at which every test begins: 2026-11-20 12:00:00 UTC, in milliseconds. */
export const T0 = Date.UTC(2026, 10, 20, 12)

/** The compiled binary under test, or `undefined`: then everything runs from source. */
export const BINARY = process.env.PROXYLIST_BINARY
export const ROOT = join(import.meta.dir, '../..')

/** What a query without parameters asks for. */
export const NO_FILTER: Filter = {
  types: [],
  anons: [],
  pingMaxMs: null,
  speedMin: null,
  ageMaxSeconds: 600,
  worksMin: null,
  countries: [],
  countryMode: 'include',
  cities: [],
  lang: 'ru',
  port: null,
  address: null,
  services: [],
  count: null,
}

const cleanups: (() => void | Promise<void>)[] = []
/** Undoes everything the harness made; call it in `afterAll`. */
export async function cleanUp(): Promise<void> {
  for (const undo of cleanups.splice(0).reverse()) await undo()
}

/** A fresh directory, removed by `cleanUp`. */
export function temporaryDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), 'proxylist-test-'))
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** A list row as a file would hold it; `age` is in seconds before T0. */
export type TestRow = { [member: string]: unknown; age?: number }

export function fillList(list: List, rows: readonly TestRow[]): void {
  const target = list.beginImport(false)
  for (const { age = 0, ...row } of rows) {
    const checkedAt = T0 / 1000 - age
    const defaults = { type: undefined, nowMs: T0, provider: 'the service' }
    const result = readRow({ checked_at: checkedAt, ...row }, defaults)
    if (!result.ok) throw new Error(`${JSON.stringify(row)}: ${result.field} ${result.reason}`)
    target.add(result.proxy)
  }
  target.commit()
}

export type Answer = { status: number; headers: Headers; text: string; bytes: Uint8Array }

/** A running service. */
export type Service = {
  request(path: string, init?: RequestInit): Promise<Answer>
  /** Sets the clock of the service, in seconds after T0. */
  setClock(seconds: number): void
  /** Everything it wrote to stdout and stderr. */
  output(): string
  stop(): Promise<void>
}

export type ServeOptions = {
  errors?: 'json' | 'text'
  providerService?: string
  /** Of a service in process; otherwise wrong keys are refused at once there. */
  guard?: Guard
}

function guardAtRest(): Guard {
  const guard = createGuard()
  guard.release()
  return guard
}

const answerOf = async (response: Response): Promise<Answer> => {
  const bytes = await response.bytes()
  const text = new TextDecoder().decode(bytes)
  return { status: response.status, headers: response.headers, text, bytes }
}

/** Both kinds of service believe X-Forwarded-For, so that tests can choose a client address. */
export const startService = (dir: string, options: ServeOptions = {}): Promise<Service> =>
  BINARY === undefined ? startInProcess(dir, options) : startChild(dir, options)

async function startInProcess(dir: string, options: ServeOptions): Promise<Service> {
  let nowMs = T0
  const lines: string[] = []
  const registry: Registry = openRegistry(dir, true)
  const list: List = openList(dir, true)
  const provider = options.providerService ?? 'the service'
  const clientAddress = createClientAddress(readRanges('127.0.0.1'))
  const app = createService({
    access: registry.access,
    answers: createAnswers({
      select: list.proxies.select,
      listVersion: list.proxies.version,
      provider,
      bytesMax: 2 ** 20,
    }),
    provider,
    clock: () => nowMs,
    log: {
      access: (entry: AccessEntry) => void lines.push(JSON.stringify(entry)),
      say: sentence => void lines.push(sentence),
      close: async () => {},
    },
    errors: options.errors ?? 'json',
    clientAddress: (_, forwardedFor) => clientAddress('127.0.0.1', forwardedFor),
    guard: options.guard ?? guardAtRest(),
    probe: registry.usage.probe,
  })
  let isOpen = true
  const stop = async (): Promise<void> => {
    if (!isOpen) return
    isOpen = false
    list.close()
    registry.close()
  }
  cleanups.push(stop)
  return {
    request: async (path, init) =>
      answerOf(await app.handle(new Request(`http://127.0.0.1${path}`, init))),
    setClock: seconds => {
      nowMs = T0 + seconds * 1000
    },
    output: () => lines.join('\n'),
    stop,
  }
}

/** Starts `proxylist serve` as a child process on a free port of 127.0.0.1. */
export async function startChild(
  dir: string,
  { errors = 'json', providerService = 'the service' }: ServeOptions = {},
  more: readonly string[] = [],
): Promise<
  Service & {
    url: string
    pid: number
    exited: Promise<number>
    kill(signal: NodeJS.Signals): void
  }
> {
  const clockFile = join(temporaryDirectory(), 'clock')
  writeFileSync(clockFile, String(T0))
  const child = Bun.spawn(
    [
      ...program(),
      'serve',
      ...['--data', dir, '--listen', '127.0.0.1:0', '--trust-proxy', '127.0.0.1'],
      ...['--errors', errors, '--provider-service', providerService, ...more],
    ],
    { env: childEnvironment({ PROXYLIST_TEST_CLOCK: clockFile }), stdout: 'pipe', stderr: 'pipe' },
  )
  cleanups.push(() => child.kill('SIGKILL'))
  let output = ''
  const { promise: listening, resolve, reject } = Promise.withResolvers<string>()
  const drain = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) {
      output += decoder.decode(chunk, { stream: true })
      const url = /listening on (http:\S+)/.exec(output)?.[1]
      if (url) resolve(url)
    }
  }
  const drained = Promise.all([drain(child.stdout), drain(child.stderr)])
  void child.exited.then(code => reject(new Error(`serve exited with ${code}: ${output}`)))
  const url = await listening
  return {
    url,
    pid: child.pid,
    exited: child.exited,
    kill: signal => child.kill(signal),
    request: async (path, init) =>
      answerOf(await fetch(`${url}${path}`, { decompress: false, ...init })),
    setClock: seconds => writeFileSync(clockFile, String(T0 + seconds * 1000)),
    output: () => output,
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      await drained
    },
  }
}

/** The program under test: the binary, or the source under the Bun that runs the tests. */
export const program = (): string[] =>
  BINARY === undefined ? [process.execPath, join(ROOT, 'src/main.ts')] : [BINARY]

const childEnvironment = (more: { [name: string]: string }) => ({
  PATH: process.env.PATH ?? '',
  HOME: process.env.HOME ?? '',
  TMPDIR: tmpdir(),
  ...more,
})

export type Outcome = { exitCode: number; stdout: string; stderr: string }
export type RunOptions = {
  stdin?: string | Uint8Array
  env?: { [name: string]: string }
  cwd?: string
}

/** Runs the program to its end, with a clock that stands at T0. */
export async function proxylist(
  args: readonly string[],
  options: RunOptions = {},
): Promise<Outcome> {
  const { stdin, env = {}, cwd = ROOT } = options
  const clockFile = join(temporaryDirectory(), 'clock')
  writeFileSync(clockFile, String(T0))
  const child = Bun.spawn([...program(), ...args], {
    env: childEnvironment({ PROXYLIST_TEST_CLOCK: clockFile, ...env }),
    cwd,
    stdin: stdin === undefined ? 'ignore' : Buffer.from(stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { exitCode, stdout, stderr }
}

/** A golden file's text; with GOLDEN=write it is written anew from `actual` and reviewed in git. */
export function golden(name: string, actual: string): string {
  const file = join(ROOT, 'test/fixtures/golden', name)
  if (process.env.GOLDEN === 'write') writeFileSync(file, actual)
  return readFileSync(file, 'utf8')
}
