/**
 * The comparisons under full load: the program and its baselines in turn, A B A B, warmed up before; the figures are
 * medians of the ratios of runs that lie next to each other, of answers a second and of CPU time of the main thread.
 */
import { temporaryDirectory } from '../../../support/temporary.ts'
import { customers, keyOf, SPENT_KEY, type Targets } from '../../support/customers.ts'
import { TYPICAL } from '../../support/queries.ts'
import {
  addSharedCustomers,
  command,
  startNodes,
  startShared,
} from '../../support/shared-database.ts'
import { count, median, type Row, shown } from '../../support/table.ts'
import { ask, type BenchServer, startBare, startFastify } from '../baselines/baselines.ts'
import { type Load, load, unexpectedOf } from '../load.ts'
import type { Workspace } from '../workspace.ts'

const WARM_UP_SECONDS = 2

/** The program without and with its access log, a node over PostgreSQL, an earlier build, and the baselines. */
const SHOWN = {
  ...{ this: 'log off', logged: 'access log on', node: 'a node over PostgreSQL' },
  ...{ before: 'before', loggedBefore: 'before' },
  ...{ bare: 'bare Bun.serve', fastify: 'Fastify + better-sqlite3' },
} as const
type ServerName = keyof typeof SHOWN

type Case = {
  name: string
  targets: keyof Targets
  /** The status that every answer has. */
  status: 200 | 429
  /** What the clients accept, behind a reverse proxy on this machine; else `identity` without one. */
  proxied?: string
  /** Two servers each, and the ratio by CPU to reach, if there is one. */
  comparisons: readonly (readonly [ours: ServerName, other: ServerName, target: number | null])[]
}

const DISTINCT: readonly (readonly [ServerName, ServerName, number | null])[] = [
  ['this', 'fastify', 4],
  ['this', 'before', null],
]

export const CASES: { readonly [part: string]: Case } = {
  repeated: {
    ...{ name: 'repeated filters', targets: 'repeated', status: 200 },
    comparisons: [
      ['this', 'bare', 0.52],
      ['this', 'fastify', 12],
      ['this', 'before', null],
      ['logged', 'bare', 0.48],
      ['node', 'this', 0.45],
    ],
  },
  /** What operators run. */
  proxied: {
    ...{ name: 'repeated filters, compressed, behind a proxy', targets: 'repeated', status: 200 },
    proxied: 'gzip, deflate, br, zstd',
    comparisons: [
      ['logged', 'bare', 0.42],
      ['logged', 'loggedBefore', null],
    ],
  },
  /** Every request another filter: nothing can be cached. */
  distinct: {
    ...{ name: 'every filter different, TXT', targets: 'distinct', status: 200 },
    comparisons: DISTINCT,
  },
  'distinct-json': {
    ...{ name: 'every filter different, JSON', targets: 'distinctJson', status: 200 },
    comparisons: DISTINCT,
  },
  /** One key over its burst. */
  refused: {
    ...{ name: 'refused (429)', targets: 'refused', status: 429 },
    comparisons: [
      ['this', 'bare', 0.64],
      ['this', 'before', null],
      ['logged', 'bare', null],
      ['node', 'this', 0.9],
    ],
  },
}

/** A node over a PostgreSQL of its own; `null` without DATABASE. */
async function startNode({ options, program, rowFiles }: Workspace): Promise<BenchServer | null> {
  if (!options.hasDatabase) return null
  const shared = { program: [program.binary], database: await startShared() }
  await addSharedCustomers(shared, temporaryDirectory('customers'), customers(options.keys))
  const [node] = await startNodes(shared, [temporaryDirectory('node')], { more: ['--log', 'off'] })
  await command(shared, ['import', await rowFiles.random()])
  if (node?.where.kind !== 'tcp') throw new Error('a node listens on a port')
  return { port: node.where.port, pid: node.child().pid, stop: () => node.child().stop() }
}

/** The servers of a case; a text is the reason why one does not run. */
type Servers = Map<ServerName, BenchServer | string>

