/** The service as tests ask it: in process or as a child process, behind one interface. */
import { type Answer, answerOf } from './answer.ts'
import { T0 } from './fixtures.ts'
import { startInProcess } from './in-process.ts'
import { type LaunchOptions, launchServer } from './launch.ts'
import { HAS_POSTGRES } from './postgres.ts'
import { createClock, IS_IN_PROCESS, program, proxylist } from './program.ts'

/** A running service. */
export type Service = {
  request(path: string, init?: RequestInit): Promise<Answer>
  /** Sets the clock of the service, in seconds after T0. */
  setClock(seconds: number): void
  /** Everything it wrote to stdout and stderr. */
  output(): string
  stop(): Promise<void>
}

/** Where a service in process has its keys, usage and list; the binary has tests of its own for nodes. */
export type Engine = 'sqlite' | 'postgresql'
export const ENGINES: readonly Engine[] =
  IS_IN_PROCESS && HAS_POSTGRES ? ['sqlite', 'postgresql'] : ['sqlite']

export type ServeOptions = {
  /** By default `sqlite`: the data directory itself. */
  engine?: Engine
  errors?: 'json' | 'text'
  providerService?: string
  cors?: string
  page?: 'on' | 'off'
  publicStats?: 'full' | 'totals' | 'off'
  siteName?: string
  contact?: string
  keyUrl?: string
  /** Called with each repeated sentence of a service in process. */
  onRepeated?: (sentence: string, topic?: string) => void
}

/** Both kinds of service believe X-Forwarded-For, so that tests can choose a client address. */
export const startService = (dir: string, options: ServeOptions = {}): Promise<Service> =>
  IS_IN_PROCESS ? startInProcess(dir, options) : startChild(dir, options)

/** Both kinds of service, for single scenarios in files that `make test` runs only once. */
export const SERVICES = [
  ['in process', startInProcess],
  ['as a child', startChild],
] as const

/** Starts `proxylist serve` as a child process on a free port of 127.0.0.1. */
export async function startChild(
  dir: string,
  options: ServeOptions = {},
  more: readonly string[] = [],
) {
  const { errors = 'json', providerService = 'the service', cors } = options
  const { page = 'on', publicStats = 'full', siteName, contact, keyUrl } = options
  const { env, setClock } = createClock()
  const { port, pid, exited, ended, kill, written } = await launchServer(
    [
      ...[...program(), 'serve'],
      ...['--data', dir, '--listen', '127.0.0.1:0', '--trust-proxy', '127.0.0.1'],
      ...['--errors', errors, '--provider-service', providerService, ...more],
      ...(cors === undefined ? [] : ['--cors', cors]),
      ...['--page', page, '--public-stats', publicStats],
      ...(siteName === undefined ? [] : ['--site-name', siteName]),
      ...(contact === undefined ? [] : ['--contact', contact]),
      ...(keyUrl === undefined ? [] : ['--key-url', keyUrl]),
    ],
    { env },
  )
  const url = `http://127.0.0.1:${port}`
  const service: Service = {
    request: async (path, init) =>
      answerOf(await fetch(`${url}${path}`, { decompress: false, ...init })),
    setClock: seconds => setClock(T0 + seconds * 1000),
    output: () => written.stdout + written.stderr,
    stop: async () => {
      kill('SIGTERM')
      await ended
    },
  }
  return { ...service, url, pid, exited, kill }
}

/** Starts `serve` with an admin listener, and makes a token with `proxylist console`. */
export async function startConsole(
  dir: string,
  more: readonly string[] = [],
  env: LaunchOptions['env'] = {},
) {
  const child = await launchServer(
    [
      ...[...program(), 'serve', '--data', dir],
      ...['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', ...more],
    ],
    { env },
  )
  const line = await child.says(/admin listening on \S+\n/)
  const admin = line.trim().replace('admin listening on ', '')
  /** A new token; the former one ends. Returns the URL that opens the console. */
  const signIn = async (): Promise<string> => {
    const listen = ['--admin-listen', admin.replace('http://', '')]
    return (await proxylist(['console', '--data', dir, ...listen])).stdout.trim()
  }
  const api = `http://127.0.0.1:${child.port}/api`
  return { ...child, admin, api, signIn, url: await signIn() }
}
