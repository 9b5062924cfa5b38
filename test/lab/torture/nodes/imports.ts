/**
 * Lists are replaced, grown, shrunk and changed in part while three nodes serve: no answer has rows of
 * two imports, no node goes back, and every node ends with the last version.
 */
import { join } from 'node:path'
import { UNLIMITED } from '../../../support/fixtures.ts'
import { repeat } from '../../support/repeat.ts'
import { addressOf } from '../../support/rows.ts'
import type { Restartable } from '../../support/serve.ts'
import {
  addSharedCustomers,
  command,
  type Shared,
  startNodes,
  startShared,
} from '../../support/shared-database.ts'
import { count, median, shown } from '../../support/table.ts'
import { type Finding, type Part, scaled, summaryOf } from '../part.ts'

import { tagsIn, writeTagged } from '../support/tagged.ts'
import type { NodesRun } from './nodes.ts'

/** The rows that small imports change; so many are seen by every node within a second (contract I3). */
const FEW_ROWS = 5_000
const FEW_PORT = 7777
/** Ports of the other rows, in `addressOf`. */
const MANY_PORTS = [8080, 3128, 80, 1080, 8888, 4145]
const fewAddress = (n: number): string => addressOf(n).replace(/:.*/, `:${FEW_PORT}`)

/** The addresses of the few rows, and of `rows` more. */
function* addresses(rows: number): Generator<string> {
  for (let n = 0; n < FEW_ROWS; n += 1) yield fewAddress(n)
  for (let n = 0; n < rows; n += 1) yield addressOf(n)
}

/** A full run: each second import has fewer rows and removes the others. */
const NODES = 3
const ROWS = 1_000_000
const IMPORTS = 4
/** Between two small imports, and small imports after the last whole list, when nodes copy nothing else. */
const FEW_EVERY_MS = 1_500
const FEW_ALONE = 8
const SHRUNK = 0.6
/** The tags of small imports are above this. */
const FEW_TAGS = 1_000_000

const KEY = `pl_${'I'.repeat(32)}`
/** Between two requests to a node. */
const ASK_EVERY_MS = 15
/** Longest wait until every node has an import. */
const COPIED_MS_MAX = 300_000
/** How long nodes may take for few rows (contract I3). */
const FEW_LAG_MS = 1_000

/** The tags that a node showed of the many rows or of the few, whenever it was another than before. */
type Seen = { tag: number; ms: number }[]
type Watched = { many: Seen; few: Seen; answers: number; slowestMs: number; wrong: string[] }

const targetOf = (port: number, records: number): string =>
  `/api?key=${KEY}&time=86400&get=json&count=${records}&port=${port}`

async function ask({ where }: Restartable, target: string) {
  if (where.kind !== 'tcp') throw new Error('nodes listen on ports')
  const response = await fetch(`http://127.0.0.1:${where.port}${target}`)
  return { status: response.status, body: await response.text() }
}

/** Notes the tag of an answer, which must have one. */
function noteTag(seen: Seen, body: string, wrong: string[]): void {
  const tags = [...tagsIn(body).keys()]
  const [tag] = tags
  if (tag === undefined || tags.length !== 1) wrong.push(`rows of imports ${tags.join(' and ')}`)
  else if (seen.at(-1)?.tag !== tag) seen.push({ tag, ms: Date.now() })
}

/** Asks a node again and again for parts of both kinds of rows. */
function watch(node: Restartable) {
  const watched: Watched = { many: [], few: [], answers: 0, slowestMs: 0, wrong: [] }
  const asking = repeat(async turn => {
    const isFew = turn % 2 === 0
    const port = isFew ? FEW_PORT : (MANY_PORTS[(turn >> 1) % MANY_PORTS.length] ?? 0)
    const startMs = performance.now()
    const { status, body } = await ask(node, targetOf(port, 300))
    watched.answers += 1
    watched.slowestMs = Math.max(watched.slowestMs, performance.now() - startMs)
    if (status !== 200) watched.wrong.push(`status ${status}`)
    else noteTag(isFew ? watched.few : watched.many, body, watched.wrong)
    await Bun.sleep(ASK_EVERY_MS)
  })
  return { watched, stop: asking.stop }
}

/** Waits until each node shows an import. */
async function untilSeen(all: readonly Watched[], part: 'many' | 'few', tag: number) {
  const untilMs = performance.now() + COPIED_MS_MAX
  while (!all.every(watched => watched[part].at(-1)?.tag === tag)) {
    if (performance.now() > untilMs) throw new Error(`a node does not show import ${tag}`)
    await Bun.sleep(ASK_EVERY_MS)
  }
}