/** Starts the servers that a case compares. Those of the program have data of their own. */
async function startServers(workspace: Workspace, what: Case): Promise<Servers> {
  const { program, before } = workspace
  const target = `/api?key=${what.status === 429 ? SPENT_KEY : keyOf(0)}&${TYPICAL[0]}`
  const more = what.proxied ? ['--trust-proxy', '127.0.0.1'] : []
  const quiet = await program.serve({ log: 'off' })
  await ask(quiet, target) // the one request that the plan of the spent key admits
  const answer = await ask(quiet, target, what.proxied)
  const start: { [name in ServerName]: () => Promise<BenchServer | string | null> } = {
    this: async () => quiet,
    logged: async () => program.serve({ data: await program.copy(`logged-${what.targets}`), more }),
    node: () => startNode(workspace),
    before: async () => (await before?.serve({ log: 'off' })) ?? null,
    loggedBefore: async () => (await before?.serve({ more })) ?? null,
    bare: () => startBare(workspace, answer),
    fastify: () => startFastify(workspace),
  }
  const servers: Servers = new Map()
  const names = new Set<ServerName>()
  for (const [ours, other] of what.comparisons) names.add(ours).add(other)
  for (const name of names) {
    const server = await start[name]()
    if (server === null) continue
    servers.set(name, server)
    if (typeof server !== 'string' && what.status === 429) await ask(server, target)
  }
  return servers
}

function summary(runs: readonly Load[], { status }: Case): string {
  const bad = runs.reduce((sum, run) => sum + unexpectedOf(run, status), 0)
  const perSecond = shown(median(runs.map(run => run.perSecond)))
  return `${perSecond}/s${bad > 0 ? ` (${count(bad)} unexpected answers)` : ''}`
}

/** CPU time a request, of the main thread and of all threads: `18.1 (19.0)`. */
function cpuOf(runs: readonly Load[]): string {
  const of = (pick: 'mainUs' | 'allUs') => shown(median(runs.map(({ cpu }) => cpu[pick])))
  return `${of('mainUs')} (${of('allUs')}) µs`
}

export async function compare(workspace: Workspace, what: Case): Promise<Row[]> {
  const servers = await startServers(workspace, what)
  const running = [...servers].flatMap(([name, server]) =>
    typeof server === 'string' ? [] : [{ name, server }],
  )
  const { rounds, durationSeconds } = workspace.options
  const targetsFile = (await workspace.targets())[what.targets]
  const isDistinct = what.targets.startsWith('distinct')
  const fields = what.proxied
    ? `Accept-Encoding: ${what.proxied}\r\nX-Forwarded-For: 203.0.113.9\r\n`
    : ''
  const run = (server: BenchServer, seconds: number): Promise<Load> =>
    load(workspace, server, { targetsFile, isDistinct, fields, seconds })
  const runs = new Map<ServerName, Load[]>(running.map(({ name }) => [name, []]))
  try {
    for (const { server } of running) await run(server, WARM_UP_SECONDS)
    for (let round = 0; round < rounds; round += 1) {
      for (const { name, server } of running)
        runs.get(name)?.push(await run(server, durationSeconds))
    }
  } finally {
    await Promise.all(running.map(({ server }) => server.stop()))
  }

  return what.comparisons.flatMap(([ours, other, target]): Row[] => {
    const [server, own = [], others = []] = [servers.get(other), runs.get(ours), runs.get(other)]
    if (server === undefined || own.length === 0) return [] // no earlier build, or no database
    const row = {
      case: `${what.name}, ${SHOWN[ours]}`,
      this: summary(own, what),
      target: target === null ? '' : `≥ ${target} ×`,
    }
    if (typeof server === 'string') {
      return [{ ...row, that: `${SHOWN[other]}: skipped, ${server}`, figure: '', holds: null }]
    }
    const medianOf = (of: (run: Load, i: number) => number): number => median(own.map(of))
    const ratio = medianOf((each, i) => each.perSecond / (others[i]?.perSecond ?? Number.NaN))
    const cpuRatio = medianOf((each, i) => (others[i]?.cpu.mainUs ?? Number.NaN) / each.cpu.mainUs)
    const isClean = own.every(each => unexpectedOf(each, what.status) === 0)
    return [
      {
        ...row,
        that: `${SHOWN[other]}: ${summary(others, what)}`,
        cpu: `${cpuOf(own)} : ${cpuOf(others)}`,
        figure: `${shown(ratio)} ×, by CPU ${shown(cpuRatio)} ×`,
        holds: target === null ? null : cpuRatio >= target && isClean,
      },
    ]
  })
}
