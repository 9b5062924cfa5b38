/**
 * Lists are replaced, grown, shrunk and changed in part while three nodes serve: no answer has rows of two imports, no
 * node goes back, and every node ends with the last version.
 */
import { join } from 'node:path'
import { UNLIMITED } from '../../../support/fixtures.ts'
import { until } from '../../../support/until.ts'
import { repeat } from '../../support/repeat.ts'
import { addressOf } from '../../support/rows.ts'
import type { Restartable } from '../../support/serve.ts'
import {
  addSharedCustomers,
  command,
  startNodes,
  startShared,
} from '../../support/shared-database.ts'
import { count, median, shown } from '../../support/table.ts'
import { type Part, scaled, summaryOf } from '../part.ts'
import { tagsIn, writeTagged } from '../support/tagged.ts'

/** The rows that small imports change; so many are seen by every node within a second (contract I3). */
const FEW_ROWS = 5_000
const FEW_LAG_MS = 1_000
const FEW_PORT = 7777
/** Ports of the other rows, in `addressOf`. */
const MANY_PORTS = [8080, 3128, 80, 1080, 8888, 4145]
const fewAddress = (n: number): string => addressOf(n).replace(/:.*/, `:${FEW_PORT}`)

/** The addresses of the few rows, and of `rows` more. */
function* addresses(rows: number): Generator<string> {
  for (let n = 0; n < FEW_ROWS; n += 1) yield fewAddress(n)
  for (let n = 0; n < rows; n += 1) yield addressOf(n)
}

const NODES = 3
const ROWS = 1_000_000
/** Whole lists that are imported: each second one has fewer rows and removes the others. */
const IMPORTS = 4
const SHRUNK = 0.6
/** Between two small imports, and small imports after the last whole list, when nodes copy nothing else. */
const FEW_EVERY_MS = 1_500
const FEW_ALONE = 8
/** The tags of small imports are above this. */
const FEW_TAGS = 1_000_000
/** Longer than the leader takes to write a snapshot. */
const SNAPSHOT_MS = 3_000
const ASK_EVERY_MS = 15

const KEY = `pl_${'I'.repeat(32)}`
const WHOLE = `/api?key=${KEY}&time=86400&get=json`

async function ask({ where }: Restartable, target: string) {
  if (where.kind !== 'tcp') throw new Error('nodes listen on ports')
  const response = await fetch(`http://127.0.0.1:${where.port}${target}`)
  return { status: response.status, body: await response.text() }
}

/** Both kinds of rows, of the large and of the small imports. */
const PARTS = ['many', 'few'] as const
type PartName = (typeof PARTS)[number]
/** The tags that a node showed, whenever it was another than before. */
type Seen = { tag: number; ms: number }[]

/** Asks a node again and again for parts of both kinds of rows. */
function watch(node: Restartable) {
  const seen: { readonly [part in PartName]: Seen } = { many: [], few: [] }
  const watched = { seen, answers: 0, slowestMs: 0, wrong: [] as string[] }
  const { stop } = repeat(async turn => {
    const part = turn % 2 === 0 ? 'few' : 'many'
    const port = part === 'few' ? FEW_PORT : MANY_PORTS[(turn >> 1) % MANY_PORTS.length]
    const startMs = performance.now()
    const { status, body } = await ask(node, `${WHOLE}&count=300&port=${port}`)
    watched.answers += 1
    watched.slowestMs = Math.max(watched.slowestMs, performance.now() - startMs)
    const [tag, ...others] = tagsIn(body).keys()
    if (status !== 200) watched.wrong.push(`status ${status}`)
    else if (tag === undefined || others.length > 0) {
      watched.wrong.push(`rows of imports ${[tag, ...others].join(' and ')}`)
    } else if (seen[part].at(-1)?.tag !== tag) seen[part].push({ tag, ms: Date.now() })
    await Bun.sleep(ASK_EVERY_MS)
  })
  return { watched, stop }
}
type Watched = ReturnType<typeof watch>['watched']

/** The tags that a version of the list holds, and when it was committed. */
type Committed = { version: number; few: number; many: number; ms: number }

/** Where a node did not follow the order of versions. */
function backwards(part: PartName, { seen }: Watched, versions: readonly Committed[]): string[] {
  let place = 0
  return seen[part].flatMap(({ tag }, i) => {
    const next = versions.findIndex((one, at) => at >= place && one[part] === tag)
    if (next < 0) return [`import ${tag} after ${seen[part][i - 1]?.tag}`]
    place = next
    return []
  })
}

/**
 * From each commit that changed these rows until a node showed it, or a later one; few rows count only when the node
 * had the whole list before them, which else comes first.
 */
function lagsOf(part: PartName, { seen }: Watched, versions: readonly Committed[]): number[] {
  const placeOf = (tag: number): number => versions.findLastIndex(one => one[part] === tag)
  return versions.flatMap((one, place) => {
    const hasMany = seen.many.findLast(each => each.ms <= one.ms)?.tag === one.many
    if (one[part] === versions[place - 1]?.[part] || (part === 'few' && !hasMany)) return []
    const first = seen[part].find(({ tag }) => placeOf(tag) >= place)
    return first === undefined ? [] : [Math.max(0, first.ms - one.ms)]
  })
}

