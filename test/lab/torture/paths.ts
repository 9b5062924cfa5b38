/**
 * A named pipe at each path that an operator can give, and sources that stall: each command ends with a
 * sentence, at SIGTERM at the latest, servers answer and say so, and other feeds and imports go on.
 */
import { Database } from 'bun:sqlite'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Answerer, startFeedServer } from '../../support/feed-server.ts'
import { addKeys } from '../../support/fixtures.ts'
import { launch, type Server, succeed } from '../../support/launch.ts'
import { cityRecord, mmdb } from '../../support/mmdb.ts'
import { until } from '../../support/until.ts'
import { repeat } from '../support/repeat.ts'
import { files, startServe } from '../support/serve.ts'
import { count, shown } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

const ROWS = 50_000
const STALLED_ROWS = 20_000
const BESIDE_ROWS = 1_000
/** More URLs than are fetched at a time. */
const STALLING = 12
/** A command that has not ended by then waits for somebody who writes. */
const WAITS_MS = 2_000
/** Longest until a sentence is said, rows are in, or a signal has ended something. */
const WITHIN_MS = 10_000
const SLOWEST_MS_MAX = 1_000
const KEY = `pl_${'P'.repeat(32)}`

const NOT_REGULAR = /it is not a regular file/
const WAITED = /^proxylist: interrupted; nothing was (?:imported|changed)/m

/** `at` gives paths: `pipe`; `rows.txt`, a list; `entry`, a directory with a row and a pipe. */
type Place = { at: (name: string) => string; data: string; url: string }
/** The commands that are given a pipe, and what each says at its end. */
const COMMANDS: readonly [name: string, args: (at: Place['at']) => string[], says: RegExp][] = [
  ['serve --feeds', at => ['serve', '--feeds', at('pipe')], NOT_REGULAR],
  ['serve --geoip', at => ['serve', '--geoip', at('pipe')], NOT_REGULAR],
  ['fetch --feeds', at => ['fetch', '--feeds', at('pipe')], NOT_REGULAR],
  ['fetch --feed', at => ['fetch', '--feed', at('pipe')], /: 1 of 1 feeds failed/],
  ['import --geoip', at => ['import', at('rows.txt'), '--geoip', at('pipe')], NOT_REGULAR],
  ['import', at => ['import', at('pipe')], WAITED],
  ['restore', at => ['restore', at('pipe'), '--data', at('restored')], WAITED],
  ['keys import', at => ['keys', 'import', at('pipe')], WAITED],
]

/** The feeds that are or name a pipe, what a server says of each, and how many rows come in. */
const FEEDS: readonly [string, (place: Place) => string, says: RegExp, rows: number][] = [
  ['--feed', ({ at }) => at('pipe'), /: cannot be read \(it is not a regular file\)/, 0],
  ['entry of a directory', ({ at }) => at('entry'), /: 1 row, 1 rejected .* and is skipped/, 1],
  ['headers=', ({ at, url }) => `${url}/silent headers=${at('pipe')}`, NOT_REGULAR, 0],
]

/** Rows of TXT; each `list` has addresses of its own. */
const linesOf = (rows: number, list: number): string =>
  Array.from({ length: rows }, (_, n) => `http://11.${list}.${1 + (n >> 8)}.${n & 255}:80\n`).join(
    '',
  )

function rowsIn({ data }: Place): number {
  using db = new Database(files(data).list, { readonly: true })
  return db.query<{ n: number }, []>('select count(*) as n from proxies').get()?.n ?? 0
}

const makePipes = (...paths: string[]): Promise<string> =>
  succeed(['sh', '-c', 'rm -f "$@" && mkfifo "$@"', 'sh', ...paths])

/** What is wrong when something does not happen in time; else nothing. */
const within = (what: string, happens: Promise<unknown>): Promise<string> =>
  Promise.race([happens.then(() => ''), Bun.sleep(WITHIN_MS).then(() => `too late: ${what}`)])

const says = (server: Server, text: RegExp) => within(text.source, server.says(text))

/** Asks a server again and again until it is stopped. */
function watch({ port }: Server) {
  const seen = { answers: 0, failures: 0, slowestMs: 0 }
  const { stop } = repeat(async turn => {
    const startMs = performance.now()
    const url = `http://127.0.0.1:${port}/api?key=${KEY}&time=9999&count=${1 + (turn % 5)}`
    const signal = AbortSignal.timeout(WITHIN_MS)
    const body = await fetch(url, { signal })
      .then(answer => answer.text())
      .catch(String)
    seen[/^11\./.test(body) ? 'answers' : 'failures'] += 1
    seen.slowestMs = Math.max(seen.slowestMs, performance.now() - startMs)
    await Bun.sleep(5)
  })
  return { seen, stop }
}

type Row = { promise: string; more?: string[]; rows?: number }
type Act = (server: Server) => Promise<string[]>
/** Asks a server while `act` runs, which gives what is wrong; `rows` come into the list. */
async function row({ binary }: Run, place: Place, wanted: Row, act: Act): Promise<Finding> {
  const { promise, more = [], rows = 0 } = wanted
  const before = rowsIn(place)
  const server = await startServe(binary, { data: place.data, more })
  const { seen, stop } = watch(server)
  const wrong = await act(server).finally(stop)
  wrong.push(await within('SIGTERM', server.stop()))
  const added = rowsIn(place) - before
  if (added !== rows) wrong.push(`${count(added)} rows came in`)
  const faults = wrong.filter(Boolean)
  const { answers, failures, slowestMs } = seen
  const asked = `${count(answers)} answers, slowest ${shown(slowestMs)} ms, ${failures} failures`
  return {
    promise,
    figure: [asked, ...faults].join('; '),
    bound: `≤ ${count(SLOWEST_MS_MAX)} ms, 0; ${count(rows)} rows come in`,
    holds: faults.length === 0 && failures === 0 && answers > 0 && slowestMs <= SLOWEST_MS_MAX,
  }
}

