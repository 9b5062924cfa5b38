/** What `doctor` examines, what it says when something is wrong, and its exit status. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, existsSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../src/config/environment.ts'
import { readSettings } from '../../src/config/settings.ts'
import { EXAMINED, examine } from '../../src/doctor.ts'
import { writeCopyOf } from '../../src/sqlite/copy.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { flipLast } from '../support/damage.ts'
import { dataDirectory, KEY, T0 } from '../support/fixtures.ts'
import { createClock } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

const HEALTHY = {
  configuration: 'every PROXYLIST_ variable is right',
  permissions: 'the directory is for its owner only, who owns its files',
  list: 'no damage was found',
  'keys and usage': 'no damage was found',
  feeds: 'feeds and databases of places are in order',
  freshness: 'the newest of 1 proxy was checked 0 s ago',
}

/** A data directory as a careful operator has it. */
function healthy(rows?: Parameters<typeof dataDirectory>[0]): string {
  const dir = dataDirectory(rows)
  chmodSync(dir, 0o700)
  for (const file of [PROXY_FILE, ACCESS_FILE]) chmodSync(join(dir, file), 0o600)
  return dir
}

function findingsOf(dir: string, env: Environment = {}, nowMs = T0) {
  const settings = readSettings(EXAMINED, { data: dir }, env)
  return examine(settings, env, () => nowMs, new AbortController().signal)
}

/** What is found wrong, by check. */
async function wrongIn(dir: string, env = {}, nowMs = T0): Promise<{ [check: string]: string }> {
  const findings = await findingsOf(dir, env, nowMs)
  const wrong = findings.filter(({ ok }) => !ok)
  return Object.fromEntries(wrong.map(({ check, found }) => [check, found]))
}

test('a healthy installation is reported as healthy', async () => {
  const env = { PROXYLIST_GRACE: '5s', PATH: '/' }
  const findings = await findingsOf(healthy(), env)
  expect(findings.every(({ ok }) => ok)).toBeTrue()
  const report = Object.fromEntries(findings.map(({ check, found }) => [check, found]))
  expect(report).toMatchObject(HEALTHY)
  expect(report.disk).toMatch(/^[\d,]+ MB are free on the disk; an import may take \d+ MB$/)
})

const list = (dir: string): string => join(dir, PROXY_FILE)
const keys = (dir: string): string => join(dir, ACCESS_FILE)
const KEYS = 'keys and usage'
/** Makes the list of `dir` a copy, as a node has one. */
function makeCopy(dir: string): void {
  using list = openList(dir)
  writeCopyOf(list.db, { database: 'some', version: 1, mark: 'mark' })
}
const damaged = (how: string): RegExp =>
  new RegExp(
    `proxies\\.db is damaged: ${how}; import .* --replace FILE, or restore .* --force FILE$`,
  )
type Trouble = readonly [what: string, make: (dir: string) => void, check: string, found: RegExp]
const TROUBLES: readonly Trouble[] = [
  ['a directory for all', dir => chmodSync(dir, 0o755), 'permissions', /to others; chmod 700$/],
  ['no list', dir => rmSync(list(dir)), 'list', /^there is no .*proxylist import FILE$/],
  ['a flipped bit', dir => flipLast(list(dir)), 'list', damaged('row 1 missing from index .*')],
  ['a truncated list', dir => truncateSync(list(dir), 5000), 'list', /is damaged/],
  [
    'a list that is not a database, and its repair',
    dir => writeFileSync(list(dir), 'hello\n'),
    'list',
    /proxies\.db is not a database; import .*: proxylist import --replace FILE, or restore .* --force FILE$/,
  ],
  [
    'a copy of a database that no setting names',
    makeCopy,
    'configuration',
    /proxies\.db is a copy of a shared database: name that with --database, or give another --data$/,
  ],
  [
    'keys that were lost',
    dir => rmSync(keys(dir)),
    KEYS,
    /^there is no .*access\.db; create .* keys add$/,
  ],
  ['truncated keys', dir => truncateSync(keys(dir), 5000), KEYS, /is damaged/],
]
test.each(TROUBLES)('doctor finds %s', async (_, make, check, found) => {
  const dir = healthy()
  make(dir)
  expect((await wrongIn(dir))[check]).toMatch(found)
})

test.each([
  [[{ ip: '192.0.2.1:80', type: 'http', age: 600 }], 0, undefined],
  [
    [{ ip: '192.0.2.1:80', type: 'http', age: 601 }],
    0,
    'no proxy was checked in the last 10 minutes, the newest 10 minutes ago',
  ],
  [
    [{ ip: '192.0.2.1:80', type: 'http', age: -300 }],
    -10_000,
    expect.stringMatching(/^no proxy was .* 10 minutes, as all checks lie in the future/),
  ],
  [[], 0, expect.stringMatching(/^the list is empty; fill it with: proxylist import/)],
])('doctor reports the freshness of %j, %d ms after T0', async (rows, ms, found) => {
  expect((await wrongIn(healthy(rows), {}, T0 + ms)).freshness).toEqual(found)
})

test('rows checked in the future are not fresh until they are imported again', async () => {
  const now = T0 - 10_000
  const dir = healthy([
    { ip: '192.0.2.1:80', type: 'http', age: -300 },
    { ip: '192.0.2.2:80', type: 'http', age: 20 },
  ])
  const clock =
    'the last checks of 1 proxy lie in the future: they count as fresh until then; ' +
    'import them again, or the whole list with: proxylist import --replace FILE'
  expect(await wrongIn(dir, {}, now)).toEqual({ freshness: clock })
  expect(await wrongIn(dir, {}, T0 + 1_999_000)).toEqual({
    freshness: 'no proxy was checked in the last 10 minutes, the newest 28 minutes ago',
  })

  const file = join(temporaryDirectory(), 'a.txt')
  writeFileSync(file, 'http://192.0.2.1:80\n')
  const { env, setClock } = createClock()
  setClock(now)
  expect((await runCommand(['import', file, '--data', dir], { env })).exitCode).toBe(0)
  expect(await wrongIn(dir, {}, now)).toEqual({})
})

