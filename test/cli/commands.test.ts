/**
 * Commands on keys, plans, lists and feeds, and on data directories: status, stdout and stderr, of the
 * program from source or of the binary.
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HOUR_MS } from '../../src/lib/time.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openList, openRegistry } from '../../src/sqlite/stores.ts'
import { addKeys, T0 } from '../support/fixtures.ts'
import { proxylist } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, take, testTranscripts } from '../support/transcript.ts'
import { FEEDS } from './feeds.cases.ts'
import { LISTS } from './list.cases.ts'
import { KEYS, PLAN_STEPS, TWINS } from './registry.cases.ts'

afterAll(cleanUp)

testTranscripts('feeds', FEEDS)
testTranscripts('list', LISTS)
testTranscripts('keys', KEYS)
testTranscripts('plans', PLAN_STEPS)
testTranscripts('environment twins', TWINS)

/** A port that nothing listens on: discard. */
const NOWHERE = '127.0.0.1:9'
const urlAt = (origin: string): RegExp =>
  new RegExp(`^http://${origin.replaceAll('.', '\\.')}/#token=[\\w-]{43}\\n$`)
const hint = (where: string): string =>
  `no console answers there yet; start it with: proxylist serve --admin-listen ${where}\n`

testTranscripts('console', [
  {
    name: 'prints the address with a new token alone on stdout, and how to start and reach the server',
    files: { 'data/.keep': '' },
    steps: [
      {
        args: ['console', '--admin-listen', NOWHERE],
        stdout: urlAt(NOWHERE),
        stderr: hint(NOWHERE),
      },
      {
        args: 'console --admin-listen :9', // printed as an address that a browser can open
        stdout: urlAt(NOWHERE),
        stderr: `the former token is not valid any more\n${hint('[::]:9')}`,
      },
      {
        args: 'console --admin-listen unix:/run/none/admin.sock',
        stdout: urlAt('127.0.0.1:8081'),
        stderr: `the former token is not valid any more\n${hint('unix:/run/none/admin.sock')}from your own machine: ssh -N -L 8081:/run/none/admin.sock USER@HOST, then open:\n`,
      },
    ],
  },
])

