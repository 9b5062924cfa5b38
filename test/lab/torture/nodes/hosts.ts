/**
 * Hosts of the database that drop packets, accept and close, or freeze until a standby is promoted, and a
 * node that freezes, behind the nginx.conf that is shipped: who waits how long, and when all is right again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { UNLIMITED } from '../../../support/fixtures.ts'
import { freePort, launch } from '../../../support/launch.ts'
import type { Server } from '../../../support/postgres.ts'
import { onCleanUp } from '../../../support/temporary.ts'
import { until } from '../../../support/until.ts'
import { repeat } from '../../support/repeat.ts'
import type { Restartable } from '../../support/serve.ts'
import {
  addSharedCustomers,
  command,
  promote,
  type Shared,
  startNodes,
  startShared,
  startStandby,
} from '../../support/shared-database.ts'
import { count, shown } from '../../support/table.ts'
import { type Finding, scaled, summaryOf } from '../part.ts'

import type { NodesRun } from './nodes.ts'

const REPOSITORY = join(import.meta.dir, '../../../..')
const TLS = join(REPOSITORY, 'test/fixtures/tls')
const LIST = ['11.1.1.1:80', '11.1.1.2:80', '11.1.1.3:80']
const [KEY, REVOKED] = ['H', 'R'].map(letter => `pl_${letter.repeat(32)}`) as [string, string]

const NODES = 3
const CLIENTS = 16
const TIMES = 3
const ASK_EVERY_MS = 20
/** Before the fault, and until what failed is replaced: longer than anybody waits for a host. */
const CALM_MS = 1_000
const DOWN_MS = 4_000
const WAIT_MS_MAX = 2_500
/** Answers are right within this after the recovery, and a command on the database takes no longer. */
const RIGHT_MS = 2_000

const portOf = ({ where }: Restartable): number => (where.kind === 'tcp' ? where.port : 0)

type World = { server: Server; standby: Server; nodes: readonly Restartable[] }
/** Does the harm; gives what ends it. */
type Fail = (world: World) => Promise<() => Promise<unknown>>

/** A server in the place of the database, which is stopped so that it accepts nothing; its queue is full. */
async function dropPackets({ server }: World): Promise<void> {
  await server.stop('SIGQUIT')
  const where = JSON.stringify({ host: '127.0.0.1', port: server.port, backlog: 1 })
  const code = `require('node:net').createServer().listen(${where}, () => console.error('here'))`
  const child = launch([process.execPath, '-e', code])
  await child.says(/here/)
  child.kill('SIGSTOP')
  for (let isTaken = true; isTaken; ) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    onCleanUp(() => void socket.destroy())
    const connected = new Promise(resolve => socket.on('connect', () => resolve(true)))
    isTaken = (await Promise.race([connected, Bun.sleep(300)])) === true
  }
}

async function acceptAndClose({ server: { port, stop } }: World): Promise<void> {
  await stop('SIGQUIT')
  const socket = { open: (one: { end: () => void }) => one.end(), data() {} }
  const listener = Bun.listen({ hostname: '127.0.0.1', port, socket })
  onCleanUp(() => listener.stop(true))
}

/** A process and its children stand still; gives what lets them go on. */
function freeze(pid: number): () => void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ')
  const pids = [pid, ...children.map(Number).filter(child => child > 0)]
  for (const one of pids) process.kill(one, 'SIGSTOP')
  const thaw = (): void => {
    for (const one of pids) process.kill(one, 'SIGCONT')
    forget()
  }
  const forget = onCleanUp(thaw)
  return thaw
}

/** A harm to the first host, which ends when the standby is promoted. */
const ofHost =
  (harm: (world: World) => unknown): Fail =>
  async world => {
    await harm(world)
    return () => promote(world.standby)
  }

const FAULTS: readonly { what: string; fail: Fail; ofNode?: true }[] = [
  { what: 'the first host drops packets', fail: ofHost(dropPackets) },
  { what: 'the first host accepts and closes', fail: ofHost(acceptAndClose) },
  { what: 'the first host is frozen', fail: ofHost(({ server }) => freeze(server.pid())) },
  {
    what: 'a node is frozen',
    fail: async ({ nodes: [node] }) => {
      if (!node) throw new Error('there is no node')
      const thaw = freeze(node.child().pid)
      return async () => thaw()
    },
    ofNode: true,
  },
]

const nginx = Bun.which('nginx', { PATH: `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin` })

/** The shipped nginx.conf with other addresses and paths; it also says which nodes were asked. */
function startFront(program: string, dir: string, nodes: readonly Restartable[]): string {
  const port = freePort()
  const shipped = readFileSync(join(REPOSITORY, 'data/many-machines/nginx.conf'), 'utf8')
    .replace(/10\.0\.0\.1(\d):8080/g, (_, n) => `127.0.0.1:${portOf(nodes[n - 1] as Restartable)}`) // as many as NODES
    .replace('listen 443', `listen 127.0.0.1:${port}`)
    .replace(/\/etc\/ssl\/\S+\.(pem|key)/g, `${TLS}/server.$1`)
    .replace('/var/log/nginx/error.log', `${dir}/error.log`)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = temporary.map(name => `${name}_temp_path ${dir}/${name};`).join(' ')
  const file = join(dir, 'nginx.conf')
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${dir}/pid; events {}
    http { add_header X-Nodes $upstream_addr always; ${paths} ${shipped} }`,
  )
  launch([program, '-p', dir, '-e', `${dir}/error.log`, '-c', file])
  return `https://127.0.0.1:${port}`
}