/** Imports files one after the other, each when all nodes have the one before. */
async function importMany(
  run: NodesRun,
  shared: Shared,
  rows: number,
  watched: readonly Watched[],
): Promise<void> {
  const file = join(run.directory('rows'), 'rows.ndjson')
  for (let tag = 2; tag < IMPORTS + 2; tag += 1) {
    const size = tag % 2 === 0 ? Math.round(rows * SHRUNK) : rows
    await writeTagged(file, addresses(size), tag)
    await command(shared, ['import', file, '--replace', '--allow-shrink'])
    await untilSeen(watched, 'many', tag)
    run.say(`${count(size)} rows imported, and shown by all nodes`)
  }
}

/** Changes the few rows again and again; `tag` is that of the last import. */
function importFew(run: NodesRun, shared: Shared) {
  const file = join(run.directory('few'), 'few.ndjson')
  let tag = FEW_TAGS
  const importing = repeat(async () => {
    tag += 1
    await writeTagged(file, addresses(0), tag)
    await command(shared, ['import', file])
    await Bun.sleep(FEW_EVERY_MS)
  })
  return { stop: importing.stop, tag: () => tag }
}

/** What a version of the list holds, and when it was committed. */
type Committed = { version: number; few: number; many: number; ms: number }

/** Where a node did not follow the order of versions. */
function backwards(part: 'many' | 'few', seen: Seen, versions: readonly Committed[]): string[] {
  let place = 0
  return seen.flatMap(({ tag }, i) => {
    const next = versions.findIndex((one, at) => at >= place && one[part] === tag)
    if (next < 0) return [`import ${tag} after ${seen[i - 1]?.tag}`]
    place = next
    return []
  })
}

/**
 * From each commit that changed these rows until a node showed it, or a later one; few rows count only
 * when the node had the whole list before them, which else comes first.
 */
function lagsOf(part: 'many' | 'few', node: Watched, versions: readonly Committed[]): number[] {
  const seen = node[part]
  const placeOf = (tag: number): number => versions.findLastIndex(one => one[part] === tag)
  const hasMany = ({ many, ms }: Committed): boolean =>
    node.many.findLast(each => each.ms <= ms)?.tag === many
  return versions.flatMap((one, place) => {
    if (one[part] === versions[place - 1]?.[part]) return []
    if (part === 'few' && !hasMany(one)) return []
    const first = seen.find(({ tag }) => placeOf(tag) >= place)
    return first === undefined ? [] : [Math.max(0, first.ms - one.ms)]
  })
}

/** What is wrong with a node at the end: its whole list, or what it says of itself. */
async function wrongAtEnd(node: Restartable, rows: number, last: Committed): Promise<string[]> {
  const { status, body } = await ask(node, `/api?key=${KEY}&time=86400&get=json`)
  if (status !== 200) return [`the whole list: status ${status}`]
  const tags = tagsIn(body)
  const expected = new Map([[last.many, rows]])
  expected.set(last.few, (expected.get(last.few) ?? 0) + FEW_ROWS)
  const isWhole = Bun.deepEquals(tags, expected)
  const ready = await ask(node, '/readyz')
  const version = Number(/list_version=(\d+)/.exec(ready.body)?.[1])
  return [
    ...(isWhole ? [] : [`the whole list has ${JSON.stringify([...tags])}`]),
    ...(version === last.version ? [] : [`version ${version}, not ${last.version}`]),
  ]
}

/** Makes the database write when each version is committed. */
const addVersionLog = (shared: Shared) =>
  shared.database.run(`
    create schema torture;
    create table torture.versions
      (version bigint not null, kind text not null, changed bigint not null, ms bigint not null);
    create function torture.note_version() returns trigger language plpgsql security definer as $$
    begin
      insert into torture.versions values (new.version, new.kind, new.changed,
        floor(extract(epoch from clock_timestamp()) * 1000));
      return null;
    end $$;
    create constraint trigger torture_version after insert on proxylist.list_log
      deferrable initially deferred for each row execute function torture.note_version();`)

/** The versions with the tags that they hold: each import has the next tag of its kind. */
async function readVersions({ database }: Shared): Promise<Committed[]> {
  const rows = await database.run(
    `select version::float8, kind, changed::float8, ms::float8 from torture.versions
     order by version`,
  )
  let [many, small, few] = [0, FEW_TAGS, 0]
  return rows.map(({ version, kind, changed, ms }) => {
    if (kind === 'delta' && changed === FEW_ROWS) few = ++small
    else if (kind === 'delta') few = ++many
    return { version: Number(version), few, many, ms: Number(ms) }
  })
}

