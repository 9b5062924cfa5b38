/**
 * A server under light load while its files suffer a fault: every answer is compared with the
 * one it gave before.
 */
import { addKeys } from '../../../support/fixtures.ts'
import { succeed } from '../../../support/launch.ts'
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { startServe } from '../../support/serve.ts'

export const KEY = `pl_${'F'.repeat(32)}`
/** Longest wait for an answer. */
const ANSWER_MS_MAX = 20_000
/** Between two requests of a client. */
const PAUSE_MS = 15
/** Longest wait for a recovery. */
const RECOVERY_MS_MAX = 15_000

/** Queries that read indexes, rows, names, and one with a long answer; none depends on the time. */
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

/** Imports `rows` into `dir` and adds an unlimited key; gives the file they came from. */
export async function makeData(binary: string, dir: string, rows: number): Promise<string> {
  const source = `${dir}.ndjson`
  await writeRows(source, { rows, nowMs: Date.now() })
  await succeed([binary, 'import', source, '--data', dir])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free' }])
  return source
}

/** Replaces the list in `dir`. @throws Error with stderr when the import fails. */
export const importList = (binary: string, dir: string, source: string): Promise<string> =>
  succeed([binary, 'import', source, '--replace', '--data', dir])

const TRUNCATED = '(truncated)'

export type Seen = { status: number; body: string; retryAfter: string | null; ms: number }
export type Watched = Awaited<ReturnType<typeof startWatched>>

/** Starts a server; `wrapper` is a command that runs it. */
export async function startWatched(binary: string, dir: string, wrapper: readonly string[] = []) {
  const more = ['--log', 'off', '--grace', '1s']
  const server = await startServe(binary, { data: dir, more, wrapper })
  const url = `http://127.0.0.1:${server.port}`

  async function get(path: string): Promise<Seen> {
    const startMs = performance.now()
    const taken = () => performance.now() - startMs
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX)
      const response = await fetch(`${url}${path}`, { signal })
      // A stream that fails is truncated: its status is sent already.
      const body = await response.text().catch(() => TRUNCATED)
      const retryAfter = response.headers.get('retry-after')
      return { status: response.status, body, retryAfter, ms: taken() }
    } catch (error) {
      return { status: 0, body: String(error), retryAfter: null, ms: taken() }
    }
  }
  return {
    ...server,
    get,
    ask: (query: string) => get(`/api?key=${KEY}&${query}`),
  }
}

/** The right answers, from a server without a fault. */
export async function answersOf(server: Watched): Promise<Map<string, string>> {
  const right = new Map<string, string>()
  for (const query of QUERIES) {
    const { status, body } = await server.ask(query)
    if (status !== 200) throw new Error(`${query}: ${status} ${body}`)
    right.set(query, body)
  }
  return right
}

/** Whether an answer is allowed: the right one, or 503. */
export const isAllowed = ({ status, body, retryAfter }: Seen, right: string | undefined) =>
  (status === 200 && (body === right || body === TRUNCATED)) ||
  (status === 503 && retryAfter === '1' && body.includes('"DB_EXECUTE_FAILED"'))

/** Clients that ask until they are stopped. */
export function startLoad(server: Watched, right: ReadonlyMap<string, string>, clients = 3) {
  const seen = { answers: 0, refused: 0, wrong: [] as string[], slowestMs: 0 }
  const { stop } = repeat(async (turn, client) => {
    const query = QUERIES[(client * 3 + turn) % QUERIES.length] ?? ''
    const answer = await server.ask(query)
    seen.answers += 1
    if (answer.status === 503) seen.refused += 1
    seen.slowestMs = Math.max(seen.slowestMs, answer.ms)
    if (!isAllowed(answer, right.get(query))) {
      seen.wrong.push(`${query}: ${answer.status} ${answer.body.slice(0, 80)}`)
    }
    await Bun.sleep(PAUSE_MS)
  }, clients)
  return {
    seen,
    async end() {
      await stop()
      return seen
    },
  }
}

/** Milliseconds until every query has its right answer again and /readyz is 200, or null. */
export async function untilRight(server: Watched, right: ReadonlyMap<string, string>) {
  const startMs = performance.now()
  while (performance.now() - startMs < RECOVERY_MS_MAX) {
    const answers = await Promise.all(QUERIES.map(server.ask))
    const ready = await server.get('/readyz')
    const isRight = answers.every(({ body }, i) => body === right.get(QUERIES[i] ?? ''))
    if (isRight && ready.status === 200) return performance.now() - startMs
    await Bun.sleep(20)
  }
  return null
}
