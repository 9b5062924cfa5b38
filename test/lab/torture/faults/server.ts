/**
 * Owns a server under light load while something is done to its files: every answer it gives is
 * compared with the one it gave when all was well.
 */
import { join } from 'node:path'
import { openList, openRegistry } from '../../../../src/app.ts'
import { readRow } from '../../../../src/import/row.ts'
import { isRecord, parseJson } from '../../../../src/import/sink.ts'
import { childEnvironment, keepTrack, stop } from '../../bench/processes.ts'
import { writeRows } from '../../bench/rows.ts'

export const KEY = `pl_${'F'.repeat(32)}`
/** A request that takes longer is given up, in milliseconds. */
const PATIENCE_MS = 20_000
/** Between two requests of a client, in milliseconds. */
const PAUSE_MS = 15
const WAIT_MS = 15_000

/** What is asked: indexes, rows, names, a long answer. None depends on the time of day. */
export const QUERIES = [
  'get=json&count=40',
  'country=de,us&count=30',
  'country=fr&get=json&ping=900',
  'port=8080&count=50&get=json',
  `city=${encodeURIComponent('Город DE 3')},City%20US%201&get=json`,
  'type=socks5&works=80&get=json&count=25&lang=en',
  'cm=except&country=us,cn&anon=elite&count=60',
  'get=json&fields=ip,ip_out,city',
].map(query => `${query}&time=999999999`)

/** Fills `dir` with a list of `rows` and a key without limits; gives the file it came from. */
export async function makeData(dir: string, rows: number): Promise<string> {
  const source = `${dir}.ndjson`
  await writeRows(source, rows, Date.now())
  const list = openList(dir)
  const target = list.beginImport(false)
  const defaults = { type: undefined, nowMs: Date.now(), provider: 'the service' }
  for (const line of (await Bun.file(source).text()).split('\n')) {
    const row = parseJson(line)
    if (!isRecord(row)) continue
    const result = readRow(row, defaults)
    if (result.ok) target.add(result.proxy)
  }
  target.commit()
  list.close()
  const registry = openRegistry(dir)
  const none = { burst: null, daily: null, subnets: null, clients: null, count: null }
  registry.plans.set({ name: 'free', ...none })
  registry.keys.add({ key: KEY, label: '', plan: 'free', expiresAt: null }, Date.now())
  registry.close()
  return source
}

const BROKEN_OFF = '(broken off)'

export type Seen = { status: number; body: string; retryAfter: string | null; ms: number }
export type Watched = Awaited<ReturnType<typeof startWatched>>

/** Starts a server whose stderr is kept; `prefix` runs it through another program. */
export async function startWatched(binary: string, dir: string, prefix: readonly string[] = []) {
  const command = [...prefix, binary, 'serve', '--data', dir, '--listen', '127.0.0.1:0']
  const child = keepTrack(
    Bun.spawn([...command, '--log', 'off', '--grace', '1s'], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    }),
  )
  let said = ''
  const { promise: listening, resolve } = Promise.withResolvers<string | null>()
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of child.stderr) {
      said += decoder.decode(chunk, { stream: true })
      const url = /listening on (http:\S+)/.exec(said)?.[1]
      if (url) resolve(url)
    }
    resolve(null)
  }
  void read()
  const url = await listening

  async function get(path: string): Promise<Seen> {
    const startMs = performance.now()
    const taken = () => performance.now() - startMs
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const response = await fetch(`${url}${path}`, { signal })
      // A long answer that cannot be ended is broken off: its status is sent already.
      const body = await response.text().catch(() => BROKEN_OFF)
      const retryAfter = response.headers.get('retry-after')
      return { status: response.status, body, retryAfter, ms: taken() }
    } catch (error) {
      return { status: 0, body: String(error), retryAfter: null, ms: taken() }
    }
  }
  return {
    /** Whether it came to listen at all. */
    isListening: url !== null,
    port: Number(url?.split(':').at(-1)),
    pid: child.pid,
    said: () => said,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    get,
    ask: (query: string) => get(`/api?key=${KEY}&${query}`),
    stop: () => stop(child),
  }
}

/** The right answers, from a server that is well. */
export async function answersOf(server: Watched): Promise<Map<string, string>> {
  const right = new Map<string, string>()
  for (const query of QUERIES) {
    const { status, body } = await server.ask(query)
    if (status !== 200) throw new Error(`${query}: ${status} ${body}`)
    right.set(query, body)
  }
  return right
}

/** Whether an answer is one that may be given: the right one, or that there is none now. */
export const isAllowed = ({ status, body, retryAfter }: Seen, right: string | undefined) =>
  (status === 200 && (body === right || body === BROKEN_OFF)) ||
  (status === 503 && retryAfter === '1' && body.includes('"DB_EXECUTE_FAILED"'))

/** Clients that go on asking until they are told to end; gives what they saw. */
export function startLoad(server: Watched, right: ReadonlyMap<string, string>, clients = 3) {
  const seen = { answers: 0, refused: 0, wrong: [] as string[], slowestMs: 0 }
  let isOver = false
  async function client(first: number): Promise<void> {
    for (let n = first; !isOver; n += 1) {
      const query = QUERIES[n % QUERIES.length] ?? ''
      const answer = await server.ask(query)
      seen.answers += 1
      if (answer.status === 503) seen.refused += 1
      seen.slowestMs = Math.max(seen.slowestMs, answer.ms)
      if (!isAllowed(answer, right.get(query))) {
        seen.wrong.push(`${query}: ${answer.status} ${answer.body.slice(0, 80)}`)
      }
      await Bun.sleep(PAUSE_MS)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, (_, n) => client(n * 3)))
  return {
    seen,
    async end() {
      isOver = true
      await all
      return seen
    },
  }
}

/** Milliseconds until every query has its right answer again and /readyz is 200, or null. */
export async function untilRight(server: Watched, right: ReadonlyMap<string, string>) {
  const startMs = performance.now()
  while (performance.now() - startMs < WAIT_MS) {
    const answers = await Promise.all(QUERIES.map(server.ask))
    const ready = await server.get('/readyz')
    const isRight = answers.every(({ body }, i) => body === right.get(QUERIES[i] ?? ''))
    if (isRight && ready.status === 200) return performance.now() - startMs
    await Bun.sleep(20)
  }
  return null
}

/** Runs a command of the program on `dir`; throws with its stderr when it fails. */
export async function runCommand(binary: string, dir: string, args: readonly string[]) {
  const child = Bun.spawn([binary, ...args, '--data', dir], {
    env: childEnvironment(),
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const stderr = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) throw new Error(`${args.join(' ')}: ${stderr}`)
}

export const files = (dir: string) => ({
  list: join(dir, 'proxies.db'),
  access: join(dir, 'access.db'),
})