/** Waits until every node has the newest version, a snapshot that is being written included. */
async function untilNewest({ database }: Shared, nodes: readonly Restartable[]): Promise<void> {
  for (;;) {
    await Bun.sleep(SNAPSHOT_MS)
    const [head] = await database.run('select max(version)::float8 as v from proxylist.list_log')
    const said = await Promise.all(nodes.map(node => ask(node, '/readyz')))
    if (said.every(({ body }) => body.includes(`list_version=${head?.v} `))) return
  }
}
const SNAPSHOT_MS = 3_000

/** Runs imports while nodes serve. */
export const nodesImports: Part = async (torture): Promise<Finding[]> => {
  const run = { ...torture, program: [torture.binary] }
  const all = scaled(ROWS, run)
  const shared = { program: run.program, database: await startShared() }
  const directory = run.directory('world')
  const file = join(directory, 'first.ndjson')
  await writeTagged(file, addresses(all), 1)
  const keys = [{ key: KEY, plan: 'free' }]
  await addSharedCustomers(shared, directory, { plans: { free: UNLIMITED }, keys })
  const directories = Array.from({ length: NODES }, (_, n) => run.directory(`node-${n}`))
  const nodes = await startNodes(shared, directories)
  await addVersionLog(shared)
  await command(shared, ['import', file])
  await untilNewest(shared, nodes)
  const watches = nodes.map(watch)
  const watched = watches.map(one => one.watched)
  const few = importFew(run, shared)
  await importMany(run, shared, all, watched)
  const alone = few.tag() + FEW_ALONE
  while (few.tag() <= alone) await Bun.sleep(ASK_EVERY_MS)
  await few.stop()
  await untilNewest(shared, nodes)
  const versions = await readVersions(shared)
  const last = versions.at(-1)
  if (last === undefined) throw new Error('no import was committed')
  for (const part of ['many', 'few'] as const) await untilSeen(watched, part, last[part])
  for (const { stop } of watches) await stop()
  const rows = IMPORTS % 2 === 1 ? Math.round(all * SHRUNK) : all
  const atEnd: string[] = []
  for (const node of nodes) atEnd.push(...(await wrongAtEnd(node, rows, last)))
  for (const node of nodes) await node.child().stop()
  const where = `${nodes.length} nodes, PostgreSQL ${shared.database.version}`
  return findingsOf(watched, versions, atEnd, `${count(all)} rows, ${where}`)
}

function findingsOf(
  watched: readonly Watched[],
  versions: readonly Committed[],
  atEnd: readonly string[],
  where: string,
): Finding[] {
  const both = ['many', 'few'] as const
  const wrong = watched.flatMap(one => one.wrong)
  const back = both.flatMap(part => watched.flatMap(one => backwards(part, one[part], versions)))
  const [many, few] = both.map(part => watched.flatMap(one => lagsOf(part, one, versions)))
  const answers = watched.reduce((sum, one) => sum + one.answers, 0)
  const slowestMs = Math.max(...watched.map(one => one.slowestMs))
  const lag = (lags: readonly number[] = []): string =>
    `${shown(median(lags))} ms, at most ${shown(Math.max(0, ...lags))} ms`
  return [
    {
      promise: 'No answer of a node has rows of two imports, and none fails',
      figure: `${summaryOf(wrong)} of ${count(answers)} answers, the slowest ${shown(slowestMs)} ms; ${where}`,
      bound: '0',
      holds: answers > 0 && wrong.length === 0,
    },
    {
      promise: 'Every node follows the order in which imports were committed',
      figure: `${summaryOf(back)} steps back over ${versions.length} versions`,
      bound: '0',
      holds: versions.length > 2 && back.length === 0,
    },
    {
      promise: 'Every node ends with the whole last version, and says so',
      figure: `${summaryOf(atEnd)} wrong`,
      bound: '0',
      holds: atEnd.length === 0,
    },
    {
      promise: `${count(FEW_ROWS)} changed rows are shown by every node within a second of the commit`,
      figure: `${lag(few)} of ${count((few ?? []).length)}; whole lists ${lag(many)}`,
      bound: `half of them ≤ ${count(FEW_LAG_MS)} ms, of a node that copies no whole list`,
      holds: median(few ?? []) <= FEW_LAG_MS,
    },
  ]
}
