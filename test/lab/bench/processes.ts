/**
 * Owns the processes a run starts: servers, helper scripts and commands, and that none of them
 * outlives the run. Everything listens on 127.0.0.1.
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'

/** How long a process may take to end before it is killed. */
const STOP_MS = 3_000
/** How long a server may take until it listens; the Fastify one loads its list first. */
const LISTEN_MS = 180_000

const running = new Set<Subprocess>()
let isOver = false

/** The environment of every child: none of the caller's settings. */
export const childEnvironment = (): { [name: string]: string } => ({
  PATH: process.env.PATH ?? '',
  HOME: process.env.HOME ?? '',
  TMPDIR: tmpdir(),
  NODE_ENV: 'production',
})

/** Remembers a child until it ends, so that `stopAll` finds it. */
export function keepTrack<Child extends Subprocess>(child: Child): Child {
  running.add(child)
  if (isOver) child.kill('SIGKILL')
  void child.exited.then(() => running.delete(child))
  return child
}

/** Ends a child: asked first, killed after a while. */
export async function stop(child: Subprocess): Promise<void> {
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await child.exited
  clearTimeout(timer)
}

export async function stopAll(): Promise<void> {
  await Promise.all([...running].map(stop))
}

/** Stops everything, and whatever is still started after this. */
export async function stopForGood(): Promise<void> {
  isOver = true
  await stopAll()
}

export type Server = { name: string; port: number; pid: number; stop: () => Promise<void> }

/**
 * Starts a server that says `listening on http://127.0.0.1:PORT` on stderr; its stdout, where
 * access logs go, is /dev/null.
 * @throws Error with what it said when it ends, or is silent for too long.
 */
export async function startServer(name: string, command: string[], cwd?: string): Promise<Server> {
  const child = keepTrack(
    Bun.spawn(command, {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: Bun.file('/dev/null'),
      stderr: 'pipe',
      ...(cwd !== undefined && { cwd }),
    }),
  )
  let said = ''
  const { promise: port, resolve, reject } = Promise.withResolvers<number>()
  const listen = async (): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of child.stderr) {
      said = (said + decoder.decode(chunk, { stream: true })).slice(-4096)
      const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]
      if (found) resolve(Number(found))
    }
    reject(new Error(`${name} ended: ${said}`))
  }
  const silence = setTimeout(() => reject(new Error(`${name} does not listen: ${said}`)), LISTEN_MS)
  void listen()
  try {
    return { name, port: await port, pid: child.pid, stop: () => stop(child) }
  } finally {
    clearTimeout(silence)
  }
}

export type Script<Result> = { result: Promise<Result>; stop: () => Promise<void> }

/**
 * Starts a script of this folder under the same Bun, hands it `input` as JSON in its first
 * argument, and gives what it writes to stdout, read as JSON. Killed after `deadlineSeconds`.
 */
export function startScript<Result>(
  name: string,
  input: unknown,
  deadlineSeconds: number,
): Script<Result> {
  const child = keepTrack(
    Bun.spawn([process.execPath, join(import.meta.dir, name), JSON.stringify(input)], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
      timeout: deadlineSeconds * 1000,
    }),
  )
  const read = async (): Promise<Result> => {
    const text = await new Response(child.stdout).text()
    if ((await child.exited) !== 0) throw new Error(`${name} failed or took too long`)
    return JSON.parse(text) as Result // each script exports the type of what it writes
  }
  const result = read()
  result.catch(() => {}) // it may fail before anybody waits for it; then waiting throws
  return { result, stop: () => stop(child) }
}

/** The other side of `startScript`: works on the input and writes the result. */
export async function runAsScript<Input, Result>(
  work: (input: Input) => Promise<Result> | Result,
): Promise<never> {
  const result = await work(JSON.parse(process.argv[2] ?? 'null') as Input) // from startScript
  await Bun.write(Bun.stdout, JSON.stringify(result))
  process.exit(0)
}

/** A port of 127.0.0.1 that nobody uses at the moment. */
export function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}
