/**
 * The life of a key on the command line (contract §C `keys …`, B10, G5), with a running server beside it: what each
 * command prints, and that the server follows at once. What becomes of keys is in `access/registry.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DAY_MS, HOUR_MS } from '../../src/lib/time.ts'
import { ask, from } from '../support/answer.ts'
import { ASK, addKeys, addList, dataDirectory, KEY, type Limits, T0 } from '../support/fixtures.ts'
import type { Outcome } from '../support/launch.ts'
import { createClock } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

/** Runs commands on a data directory, so many seconds after T0. */
function cli(dir: string, seconds = 0) {
  const { env, setClock } = createClock()
  setClock(T0 + seconds * 1000)
  return (args: string, stdin?: string): Promise<Outcome> =>
    runCommand([...args.split(' '), '--data', dir], { env, ...(stdin !== undefined && { stdin }) })
}
/** What a command prints; it must succeed. */
async function stdoutOf(running: Promise<Outcome>): Promise<string> {
  const { exitCode, stdout, stderr } = await running
  expect([exitCode, exitCode === 0 ? '' : stderr]).toEqual([0, ''])
  return stdout
}
type Listed = { id: string; plan: string }
const listed = async (run: ReturnType<typeof cli>): Promise<Listed[]> =>
  JSON.parse(await stdoutOf(run('keys list --json')))

const ONE = { ip: '192.0.2.1:80', type: 'http', works: 100 }
const FOUND = '200 192.0.2.1:80\n'
const DEMO = '200 192.0.0.0:80\n198.51.0.0:443\n'
const LIMITED = '429 RATE_LIMIT_EXCEEDED'

/** The installation of these tests, and its server. */
const dir = dataDirectory([ONE, { ip: '198.51.100.3:443', type: 'https', works: 100 }])
const run = cli(dir)
let service: Awaited<ReturnType<typeof startChild>>
beforeAll(async () => {
  service = await startChild(dir)
})
const askWith = (key: string, init: RequestInit = {}) =>
  ask(service, `/api?key=${key}&type=http&time=9999999`, init)

let made = 0
/** A new key on a new plan. */
function newKey(limits: Partial<Limits> = {}) {
  made += 1
  const [key, plan] = [`key-${made}`, `plan-${made}`]
  const [id = ''] = addKeys(dir, { [plan]: limits }, [{ key, plan }], T0)
  return { key, plan, id }
}
/** A new temporary key. */
function newTemporary() {
  made += 1
  const key = `temp_${made}`
  const [id = ''] = addKeys(dir, {}, [{ key, plan: null, expiresAt: T0 + DAY_MS }], T0)
  return { key, id }
}

describe('the next request sees', () => {
  test('rows that import adds, updates and removes', async () => {
    const before = await ask(service)
    await stdoutOf(run('import -', 'http://192.0.2.2:80\n'))
    expect(await ask(service, `${ASK}&type=http`)).toBe('200 192.0.2.1:80\n192.0.2.2:80\n')
    const all = '192.0.2.1:80,http,100\n198.51.100.3:443,https,100\n'
    await stdoutOf(run('import - --replace', `ip,type,works\n${all}`))
    expect(await ask(service)).toBe(before)
  })

  test('keys that keys add, temp and revoke change', async () => {
    for (const [command, code] of [
      ['keys add', 'INVALID_KEY'],
      ['keys temp', 'TEMP_KEY_INVALID'],
    ]) {
      const { stdout, stderr } = await run(String(command))
      expect(await askWith(stdout.trim())).toBe(FOUND)
      await stdoutOf(run(`keys revoke ${/key ([a-z0-9]{8})/.exec(stderr)?.[1]}`))
      expect(await askWith(stdout.trim())).toBe(`403 ${code}`)
    }
  })

  test('a plan that changes or is switched off; keys list shows the use of today', async () => {
    const { key, plan, id } = newKey()
    for (const _ of [1, 2, 3]) expect(await askWith(key)).toBe(FOUND)
    for (const [flags, answer] of [
      ['--daily 3', '429 DAILY_LIMIT_REACHED'],
      ['--daily 4', FOUND],
      ['--daily unlimited --burst 1/1h', LIMITED],
      ['--burst unlimited --enabled off', '403 INVALID_KEY'],
    ]) {
      await stdoutOf(run(`plans set ${plan} ${flags}`))
      expect(await askWith(key)).toBe(String(answer))
    }
    expect((await listed(run)).find(each => each.id === id)).toMatchObject({
      ...{ state: 'off', requests_today: 4, subnets_today: 0 },
    })
    await stdoutOf(run(`plans set ${plan} --enabled on`))
    expect(await askWith(key)).toBe(FOUND)
  })

  test('the plan and expiry of a key, which keys set changes one by one', async () => {
    const { key, plan, id } = newKey()
    expect(await run(`keys set ${id} --label renamed --note late`)).toMatchObject({
      stderr: `key ${id}: plan ${plan}, label renamed, note late, never expires\n`,
    })
    await stdoutOf(run('plans set once --burst 1/24h'))
    await stdoutOf(run(`keys set ${id} --plan once`))
    expect([await askWith(key), await askWith(key)]).toEqual([FOUND, LIMITED])
    await stdoutOf(run(`keys set ${id} --plan ${plan} --expires 60s`))
    expect(await run(`keys set ${id} --label x`)).toMatchObject({
      stderr: `key ${id}: plan ${plan}, label x, note late, until 2026-11-20T12:01:00.000Z\n`,
    })
    expect(await askWith(key)).toBe(FOUND)
    service.setClock(60)
    expect(await askWith(key)).toBe('403 INVALID_KEY')
    await stdoutOf(cli(dir, 60)(`keys set ${id} --expires never`))
    expect(await askWith(key)).toBe(FOUND)
    service.setClock(0)
  })
})

