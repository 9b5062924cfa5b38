/** Owns starting `serve` with whatever a part needs of it: a unix socket, a clock, a log. */
import { childEnvironment, keepTrack, stop } from '../bench/processes.ts'

export type Serving = { at: Where; pid: number; stop: () => Promise<void> }
/** Where a server listens, as `Bun.connect` takes it. */
export type Where = { hostname: string; port: number } | { unix: string }

export type ServeOptions = {
  data: string
  /** As `--listen` takes it; by default a free port of 127.0.0.1. */
  listen?: string
  /** Options beside `--data` and `--listen`. */
  more?: readonly string[]
  /** A file of Unix milliseconds that is the server's clock. */
  clock?: string
  /** Where its access log goes; otherwise nowhere. */
  log?: string
}

const readWhere = (said: string): Where | null => {
  const tcp = /listening on http:\/\/([\d.]+):(\d+)/.exec(said)
  if (tcp) return { hostname: tcp[1] ?? '', port: Number(tcp[2]) }
  const unix = /listening on unix:(\S+)/.exec(said)?.[1]
  return unix === undefined ? null : { unix }
}

/** Starts a server and waits until it listens. @throws Error with what it said when it ends. */
export async function startServing(binary: string, options: ServeOptions): Promise<Serving> {
  const { data, listen = '127.0.0.1:0', more = [], clock, log = '/dev/null' } = options
  const child = keepTrack(
    Bun.spawn([binary, 'serve', '--data', data, '--listen', listen, ...more], {
      env: { ...childEnvironment(), ...(clock !== undefined && { PROXYLIST_TEST_CLOCK: clock }) },
      stdin: 'ignore',
      stdout: Bun.file(log),
      stderr: 'pipe',
    }),
  )
  const { promise, resolve, reject } = Promise.withResolvers<Where>()
  const follow = async (): Promise<void> => {
    const decoder = new TextDecoder()
    let said = ''
    for await (const chunk of child.stderr) {
      said = (said + decoder.decode(chunk, { stream: true })).slice(-4096)
      const where = readWhere(said)
      if (where) resolve(where)
    }
    reject(new Error(`serve ended: ${said}`))
  }
  void follow()
  return { at: await promise, pid: child.pid, stop: () => stop(child) }
}

/** What came back: the head's first line and fields, and the body, as latin1. */
export type RawAnswer = { status: number; text: string; ms: number }

const ANSWER_MS_MAX = 10_000

/**
 * Sends the bytes of one request over a connection of its own and reads until the server closes
 * it. `from` is the address of 127.0.0.0/8 to send from.
 */
export function exchange(at: Where, request: string, from?: string): Promise<RawAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  const startMs = performance.now()
  let text = ''
  const end = (): void => {
    clearTimeout(silence)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
    resolve({ status, text, ms: performance.now() - startMs })
  }
  const silence = setTimeout(() => reject(new Error('no answer in 10 s')), ANSWER_MS_MAX)
  const socket = {
    open: (opened: { write(data: string): unknown }) => void opened.write(request),
    data: (_: unknown, chunk: Buffer) => {
      text += chunk.toString('latin1')
    },
    close: end,
    error: end,
  }
  const source = from !== undefined && { localAddress: from } // Bun knows it, its types do not
  const opened =
    'unix' in at ? Bun.connect({ ...at, socket }) : Bun.connect({ ...at, ...source, socket })
  opened.catch(reject)
  return promise
}