/** Runs a command that is given a pipe; gives what is wrong. */
async function command(args: readonly string[], pattern: RegExp): Promise<string[]> {
  const child = launch(args)
  await Promise.race([child.ended, Bun.sleep(WAITS_MS)])
  const wrong = await within('SIGTERM of the command', child.stop())
  const { stderr } = child.written
  return [wrong, pattern.test(stderr) && (await child.ended) !== 0 ? '' : `it said: ${stderr}`]
}

/** The feeds file and the places of a running server become pipes. */
function reload(run: Run, place: Place): Promise<Finding> {
  const { at } = place
  const [feeds, places, list] = [at('a.conf'), at('a.mmdb'), at('a.txt')]
  writeFileSync(list, linesOf(10, 3))
  writeFileSync(feeds, `${list} every=1s\n`)
  writeFileSync(places, mmdb({ '11.0.0.0/8': cityRecord('DE', 'Berlin') }))
  const more = ['--feeds', feeds, '--geoip', places]
  const wanted = { promise: 'a pipe, --feeds and --geoip at SIGHUP: it says so', more, rows: 10 }
  return row(run, place, wanted, async server => {
    const first = await says(server, /: 10 rows\n/)
    await makePipes(feeds, places)
    writeFileSync(list, linesOf(20, 3))
    server.kill('SIGHUP')
    const stay = await says(server, /it is not a regular file; the feeds stay as they were\n/)
    return [first, stay, await says(server, /a\.mmdb: it is not a regular file; the list stays/)]
  })
}

/** Imports of stdin and URLs stall half-way, while a file feed changes and another import runs. */
function stall(run: Run, place: Place): Promise<Finding> {
  const [list, other] = [place.at('b.txt'), place.at('c.txt')]
  writeFileSync(list, linesOf(10, 4))
  writeFileSync(other, linesOf(BESIDE_ROWS, 7))
  const paths = Array.from({ length: STALLING }, (_, n) => `${n % 2 ? 'half' : 'silent'}?${n}`)
  const urls = paths.map(path => `${place.url}/${path}`)
  const more = [...urls, `${list} every=1s`].flatMap(feed => ['--feed', feed])
  const promise = `${STALLING} URLs and two imports that stall: a file feed and an import go on`
  const wanted = { promise, more, rows: STALLED_ROWS + 2 * BESIDE_ROWS }
  return row(run, place, wanted, async server => {
    const wrong = [await says(server, /b\.txt: 10 rows\n/)]
    const full = rowsIn(place) - 10 + 2 * BESIDE_ROWS
    const args = [run.binary, 'import', '--data', place.data]
    const start = () => launch([...args, '-'], { stdin: 'pipe' })
    const [ends, killed] = [start(), start()]
    for (const child of [ends, killed]) {
      child.stdin?.write(linesOf(STALLED_ROWS, 5))
      wrong.push(await within('stdin', Promise.resolve(child.stdin?.flush())))
    }
    writeFileSync(list, linesOf(BESIDE_ROWS, 4))
    wrong.push(await within('an import', succeed([...args, other])))
    const isIn = until(() => rowsIn(place) === full)
    wrong.push(await within('a feed', isIn))
    if (!ends.isRunning() || !killed.isRunning()) wrong.push('an import did not wait')
    wrong.push(await within('SIGTERM of an import', killed.stop()))
    if (!WAITED.test(killed.written.stderr)) wrong.push(killed.written.stderr)
    await ends.stdin?.end()
    return [...wrong, await within('the end of an import', ends.ended)]
  })
}

export const paths: Part = async run => {
  const half = `HTTP/1.1 200 OK\r\n\r\n${linesOf(STALLED_ROWS, 8)}`
  const sendHalf: Answerer = (_, socket) => void socket.write(half)
  const { url } = await startFeedServer({ '/silent': () => {}, '/half': sendHalf })
  const at = join.bind(null, run.directory('paths'))
  const place = { at, data: at('data'), url }
  mkdirSync(at('entry'))
  await makePipes(at('pipe'), at('entry/pipe'))
  writeFileSync(at('entry/one.txt'), linesOf(1, 2))
  writeFileSync(at('rows.txt'), linesOf(scaled(ROWS, run), 1))
  addKeys(place.data, { paths: { daily: 1_000_000_000 } }, [{ key: KEY, label: '', plan: 'paths' }])
  await succeed([run.binary, 'import', at('rows.txt'), '--data', place.data])
  const findings: Finding[] = []
  for (const [name, argsOf, pattern] of COMMANDS) {
    const promise = `a pipe, ${name}: a sentence, at SIGTERM at the latest`
    const args = [run.binary, ...argsOf(at)]
    if (!args.includes('--data')) args.push('--data', place.data)
    findings.push(await row(run, place, { promise }, () => command(args, pattern)))
  }
  for (const [name, feedOf, pattern, rows] of FEEDS) {
    const more = ['--feed', feedOf(place)]
    const wanted = { promise: `a pipe, ${name}: the server says so`, more, rows }
    findings.push(await row(run, place, wanted, async server => [await says(server, pattern)]))
  }
  return [...findings, await reload(run, place), await stall(run, place)]
}