describe('keys rotate', () => {
  test('makes a new secret; the old one works until the overlap ends, and both share a limit', async () => {
    const { key, id } = newKey({ burst: { requests: 3, seconds: 86_400 } })
    expect(await askWith(key)).toBe(FOUND)
    const rotated = await run(`keys rotate ${id} --overlap 1h`)
    expect(rotated.stdout).toMatch(/^pl_[A-Za-z0-9]{32}\n$/)
    expect(rotated.stderr).toBe(
      `key ${id} has a new secret, the old one is valid until 2026-11-20T13:00:00.000Z; ` +
        'it is shown only once:\n',
    )
    const next = rotated.stdout.trim()
    // One key with one limit: three requests, whichever secret they come with.
    expect([await askWith(next), await askWith(key)]).toEqual([FOUND, FOUND])
    expect(await askWith(next)).toBe(LIMITED)
    const table = await stdoutOf(run(`keys show ${id}`))
    expect(table).toContain('old secret  valid until 2026-11-20T13:00:00.000Z\n')
    service.setClock(3600)
    expect([await askWith(key), await askWith(next)]).toEqual(['403 INVALID_KEY', LIMITED])
    const last = await stdoutOf(cli(dir, 3600)(`keys rotate ${id} --overlap 0s`))
    expect([await askWith(next), await askWith(last.trim())]).toEqual(['403 INVALID_KEY', LIMITED])
    service.setClock(0)
  })
})

test('keys show prints limits, use by day, and when the key was last seen', async () => {
  const used = dataDirectory([ONE], { burst: { requests: 2, seconds: 5 }, daily: 9, subnets: 4 })
  const own = await startChild(used)
  for (const seconds of [-DAY_MS / 1000, 0, 0, 0, HOUR_MS / 1000]) {
    own.setClock(seconds)
    await ask(own)
  }
  await own.stop() // which writes the records and refusals of the last second
  const [{ id } = { id: '' }] = await listed(cli(used))
  const shown = JSON.parse(await stdoutOf(cli(used, 3601)(`keys show ${id} --json`)))
  const hours = Array<number>(24).fill(0).with(12, 2).with(13, 1)
  expect(shown).toEqual({
    ...{ id, label: '', note: '', from: '', plan: 'free', state: 'active', expires: null },
    limits: [
      { name: 'burst', quota: 2, window: 5, left: 1, reset: 4 },
      { name: 'daily', quota: 9, window: 86_400, left: 6, reset: 39_599 },
      { name: 'subnets', quota: 4, window: 86_400, left: 3, reset: 39_599 },
    ],
    today: { requests: 3, records: 2, refused: 1, hours },
    ...{ prefix: KEY.slice(0, 8), created: '2026-11-20T12:00:00.000Z', old_secrets_until: [] },
    last_seen: '2026-11-20T13:00:00.000Z',
    days: [
      { day: '2026-11-19', requests: 1, records: 1, refused: 0 },
      { day: '2026-11-20', requests: 3, records: 2, refused: 1 },
    ],
  })
  const table = await stdoutOf(cli(used, 3601)(`keys show ${id}`))
  for (const line of [
    `id          ${id}\nprefix      ${KEY.slice(0, 8)}…\n`,
    'last seen   2026-11-20T13:00:00.000Z\n',
    'LIMIT    LEFT  OF  WINDOW    RESET IN\n',
    'burst    1     2   5 s       4 s\n',
    'today: 3 requests, 2 records, 1 refused\n',
    '2026-11-20  3         2        1\n',
  ]) {
    expect(table).toContain(line)
  }
})

