/**
 * The child processes of tests and long runs: their environment, input and output, waiting
 * until they listen or end, and that none of them outlives the run. Knows nothing of the program.
 */
import { tmpdir } from 'node:os'
import { onCleanUp } from './temporary.ts'

/** `collect`: into `written`; `pipe`: the caller reads `child.stdout`; else as Bun takes it. */
type Sink = 'collect' | 'pipe' | 'ignore' | 'inherit' | { file: string }

export type LaunchOptions = {
  /** Added to PATH, HOME and TMPDIR; a child inherits no other variables. */
  env?: { readonly [name: string]: string | undefined }
  cwd?: string
  /** By default empty. */
  stdin?: 'pipe' | Uint8Array
  /** By default `collect`, as for `stderr`. */
  stdout?: Sink
  stderr?: Exclude<Sink, 'pipe'>
  /** The child is killed after this. */
  deadlineSeconds?: number
}

export type Child = ReturnType<typeof launch>

/** How long `stop` waits before it kills. */
const STOP_MS = 60_000
/** How long a server may take until it listens; the Fastify one loads its list first. */
const LISTEN_MS = 180_000

const stdioOf = (sink: Sink) => {
  if (typeof sink === 'object') return Bun.file(sink.file)
  return sink === 'collect' ? 'pipe' : sink
}

function spawn(command: readonly string[], options: LaunchOptions) {
  const { env, cwd, stdin = 'ignore', stdout = 'collect', stderr = 'collect' } = options
  const { deadlineSeconds } = options
  const { PATH = '', HOME = '' } = process.env
  return Bun.spawn([...command], {
    env: { PATH, HOME, TMPDIR: tmpdir(), ...env },
    stdin,
    stdout: stdioOf(stdout),
    stderr: stdioOf(stderr),
    ...(cwd !== undefined && { cwd }),
    ...(deadlineSeconds !== undefined && {
      timeout: deadlineSeconds * 1000,
      killSignal: 'SIGKILL',
    }),
  })
}

/** Collects output streams as they grow. */
function createCollector() {
  const written = { stdout: '', stderr: '' }
  const listeners = new Set<() => void>()
  return {
    written,
    async collect(name: keyof typeof written, stream: unknown): Promise<void> {
      if (!(stream instanceof ReadableStream)) return
      const decoder = new TextDecoder()
      for await (const chunk of stream) {
        written[name] += decoder.decode(chunk, { stream: true })
        for (const listener of listeners) listener()
      }
    },
    /** Resolves to the first match of `pattern` on stderr. */
    found(pattern: RegExp): Promise<string> {
      const { promise, resolve } = Promise.withResolvers<string>()
      const listener = (): void => {
        const found = pattern.exec(written.stderr)?.[0]
        if (found === undefined) return
        listeners.delete(listener)
        resolve(found)
      }
      listeners.add(listener)
      listener()
      return promise
    },
  }
}

const running = new Set<() => Promise<void>>()

/** Ends all children. */
export async function endAll(): Promise<void> {
  await Promise.all([...running].map(end => end()))
}

/** Starts a command. */
export function launch(command: readonly string[], options: LaunchOptions = {}) {
  const child = spawn(command, options)
  const { written, collect, found } = createCollector()
  const piped = options.stdout === 'pipe' ? child.stdout : null
  const collected = [
    collect('stdout', piped === null ? child.stdout : null),
    collect('stderr', child.stderr),
  ]
  const ended = Promise.all(collected).then(() => child.exited)
  const kill = (signal: NodeJS.Signals): void => child.kill(signal)
  async function end(): Promise<void> {
    kill('SIGKILL')
    await ended
  }
  const forget = onCleanUp(end)
  running.add(end)
  void ended.then(() => {
    forget()
    running.delete(end)
  })

  return {
    pid: child.pid,
    stdin: typeof child.stdin === 'object' ? child.stdin : null,
    stdout: piped instanceof ReadableStream ? piped : null,
    written,
    kill,
    /** Resolves to the exit status. */
    exited: child.exited,
    /** Resolves to the exit status once all output is collected. */
    ended,
    isRunning: (): boolean => child.exitCode === null && child.signalCode === null,
    signalCode: () => child.signalCode,
    resourceUsage: () => child.resourceUsage(),
    /** Resolves to the first match of `pattern` on stderr. @throws Error when it ends without one. */
    async says(pattern: RegExp): Promise<string> {
      const endedWithout = ended.then(code => {
        throw new Error(`ended with ${code}: ${written.stderr}`)
      })
      return Promise.race([found(pattern), endedWithout])
    },
    /** Ends the child with SIGTERM, later SIGKILL; resolves to its exit status as `ended` does. */
    async stop(): Promise<number> {
      kill('SIGTERM')
      const timer = setTimeout(kill, STOP_MS, 'SIGKILL')
      const exitCode = await ended
      clearTimeout(timer)
      return exitCode
    },
    [Symbol.asyncDispose]: end,
  }
}

/** Where a server listens. */
export type Where = { kind: 'tcp'; hostname: string; port: number } | { kind: 'unix'; path: string }

/** A child that listens; `port` is 0 on a unix socket. */
export type Server = Child & { where: Where; port: number }

/**
 * Starts a server and waits for `listening on http://ADDRESS:PORT` or `listening on unix:PATH` on
 * stderr.
 * @throws Error with its stderr when it ends before, or does not listen for LISTEN_MS.
 */
export async function launchServer(
  command: readonly string[],
  options: Omit<LaunchOptions, 'stderr'> = {},
): Promise<Server> {
  const child = launch(command, options)
  const timer = setTimeout(() => child.kill('SIGKILL'), LISTEN_MS)
  const line = await child.says(/listening on \S+\n/).finally(() => clearTimeout(timer))
  const path = /unix:(\S+)/.exec(line)?.[1]
  if (path !== undefined) return { ...child, where: { kind: 'unix', path }, port: 0 }
  const url = new URL(line.trim().replace('listening on ', ''))
  const port = Number(url.port)
  return { ...child, where: { kind: 'tcp', hostname: url.hostname, port }, port }
}

export type Outcome = { exitCode: number; stdout: string; stderr: string }

/** Runs a command to its end. */
export async function run(
  command: readonly string[],
  options: LaunchOptions = {},
): Promise<Outcome> {
  const { ended, written } = launch(command, options)
  return { exitCode: await ended, ...written }
}

/** Runs a command that must succeed; gives its stdout. @throws Error with its stderr. */
export async function succeed(
  command: readonly string[],
  options: LaunchOptions = {},
): Promise<string> {
  const { exitCode, stdout, stderr } = await run(command, options)
  if (exitCode === 0) return stdout
  throw new Error(`${command.slice(0, 2).join(' ')} exited with ${exitCode}: ${stderr}`)
}

/**
 * A port of 127.0.0.1 that nothing uses at the moment: not one of those that connections, and servers of
 * other tests, are given by the system before it is used.
 */
export function freePort(): number {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000)
    try {
      Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } }).stop(true)
      return port
    } catch {
      // It is in use.
    }
  }
}
