/**
 * The checker on bad days, as programs: killed at any point, a judge that dies or whose clock is wrong, its own clock
 * that steps, hardly a file descriptor, a full disk. A failure of ours never lowers a row.
 */
import { Database } from 'bun:sqlite'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { smallDisk } from '../../support/disk.ts'
import { SECRET } from '../../support/judge.ts'
import { freePort, launch, run as runCommand, succeed } from '../../support/launch.ts'
import { randomOf } from '../../support/random.ts'
import { until } from '../../support/until.ts'
import { startWorld } from '../bench/parts/checker.ts'
import { count } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

const RATE = 200
const ADDRESSES = 5_000
const SOME = 2_000
const FEW = 200
/** Proxies that connect and never answer: each holds a descriptor for seconds. */
const HANGING = 250
const KILLS = 100
const HOUR_MS = 3_600_000

type Scene = Awaited<ReturnType<typeof createScene>>

/** Proxies at addresses of 127.0.0.0/8 that all live, a secret, and a judge of the program. */
async function createScene(run: Run) {
  const dir = run.directory('checker')
  const { everywhere, proxies } = await startWorld()
  const secret = join(dir, 'secret')
  writeFileSync(secret, `${Buffer.from(SECRET).toString('base64url')}\n`)
  chmodSync(secret, 0o600)
  const port = freePort()
  const startJudge = async (env = {}) => {
    const listen = ['--listen', `127.0.0.1:${port}`, '--judge-secret', secret]
    const judge = launch([run.binary, 'judge', ...listen], { env })
    await judge.says(/listening on/)
    return judge
  }
  const linesOf = (addresses: number, host: number, port: number | undefined): string =>
    Array.from({ length: addresses }, (_, n) => {
      return `127.${1 + (n % 250)}.${Math.floor(n / 250)}.${host}:${port}\n`
    }).join('')
  const fileOf = (name: string, addresses: number, hanging = 0): string => {
    const file = join(dir, name)
    const hangs = linesOf(hanging, 2, proxies.hangs?.[0]?.port)
    writeFileSync(file, hangs + linesOf(addresses, 1, everywhere))
    return file
  }
  const command = (file: string, ...more: string[]): string[] => [
    ...[run.binary, 'check', file, '--judge', `http://127.0.0.1:${port}`, '--judge-secret', secret],
    ...[
      '--contact',
      'https://example.com/',
      '--allow-private',
      '--rate',
      `${RATE}/s`,
      '--json',
      ...more,
    ],
  ]
  return {
    run,
    startJudge,
    command,
    many: fileOf('many', ADDRESSES),
    some: fileOf('some', SOME),
    few: fileOf('few', FEW, HANGING),
  }
}

/** The rows of a table of a database; none where it is not there yet. */
function rowsOf<Row>(data: string, file: string, sql: string): Row[] {
  try {
    using db = new Database(join(data, file), { readonly: true })
    return db.query(sql).all() as Row[] // as the statement says
  } catch {
    return []
  }
}
const listed = (data: string) =>
  rowsOf<{ id: number; works: number; checked_at: number }>(
    ...([data, 'proxies.db', 'select id, works, checked_at from proxies'] as const),
  )
const known = (data: string) =>
  rowsOf<{ id: number; ok_at: number | null; queue: number }>(
    ...([data, 'checks.db', 'select id, ok_at, queue from candidates'] as const),
  )

const finding = (promise: string, figure: string, bound: string, holds: boolean): Finding => ({
  ...{ promise, figure, bound, holds },
})

/** Kills a checker at a random moment, again and again: what is remembered is in the list, and little is lost. */
async function kills({ run, startJudge, command, many }: Scene): Promise<Finding[]> {
  const data = run.directory('killed')
  const random = randomOf(run.seed, 'checker kills')
  const judge = await startJudge()
  let [broken, ahead] = [0, 0]
  const times = scaled(KILLS, run)
  for (let n = 0; n < times; n += 1) {
    const checker = launch(command(many, '--data', data))
    await Bun.sleep(300 + 2_000 * random())
    checker.kill('SIGKILL')
    await checker.ended
    const rows = new Map(listed(data).map(row => [row.id, row]))
    const remembered = known(data).filter(({ ok_at }) => ok_at !== null)
    broken += remembered.filter(({ id }) => !rows.has(id)).length
    ahead = Math.max(ahead, rows.size - remembered.length)
  }
  await judge.stop()
  const checked = listed(data).length
  const second = 2 * RATE
  return [
    finding(
      `${times} kills: addresses that are remembered as alive without their row`,
      String(broken),
      '0',
      broken === 0,
    ),
    finding(
      'most rows that a kill made be checked again',
      `${ahead} of ${count(checked)}`,
      `≤ ${second}, of two seconds`,
      ahead <= second && checked > 0,
    ),
  ]
}