const IS_ROOT = process.getuid?.() === 0
test.skipIf(!IS_ROOT)('doctor finds files that root has copied', async () => {
  const dir = healthy()
  for (const path of [dir, list(dir)]) chownSync(path, 65534, 65534)
  expect(await wrongIn(dir)).toEqual({
    permissions: `${keys(dir)} belongs to user 0, the directory to user 65534: chown it`,
  })
  chownSync(keys(dir), 65534, 65534)
  const wal = join(dir, 'checks.db-wal')
  writeFileSync(wal, '', { mode: 0o600 })
  expect(await wrongIn(dir)).toEqual({
    permissions: `${wal} belongs to user 0, the directory to user 65534: chown it`,
  })
})

describe('doctor reports variables', () => {
  test.each([
    [{ PROXYLIST_LISTN: ':1' }, 'PROXYLIST_LISTN is not a setting; did you mean PROXYLIST_LISTEN?'],
    [{ PROXYLIST_WHOLLY_UNKNOWN: '1' }, 'PROXYLIST_WHOLLY_UNKNOWN is not a setting'],
    [{ PROXYLIST_GRACE: '?' }, 'PROXYLIST_GRACE must be a duration such as 90s, 15m, 24h or 30d'],
    [{ PROXYLIST_KEY: 'temp_secret' }, expect.not.stringContaining('secret')],
  ])('%p', async (env, found) => {
    expect(await wrongIn(healthy(), env)).toEqual({ configuration: found as string })
  })
})

describe('doctor reports', () => {
  const MISSING = 'no such file or directory'
  test.each([
    [{ PROXYLIST_FEED: 'a b replace' }, 'the feed b says replace'],
    [
      { PROXYLIST_FEED: 'http://h/ headers=/none' },
      `cannot read the header file /none: ${MISSING}`,
    ],
    [{ PROXYLIST_FEEDS: '/none.conf' }, `cannot read the feeds file /none.conf: ${MISSING}`],
    [{ PROXYLIST_GEOIP: '/none.mmdb' }, `cannot read /none.mmdb: ${MISSING}`],
    [
      { PROXYLIST_GEOIP: import.meta.path },
      `${import.meta.path} is not a database in the format of`,
    ],
  ])('%p', async (env, found) => {
    const wrong = await wrongIn(healthy(), env)
    expect(Object.keys(wrong)).toEqual(['feeds'])
    expect(wrong.feeds).toStartWith(found)
  })

  test('a failed feed while the settings name it', async () => {
    const dir = healthy()
    const fetched = await runCommand(['fetch', '--feed', '/none.csv', '--data', dir])
    expect(fetched.exitCode).toBe(1)
    const gone = 'feed /none.csv: cannot be read (no such file or directory)'
    expect((await wrongIn(dir)).feeds).toBe(gone)
    expect((await wrongIn(dir, { PROXYLIST_FEED: '/none.csv' })).feeds).toBe(gone)
    writeFileSync(join(dir, 'feeds'), '/other.csv\n', { mode: 0o600 })
    expect(await wrongIn(dir)).toEqual({})
  })

  test('files with secrets that others can read', async () => {
    const dir = temporaryDirectory()
    const [feeds, headers] = [join(dir, 'feeds.conf'), join(dir, 'headers')]
    writeFileSync(headers, 'X-Key: 1\n', { mode: 0o640 })
    writeFileSync(feeds, `http://h/?key=SECRET headers=${headers}\n`, { mode: 0o604 })
    for (const file of [feeds, headers]) chmodSync(file, 0o644)
    expect(await wrongIn(healthy(), { PROXYLIST_FEEDS: feeds })).toEqual({
      feeds: `${feeds} is open to others; chmod 600; ${headers} is open to others; chmod 600`,
    })
  })
})

test('doctor prints a table or JSON, and exits 1 when something is wrong', async () => {
  const dir = healthy()
  const good = await runCommand(['doctor', '--data', dir])
  expect(good).toMatchObject({ exitCode: 0, stderr: '' })
  expect(good.stdout).toMatch(
    /^CHECK +STATE +FOUND\nprogram +ok +proxylist .*\nconfiguration +ok +every .*\n(?:.* ok .*\n){8}$/,
  )
  chmodSync(dir, 0o755)
  const bad = await runCommand(['doctor', '--data', dir, '--json'])
  expect(bad).toMatchObject({ exitCode: 1, stderr: 'proxylist: 1 of 10 checks found something\n' })
  const { ok, checks } = JSON.parse(bad.stdout)
  expect(ok).toBeFalse()
  expect(checks).toHaveLength(10)
  expect(checks[2]).toEqual({
    check: 'permissions',
    ok: false,
    found: `${dir} is open to others; chmod 700`,
  })
  expect(good.stdout + bad.stdout).not.toContain(KEY)
})

test('doctor makes no data directory', async () => {
  const dir = join(temporaryDirectory(), 'none')
  const { exitCode, stdout } = await runCommand(['doctor', '--data', dir])
  expect(exitCode).toBe(1)
  expect(stdout).toContain(
    `permissions     WRONG  there is no data directory ${dir}; check --data, or create it with: `,
  )
  expect(stdout).toMatch(/^disk +WRONG +there is no directory .* to examine$/m)
  expect(stdout).not.toMatch(/statfs|ENOENT/)
  expect(existsSync(dir)).toBeFalse()
})