test('keys list shows state, plan and end, and of a key no more than its prefix', async () => {
  const cwd = directoryOf()
  const rest = 'x'.repeat(32)
  const keys = [
    { key: `pl_first${rest}`, plan: 'standard', label: 'Örn & Co', note: 'late' },
    { key: `temp_sec${rest}`, plan: null, expiresAt: T0 + 2 * HOUR_MS },
    { key: `$KEY1234${rest}`, plan: 'classic', revokedAt: T0 },
    { key: `pl_last_${rest}`, plan: 'standard', expiresAt: 1 },
  ]
  const ids = addKeys(join(cwd, 'data'), {}, keys, T0)
  const shown = [
    { kind: 'regular', state: 'active', expires: null },
    { kind: 'temporary', state: 'active', expires: '2026-11-20T14:00:00.000Z' },
    { kind: 'regular', state: 'revoked', expires: null },
    { kind: 'regular', state: 'expired', expires: '1970-01-01T00:00:00.001Z' },
  ].map((each, i) => ({
    ...{ id: ids[i], prefix: keys[i]?.key.slice(0, 8), plan: keys[i]?.plan, ...each },
    ...{
      label: keys[i]?.label ?? '',
      note: keys[i]?.note ?? '',
      from: '',
      requests_today: 0,
      subnets_today: 0,
    },
    created: '2026-11-20T12:00:00.000Z',
  }))
  const table = await take(cwd, { args: 'keys list', stdout: /^ID / })
  const json = await take(cwd, { args: 'keys list --json', stdout: /^\[\n/ })
  expect(JSON.parse(json.stdout)).toEqual(
    shown.toSorted((a, b) => (`${a.id}` < `${b.id}` ? -1 : 1)),
  )
  for (const { id, prefix, state } of shown) {
    expect(table.stdout).toMatch(
      new RegExp(`^${id} +${RegExp.escape(`${prefix}…`)} .* ${state} `, 'm'),
    )
  }
  expect(table.stdout).toMatch(/ LABEL +NOTE\n(?:.*\n)*.* Örn & Co +late\n/)
  expect(table.stdout + json.stdout).not.toContain('xxxx') // an id may have two
})

test('commands that make, change or remove keys and plans print with --json what they have done', async () => {
  const cwd = directoryOf()
  const ask = async (line: string) =>
    JSON.parse((await take(cwd, { args: `${line} --json`, stdout: /^\{\n/, stderr: /./ })).stdout)
  const first = {
    plan: 'classic',
    label: 'first',
    note: '',
    from: '',
    expires: '2026-11-21T12:00:00.000Z',
  }
  const made = await ask(
    'keys add --plan classic --label first --expires 1d --key first-0123456789',
  )
  const { id } = made
  expect(made).toEqual({
    id: expect.stringMatching(/^[a-z0-9]{8}$/),
    ...first,
    key: 'first-0123456789',
  })
  const temp = { plan: 'temp', expires: '2026-11-20T13:00:00.000Z' }
  expect(await ask('keys temp --ttl 1h')).toMatchObject(temp)
  const changed = { ...first, note: 'late', from: '192.0.2.0/24', expires: null }
  expect(await ask(`keys set ${id} --note late --from 192.0.2.0/24 --expires never`)).toEqual({
    id,
    ...changed,
  })
  const key = expect.stringMatching(/^pl_[A-Za-z0-9]{32}$/)
  const until = '2026-11-20T13:00:00.000Z'
  expect(await ask(`keys rotate ${id} --overlap 1h`)).toEqual({ id, old_secrets_until: until, key })
  const ended = { id, old_secrets_until: null, key }
  expect(await ask(`keys rotate ${id} --overlap 0s`)).toEqual(ended)
  expect(await ask(`keys reset ${id} --day`)).toEqual({ id, address: null, reset: 'day' })
  const reset = { id: 'demo', address: '192.0.2.1', reset: 'all' }
  expect(await ask('keys reset demo --address 192.0.2.1')).toEqual(reset)
  expect(await ask(`keys revoke ${id}`)).toEqual({ id, state: 'revoked' })
  expect(await ask(`keys remove ${id}`)).toEqual({ id, state: 'removed' })
  const plan = await ask('plans set small --count 9')
  const { stdout: plans } = await take(cwd, { args: 'plans list --json', stdout: /./ })
  expect(JSON.parse(plans)).toContainEqual(plan)
  expect(await ask('plans remove small')).toEqual({ name: 'small', state: 'removed' })
})

type Damage = readonly [name: string, make: (dir: string) => void, says: RegExp]
const DAMAGES: readonly Damage[] = [
  [
    'a file that is not a database',
    dir => {
      for (const file of [PROXY_FILE, ACCESS_FILE]) writeFileSync(join(dir, file), 'x'.repeat(9999))
    },
    / is not a database; .*restore a backup with: proxylist restore --force FILE$/,
  ],
  [
    'a database of another program',
    dir => {
      for (const file of [PROXY_FILE, ACCESS_FILE]) {
        const db = new Database(join(dir, file))
        db.run('create table songs (title text)')
        db.close()
      }
    },
    / is a database of another program$/,
  ],
  [
    'a newer schema',
    dir => {
      for (const { db, close } of [openList(dir), openAccess(dir)]) {
        db.run('pragma user_version = 99')
        close()
      }
    },
    / was written by a newer proxylist \(schema 99, /,
  ],
  [
    'a damaged database',
    dir => {
      openList(dir).close()
      openRegistry(dir).close()
      for (const file of [PROXY_FILE, ACCESS_FILE]) overwrite(join(dir, file), 4096)
    },
    / is damaged; .*restore a backup with: proxylist restore --force FILE$/,
  ],
  [
    'the two files in each other’s place',
    dir => {
      openList(dir).close()
      openRegistry(dir).close()
      renameSync(join(dir, PROXY_FILE), join(dir, 'other'))
      renameSync(join(dir, ACCESS_FILE), join(dir, PROXY_FILE))
      renameSync(join(dir, 'other'), join(dir, ACCESS_FILE))
    },
    / is another database of proxylist under this name$/,
  ],
]

const openAccess = (dir: string) => {
  openRegistry(dir).close()
  const db = new Database(join(dir, ACCESS_FILE))
  return { db, close: () => db.close() }
}

function overwrite(file: string, from: number): void {
  const bytes = readFileSync(file)
  writeFileSync(file, bytes.fill(255, from))
}

/** A command for each way to open a file, and that file. */
const READERS = [
  ['list', PROXY_FILE],
  ['import a.txt', PROXY_FILE],
  ['keys list', ACCESS_FILE],
  ['plans set x', ACCESS_FILE],
  ['serve --listen 127.0.0.1:0', ACCESS_FILE],
] as const

/** Both files by what only reads, and the other ways to open them for the first damage. */
const NAMED = DAMAGES.flatMap(([name, damage, says], i) =>
  READERS.filter(([line]) => i === 0 || line === 'list' || line === 'keys list').map(
    ([line, file]) => [name, line, damage, says, file] as const,
  ),
)
test.each(NAMED)('%s is named in one sentence by %s', async (_, line, damage, says, file) => {
  const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n' })
  mkdirSync(join(cwd, 'data'))
  damage(join(cwd, 'data'))
  const { stderr } = await take(cwd, { args: line, exitCode: 1, stderr: /^proxylist: [^\n]+\n$/ })
  expect(stderr).toContain(join('data', file))
  expect(stderr.trimEnd()).toMatch(says)
})

test.each(['keys add', 'keys temp', 'plans set small'])(
  '%s says that it makes a data directory, and says so once',
  async args => {
    const cwd = directoryOf()
    const run = async () => (await proxylist(args.split(' '), { cwd })).stderr
    expect(await run()).toStartWith(
      `there is no data directory ${join(cwd, 'data')}; making a new one\n`,
    )
    expect(await run()).not.toContain('data directory')
  },
)