/** What is wrong with a node at the end: its whole list, or what it says of itself. */
async function wrongAtEnd(node: Restartable, rows: number, last: Committed): Promise<string[]> {
  const { status, body } = await ask(node, WHOLE)
  const tags = tagsIn(body)
  const expected = new Map([[last.many, rows]])
  expected.set(last.few, (expected.get(last.few) ?? 0) + FEW_ROWS)
  const isWhole = status === 200 && Bun.deepEquals(tags, expected)
  const ready = await ask(node, '/readyz')
  const isNewest = ready.body.includes(`list_version=${last.version} `)
  return [
    ...(isWhole ? [] : [`status ${status}, the whole list has ${JSON.stringify([...tags])}`]),
    ...(isNewest ? [] : [`not version ${last.version}: ${ready.body}`]),
  ]
}

/** Makes the database write when each version is committed. */
const VERSION_LOG = `
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
    deferrable initially deferred for each row execute function torture.note_version();`

export const nodesImports: Part = async run => {
  const rows = scaled(ROWS, run)
  const sizeOf = (tag: number): number => (tag % 2 === 0 ? Math.round(rows * SHRUNK) : rows)
  const database = await startShared()
  const shared = { program: [run.binary], database }
  const directory = run.directory('world')
  const [manyFile, fewFile] = [join(directory, 'many.ndjson'), join(directory, 'few.ndjson')]
  const keys = [{ key: KEY, plan: 'free' }]
  await addSharedCustomers(shared, directory, { plans: { free: UNLIMITED }, keys })
  const directories = Array.from({ length: NODES }, (_, n) => run.directory(`node-${n}`))
  const nodes = await startNodes(shared, directories)
  await database.run(VERSION_LOG)

  /** Waits until every node has the newest version, a snapshot that is being written included. */
  const untilNewest = (): Promise<number> =>
    until(async () => {
      await Bun.sleep(SNAPSHOT_MS)
      const [head] = await database.run('select max(version)::float8 as v from proxylist.list_log')
      const said = await Promise.all(nodes.map(node => ask(node, '/readyz')))
      return said.every(({ body }) => body.includes(`list_version=${head?.v} `))
    })
  async function importMany(tag: number): Promise<void> {
    await writeTagged(manyFile, addresses(sizeOf(tag)), tag)
    await command(shared, ['import', manyFile, '--replace', '--allow-shrink'])
  }
  await importMany(1)
  await untilNewest()
  const watches = nodes.map(watch)
  const watched = watches.map(one => one.watched)
  const untilSeen = (part: PartName, tag: number): Promise<number> =>
    until(() => watched.every(({ seen }) => seen[part].at(-1)?.tag === tag))
  let fewTag = FEW_TAGS
  const importingFew = repeat(async () => {
    fewTag += 1
    await writeTagged(fewFile, addresses(0), fewTag)
    await command(shared, ['import', fewFile])
    await Bun.sleep(FEW_EVERY_MS)
  })
  for (let tag = 2; tag < IMPORTS + 2; tag += 1) {
    await importMany(tag)
    await untilSeen('many', tag)
    run.say(`${count(sizeOf(tag))} rows imported, and shown by all nodes`)
  }
  const alone = fewTag + FEW_ALONE
  await until(() => fewTag > alone)
  await importingFew.stop()
  await untilNewest()

  // Each import has the next tag of its kind.
  let [many, small, few] = [0, FEW_TAGS, 0]
  const versions = (
    await database.run(
      `select version::float8, kind, changed::float8, ms::float8 from torture.versions order by version`,
    )
  ).map(({ version, kind, changed, ms }): Committed => {
    if (kind === 'delta' && changed === FEW_ROWS) few = ++small
    else if (kind === 'delta') few = ++many
    return { version: Number(version), few, many, ms: Number(ms) }
  })
  const last = versions.at(-1)
  if (last === undefined) throw new Error('no import was committed')
  for (const part of PARTS) await untilSeen(part, last[part])
  for (const { stop } of watches) await stop()
  const atEnd: string[] = []
  for (const node of nodes) atEnd.push(...(await wrongAtEnd(node, sizeOf(IMPORTS + 1), last)))
  for (const node of nodes) await node.child().stop()

  const wrong = watched.flatMap(one => one.wrong)
  const back = PARTS.flatMap(part => watched.flatMap(one => backwards(part, one, versions)))
  const lags = { many: [] as number[], few: [] as number[] }
  for (const part of PARTS) lags[part] = watched.flatMap(one => lagsOf(part, one, versions))
  const answers = watched.reduce((sum, one) => sum + one.answers, 0)
  const slowestMs = Math.max(...watched.map(one => one.slowestMs))
  const lag = (all: readonly number[]): string =>
    `${shown(median(all))} ms, at most ${shown(Math.max(0, ...all))} ms`
  return [
    {
      promise: 'No answer of a node has rows of two imports, and none fails',
      figure:
        `${summaryOf(wrong)} of ${count(answers)} answers, the slowest ${shown(slowestMs)} ms; ` +
        `${count(rows)} rows, ${NODES} nodes, PostgreSQL ${database.version}`,
      bound: '0',
      holds: answers > 0 && wrong.length === 0,
    },
    {
      promise: 'Every node follows the order of commits, ends with the last version, and says so',
      figure: `${summaryOf(back)} steps back over ${versions.length} versions, ${summaryOf(atEnd)} wrong`,
      bound: '0',
      holds: versions.length > 2 && back.length + atEnd.length === 0,
    },
    {
      promise: `${count(FEW_ROWS)} changed rows are shown by every node within a second of the commit`,
      figure: `${lag(lags.few)} of ${count(lags.few.length)}; whole lists ${lag(lags.many)}`,
      bound: `half of them ≤ ${count(FEW_LAG_MS)} ms, of a node that copies no whole list`,
      holds: median(lags.few) <= FEW_LAG_MS,
    },
  ]
}