describe('keys reset (B10)', () => {
  test('resets the window, the day, or both', async () => {
    const { key, id } = newKey({ burst: { requests: 1, seconds: 60 }, daily: 1 })
    expect(await askWith(key)).toBe(FOUND)
    for (const [flags, words, answer] of [
      [' --day', 'its requests and networks of today', LIMITED],
      [' --window', 'its burst window', FOUND],
      [' --window', 'its burst window', '429 DAILY_LIMIT_REACHED'],
      ['', 'its burst window, and its use of today', FOUND],
    ] as const) {
      const { stderr } = await run(`keys reset ${id}${flags}`)
      expect(stderr).toBe(`reset ${id}: ${words}\n`)
      expect(await askWith(key)).toBe(answer)
    }
  })

  test('resets all addresses of demo and temporary keys, or one', async () => {
    const [one, two] = ['198.51.100.1', '198.51.100.2']
    const statusOf = async (key: string, address: string) =>
      (await askWith(key, from(address))).slice(0, 3)
    for (const address of [one, one, two, two]) expect(await statusOf('demo', address)).toBe('200')
    expect(await run(`keys reset demo --address ${one}`)).toMatchObject({
      stderr: `reset demo from ${one}: its burst window, and its use of today\n`,
    })
    expect([await statusOf('demo', one), await statusOf('demo', two)]).toEqual(['200', '429'])
    await stdoutOf(run('keys reset demo'))
    expect([await statusOf('demo', one), await statusOf('demo', two)]).toEqual(['200', '200'])

    const { key, id } = newTemporary()
    for (const status of ['200', '200', '429']) expect(await statusOf(key, one)).toBe(status)
    await stdoutOf(run('keys reset temp'))
    expect(await statusOf(key, one)).toBe('429') // its key has a window of its own
    await stdoutOf(run(`keys reset ${id}`))
    expect(await statusOf(key, one)).toBe('200')
  })
})

test('plans set changes demo and temp on a running server, or switches them off', async () => {
  const demo = () => ask(service, '/api?key=demo', from('198.51.100.3'))
  const { key } = newTemporary()
  expect([await demo(), await askWith(key)]).toEqual([DEMO, FOUND])
  await stdoutOf(run('plans set demo --burst 4/24h --count 1 --daily 3'))
  for (const _ of [1, 2]) expect(await demo()).toBe('200 192.0.0.0:80\n')
  expect(await demo()).toBe('429 DAILY_LIMIT_REACHED')
  await stdoutOf(run('plans set demo --burst 2/24h'))
  const { text } = await service.request('/api?key=demo', from('198.51.100.3'))
  expect(text).toContain('the demo key allows 2 requests in 86400 s; retry after 86400 s')
  await stdoutOf(run('plans set demo --enabled off'))
  expect([await demo(), await askWith(key)]).toEqual(['403 INVALID_KEY', FOUND])
  await stdoutOf(run('plans set temp --enabled off'))
  expect(await askWith(key)).toBe('403 TEMP_KEY_INVALID')
})

describe('keys export and keys import', () => {
  test('move keys with their hashes: the same secrets work elsewhere', async () => {
    const here = dataDirectory([ONE])
    const texts = { label: 'é "x"', note: 'owes "é"', from: '127.0.0.0/8,2001:db8::/32' }
    addKeys(here, {}, [{ key: 'temp_one', plan: null, expiresAt: T0 + DAY_MS, ...texts }], T0)
    const first = (await listed(cli(here))).find(({ plan }) => plan === 'free')
    const next = (await stdoutOf(cli(here)(`keys rotate ${first?.id} --overlap 1h`))).trim()
    const exported = await stdoutOf(cli(here)('keys export'))
    expect(exported.trim().split('\n')).toHaveLength(2)
    for (const secret of [KEY, next, 'temp_one']) expect(exported).not.toContain(secret)

    const other = temporaryDirectory()
    addList(other, [ONE])
    const there = cli(other)
    expect(await there('keys import -', exported)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(
        /^-:[12]: there is no plan 'free'; make it with: proxylist plans set free\nproxylist: -: 1 bad line; no key was imported\n$/,
      ),
    })
    expect(await listed(there)).toEqual([])
    await stdoutOf(there('plans set free'))
    const file = join(temporaryDirectory(), 'keys.ndjson')
    writeFileSync(file, exported)
    expect(await there(`keys import ${file}`)).toMatchObject({ stderr: '2 keys are imported\n' })
    expect(await stdoutOf(there('keys export'))).toBe(exported)
    const own = await startChild(other)
    for (const key of [KEY, next, 'temp_one']) {
      expect(await ask(own, `/api?key=${key}`)).toBe(FOUND)
    }
    await own.stop()
    expect(await there(`keys import ${file}`)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(`: this key exists, as ${first?.id} or in an earlier line\n`),
    })
  })
})
