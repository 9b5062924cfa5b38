import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { HOUR_MS } from '../../src/lib/time.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { addKeys, T0 } from '../support/fixtures.ts'
import { cleanUp } from '../support/temporary.ts'
import {
  directoryOf,
  fails,
  prints,
  runCommand,
  runStep,
  testTranscripts,
} from '../support/transcript.ts'
import { FEEDS } from './feeds.cases.ts'
import { LISTS } from './list.cases.ts'
import { KEYS, PLAN_STEPS, TWINS } from './registry.cases.ts'

afterAll(cleanUp)

testTranscripts('feeds', FEEDS)
testTranscripts('list', LISTS)
testTranscripts('keys', KEYS)
testTranscripts('plans', PLAN_STEPS)
testTranscripts('environment variables', TWINS)

/** A port that nothing listens on: discard. */
const NOWHERE = '127.0.0.1:9'
const urlAt = (origin: string): RegExp =>
  new RegExp(`^http://${RegExp.escape(origin)}/#token=[\\w-]{43}\\n$`)
const hint = (where: string): string =>
  `no console answers there yet; start it with: proxylist serve --admin-listen ${where}\n`
const REVOKED = 'the previous token is no longer valid\n'
const TUNNEL = 'from your own machine: ssh -N -L 8081:/run/none/admin.sock USER@HOST, then open:\n'

testTranscripts('console', [
  {
    name: 'prints its URL with a new token, and says how to start and reach the server',
    files: { 'data/.keep': '' },
    steps: [
      prints(`console --admin-listen ${NOWHERE}`, urlAt(NOWHERE), hint(NOWHERE)),
      // It prints an address that a browser can open.
      prints('console --admin-listen :9', urlAt(NOWHERE), REVOKED + hint('[::]:9')),
      prints(
        'console --admin-listen unix:/run/none/admin.sock',
        urlAt('127.0.0.1:8081'),
        REVOKED + hint('unix:/run/none/admin.sock') + TUNNEL,
      ),
    ],
  },
])

test('keys list shows state, plan, end, and only the prefix of a key', async () => {
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
  ].map((each, i) => {
    const { key = '', plan = null, label = '', note = '' } = keys[i] ?? {}
    return {
      ...{ id: ids[i] ?? '', prefix: key.slice(0, 8), plan, label, note, from: '', ...each },
      ...{ requests_today: 0, subnets_today: 0, created: '2026-11-20T12:00:00.000Z' },
    }
  })
  const table = await runStep(cwd, { args: 'keys list', stdout: /^ID / })
  const json = await runStep(cwd, { args: 'keys list --json', stdout: /^\[\n/ })
  expect(JSON.parse(json.stdout)).toEqual(shown.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
  for (const { id, prefix, state } of shown) {
    expect(table.stdout).toMatch(
      new RegExp(`^${id} +${RegExp.escape(`${prefix}…`)} .* ${state} `, 'm'),
    )
  }
  expect(table.stdout).toMatch(/ LABEL +NOTE\n(?:.*\n)*.* Örn & Co +late\n/)
  expect(table.stdout + json.stdout).not.toContain('xxxx') // an id may have two
})

test('--json prints the key or plan that a command made, changed or removed', async () => {
  const cwd = directoryOf()
  const ask = async (line: string) =>
    JSON.parse(
      (await runStep(cwd, { args: `${line} --json`, stdout: /^\{\n/, stderr: /./ })).stdout,
    )
  const texts = { plan: 'classic', label: 'first', note: '', from: '' }
  const given = 'first-0123456789'
  const made = await ask(`keys add --plan classic --label first --expires 1d --key ${given}`)
  const { id } = made
  expect(id).toMatch(/^[a-z0-9]{8}$/)
  expect(made).toEqual({ id, ...texts, expires: '2026-11-21T12:00:00.000Z', key: given })
  const temp = { plan: 'temp', expires: '2026-11-20T13:00:00.000Z' }
  expect(await ask('keys temp --ttl 1h')).toMatchObject(temp)
  const changed = { id, ...texts, note: 'late', from: '192.0.2.0/24', expires: null }
  const set = `keys set ${id} --note late --from 192.0.2.0/24 --expires never`
  expect(await ask(set)).toEqual(changed)
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
  const { stdout: plans } = await runStep(cwd, { args: 'plans list --json', stdout: /./ })
  expect(JSON.parse(plans)).toContainEqual(plan)
  expect(await ask('plans remove small')).toEqual({ name: 'small', state: 'removed' })
})

/** `test/sqlite` has everything that can be wrong with a file; these are the ways to open one. */
test.each([
  ['list', PROXY_FILE],
  ['import a.txt', PROXY_FILE],
  ['keys list', ACCESS_FILE],
  ['plans set x', ACCESS_FILE],
  ['serve --listen 127.0.0.1:0', ACCESS_FILE],
])('%s names a file that is not a database', async (line, file) => {
  const other = file === PROXY_FILE ? ACCESS_FILE : PROXY_FILE
  const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n', [`data/${file}`]: 'x'.repeat(9999) })
  const { stderr } = await runStep(cwd, fails(line, /^proxylist: [^\n]+\n$/))
  expect(stderr).toContain(`data/${file} is not a database; `)
  expect(stderr).toEndWith('restore a backup with: proxylist restore --force FILE\n')
  expect(stderr).not.toContain(other)
})

test.each(['keys add', 'keys temp', 'plans set small'])(
  '%s says once that it makes a data directory',
  async args => {
    const cwd = directoryOf()
    const run = async () => (await runCommand(args.split(' '), { cwd })).stderr
    expect(await run()).toStartWith(
      `there is no data directory ${join(cwd, 'data')}; making a new one\n`,
    )
    expect(await run()).not.toContain('data directory')
  },
)