type Asked = { status: number; isRight: boolean; nodes: string; sentMs: number; ms: number }

async function ask(origin: string, key = KEY): Promise<Asked> {
  const sentMs = Date.now()
  const target = `${origin}/api?key=${key}&time=86400`
  const response = await fetch(target, { tls: { rejectUnauthorized: false } })
  const lines = (await response.text()).trim().split('\n').sort()
  const { status, headers } = response
  const isRight = status === 200 && Bun.deepEquals(lines, LIST)
  return { status, isRight, nodes: headers.get('x-nodes') ?? '', sentMs, ms: Date.now() - sentMs }
}

/** Makes one fault in a world of its own, while clients ask. */
async function outcomeOf(run: NodesRun, { what, fail, ofNode }: (typeof FAULTS)[number]) {
  const database = await startShared()
  const { server } = database
  const standby = await startStandby(server)
  const url = () => database.url().replace(`:${server.port}`, `$&,127.0.0.1:${standby.port}`)
  const shared: Shared = { program: run.program, database: { ...database, url } }
  const dir = run.directory('world')
  const keys = [KEY, REVOKED].map(key => ({ key, plan: 'open' }))
  const [, id = ''] = await addSharedCustomers(shared, dir, { plans: { open: UNLIMITED }, keys })
  writeFileSync(join(dir, 'list.txt'), LIST.map(one => `http://${one}`).join('\n'))
  const nodes = await startNodes(
    shared,
    Array.from({ length: NODES }, () => run.directory('node')),
  )
  await command(shared, ['import', join(dir, 'list.txt')])
  const origins = nodes.map(node => `http://127.0.0.1:${portOf(node)}`)
  const fronts = nginx ? [startFront(nginx, run.directory('nginx'), nodes)] : origins
  for (const front of fronts)
    await until(() =>
      ask(front)
        .then(one => one.isRight)
        .catch(() => false),
    )

  const all: Asked[] = []
  const asking = repeat(async (_, worker) => {
    all.push(await ask(fronts[worker % fronts.length] ?? ''))
    await Bun.sleep(ASK_EVERY_MS)
  }, CLIENTS)
  await Bun.sleep(CALM_MS)
  const end = await fail({ server, standby, nodes })
  await Bun.sleep(DOWN_MS)
  await end()
  const endMs = Date.now()
  await command(shared, ['keys', 'revoke', id])
  const revokeMs = Date.now() - endMs
  await Bun.sleep(RIGHT_MS + CALM_MS)
  await asking.stop()
  const refusals = await Promise.all(origins.map(origin => ask(origin, REVOKED)))
  for (const node of nodes) await node.child().stop()

  const frozen = ofNode ? new URL(origins[0] ?? '').host : 'none'
  const most = (of: Asked[], ms: (one: Asked) => number) => Math.max(0, ...of.map(ms))
  const isToFrozen = (one: Asked): boolean => one.nodes.includes(frozen)
  const odd = all.filter(({ isRight, status }) => !isRight && (ofNode || status !== 503))
  return {
    what,
    asked: all.length,
    slowMs: most(
      all.filter(one => !isToFrozen(one)),
      one => one.ms,
    ),
    frozenMs: most(all.filter(isToFrozen), one => one.ms),
    rightMs: most(
      all.filter(({ isRight }) => !isRight),
      one => one.sentMs - endMs,
    ),
    revokeMs,
    wrong: [
      ...odd.map(({ status }) => `${what}: status ${status}`),
      ...refusals.filter(one => one.status !== 403).map(one => `${what}: revoked, ${one.status}`),
    ],
  }
}

/** Makes each fault; that of a node only where nginx is, which is there to hide it. */
export async function tortureHosts(run: NodesRun): Promise<Finding[]> {
  if (!nginx) run.say('nginx is not installed: clients ask the nodes themselves, and none freezes')
  const seen: Awaited<ReturnType<typeof outcomeOf>>[] = []
  for (const fault of FAULTS.filter(({ ofNode }) => nginx || !ofNode)) {
    for (let n = 0; n < scaled(TIMES, run); n += 1) {
      const outcome = await outcomeOf(run, fault)
      run.say(JSON.stringify(outcome))
      seen.push(outcome)
    }
  }
  const wrong = seen.flatMap(one => one.wrong)
  const asked = seen.reduce((sum, one) => sum + one.asked, 0)
  const frozenMs = Math.max(...seen.map(one => one.frozenMs))
  const finding = (
    name: 'slowMs' | 'rightMs' | 'revokeMs',
    ms: number,
    promise: string,
  ): Finding => {
    const [slowest] = seen.toSorted((a, b) => b[name] - a[name])
    return {
      promise,
      figure: `at most ${shown(slowest?.[name] ?? 0)} ms (${slowest?.what})`,
      bound: `≤ ${count(ms)} ms`,
      holds: asked > 0 && (slowest?.[name] ?? 0) <= ms,
    }
  }
  return [
    finding(
      'slowMs',
      WAIT_MS_MAX,
      'While a host or a node drops, closes or freezes, only requests to the frozen node wait long',
    ),
    finding('rightMs', RIGHT_MS, 'Answers are right within 2 s of its recovery'),
    finding('revokeMs', RIGHT_MS, 'keys revoke is done within 2 s while the first host is dead'),
    {
      promise: 'Before it, answers are right or 503, and a revoked key is refused',
      figure: `${summaryOf(wrong)} wrong of ${count(asked)}; to the frozen node ${shown(frozenMs)} ms`,
      bound: '0',
      holds: wrong.length === 0,
    },
  ]
}