/** Runs a checker until all are alive, does harm, and counts the rows that were lowered by it. */
async function harm(
  { run, startJudge, command, some }: Scene,
  what: string,
  {
    env,
    judgeEnv,
    harms,
  }: {
    env?: object
    judgeEnv?: object
    harms: (judge: Awaited<ReturnType<Scene['startJudge']>>) => Promise<void> | void
  },
): Promise<Finding> {
  const data = run.directory('harm')
  const judge = await startJudge(judgeEnv)
  await succeed([...command(some, '--once'), '--data', data], { env: { ...env } })
  {
    // All are due again at once, so that many are under way when harm is done.
    using db = new Database(join(data, 'checks.db'))
    db.run('update candidates set next_at = 0, idle_at = 0, ok_at = 1')
  }
  const checker = launch(command(some, '--data', data), { env: { ...env } })
  const again = (): number => known(data).filter(({ ok_at }) => Number(ok_at) > 1).length
  await until(() => again() > 0)
  await harms(judge)
  await Bun.sleep(15_000)
  run.say(`${what}: ${again()} of ${SOME} were alive again`)
  const lost = known(data).filter(({ queue }) => queue !== 0).length
  const works = listed(data).filter(row => row.works > 0 && row.works < 100).length
  await checker.stop()
  await judge.stop()
  return finding(
    `${what}: rows that were lowered`,
    `${lost + works} of ${SOME}`,
    '0',
    lost + works === 0,
  )
}

async function clocks(scene: Scene): Promise<Finding[]> {
  const file = join(scene.run.directory('clock'), 'clock')
  let offsetMs = 0
  const tick = (): void => writeFileSync(file, String(Date.now() + offsetMs))
  tick()
  const ticking = setInterval(tick, 50)
  const env = { PROXYLIST_TEST_CLOCK: file }
  try {
    const wrong = await harm(scene, 'a judge whose clock becomes an hour wrong', {
      judgeEnv: env,
      harms() {
        offsetMs = HOUR_MS
      },
    })
    offsetMs = 0
    const steps = await harm(scene, 'a checker whose clock steps an hour on and two back', {
      env,
      async harms() {
        offsetMs = HOUR_MS
        await Bun.sleep(3_000)
        offsetMs = -HOUR_MS
      },
    })
    return [wrong, steps]
  } finally {
    clearInterval(ticking)
  }
}

async function descriptors({ startJudge, command, few }: Scene): Promise<Finding> {
  const judge = await startJudge()
  const limited = ['sh', '-c', 'ulimit -n 100; exec "$@"', 'sh', ...command(few, '--once')]
  const { exitCode, stdout } = await runCommand(limited, { deadlineSeconds: 120 })
  await judge.stop()
  const alive = exitCode === 0 ? JSON.parse(stdout).length : 0
  return finding(
    `with 100 file descriptors, --once finds all of the living beside ${HANGING} that hang`,
    `${alive} of ${FEW}`,
    'all',
    alive === FEW,
  )
}

async function fullDisk({ startJudge, command, many }: Scene): Promise<Finding | null> {
  const disk = smallDisk('8m')
  if (disk === null) return null
  const [data, filler] = [join(disk, 'data'), join(disk, 'filler')]
  const judge = await startJudge()
  const checker = launch(command(many, '--data', data))
  await until(() => listed(data).length > 0)
  await runCommand(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=64k'])
  await Bun.sleep(8_000)
  const said = checker.written.stderr
  const during = listed(data).length
  rmSync(filler)
  await until(() => listed(data).length > during + RATE || !checker.isRunning())
  const goesOn = checker.isRunning() && listed(data).length > during
  await checker.stop()
  await judge.stop()
  const says = said.split('\n').find(line => /full|space/.test(line)) ?? 'nothing'
  return finding(
    'a full disk is said, and afterwards it goes on',
    says,
    'one sentence, and it goes on',
    goesOn && says !== 'nothing',
  )
}

export const checkerFaults: Part = async run => {
  const scene = await createScene(run)
  const disk = await fullDisk(scene)
  return [
    ...(await kills(scene)),
    await harm(scene, 'a judge that is killed', { harms: judge => judge.kill('SIGKILL') }),
    ...(await clocks(scene)),
    await descriptors(scene),
    ...(disk === null ? [] : [disk]),
  ]
}
