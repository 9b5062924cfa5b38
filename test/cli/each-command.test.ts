/** Each command once as a program of its own: the binary in `make test`. All else of commands is tested in process. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { BINARY, proxylist } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, runStep, type Step } from '../support/transcript.ts'

afterAll(cleanUp)

/** A key as `keys export` writes it. */
const EXPORTED = JSON.stringify({
  ...{ id: 'k3x9m2ab', hash: 'a'.repeat(64), prefix: 'pl_aaaaa', label: 'moved', note: '' },
  ...{ plan: 'small', created: '2026-11-20T12:00:00Z', expires: null, revoked: null },
  old_secrets: [],
})
const SECRET = /^pl_\w{32}\n$/

const COMMIT = BINARY === undefined ? 'source' : '(?:[0-9a-f]{12}|unknown)'
const VERSION_LINE = new RegExp(`^proxylist ${RegExp.escape(version)} \\(commit ${COMMIT}, `)

const STEPS: readonly Step[] = [
  { args: 'version', stdout: VERSION_LINE },
  { args: 'help feeds', stdout: /^# Feeds\n/ },
  { args: 'import a.txt', stderr: /^read 2, added 2, / },
  { args: 'fetch --feed b.txt', stdout: /\nb\.txt +2026-11-20T12:00:00\.000Z +1 / },
  { args: 'feeds', stdout: /\nb\.txt / },
  { args: 'list type_prefix=1&type=http', stdout: 'http://192.0.2.1:80\nhttp://192.0.2.3:80\n' },
  { args: 'plans set small --daily 9', stderr: /^plan small: .* daily 9,/ },
  { args: 'plans list', stdout: /\nsmall +5\/5s +9 / },
  { args: 'keys import -', stdin: EXPORTED, stderr: '1 key is imported\n' },
  { args: 'keys export', stdout: /^\{"id":"k3x9m2ab",.*\}\n$/ },
  { args: 'keys add --label first', stdout: SECRET, stderr: /^key \w{8} on plan standard, / },
  { args: 'keys temp', stdout: /^temp_\w{32}\n$/, stderr: /until 2026-11-21T12:00:00/ },
  { args: 'keys list', stdout: /\nk3x9m2ab +pl_aaaaa… +small +active / },
  { args: 'keys show k3x9m2ab', stdout: /\nlabel +moved\n/ },
  { args: 'keys set k3x9m2ab --label set', stderr: /^key k3x9m2ab: plan small, label set, / },
  { args: 'keys rotate k3x9m2ab', stdout: SECRET, stderr: /^key k3x9m2ab has a new secret, / },
  { args: 'keys reset k3x9m2ab', stderr: /^reset k3x9m2ab: its burst window/ },
  { args: 'keys revoke k3x9m2ab', stderr: 'key k3x9m2ab is revoked\n' },
  { args: 'keys remove k3x9m2ab', stderr: 'key k3x9m2ab is removed\n' },
  { args: 'plans remove small', stderr: 'plan small is removed\n' },
  { args: 'stats', stdout: /\nList: 3 proxies, / },
  { args: 'backup b.tar', stderr: /^b\.tar: \d+ kB with access\.db .* and proxies\.db / },
  { args: 'restore b.tar --data c', stderr: /^c: restored .* from b\.tar\n$/ },
  { args: 'doctor', stdout: /^CHECK +STATE +FOUND\nprogram +ok / },
  { args: 'console', stdout: /#token=[\w-]{43}\n$/, stderr: /^no console answers there yet; / },
  { args: 'health --listen 127.0.0.1:9', exitCode: 1, stderr: /^proxylist: no server answers at / },
  { args: 'nodes', exitCode: 2, stderr: 'proxylist: name the database with --database\n' },
  { args: 'check', exitCode: 2, stderr: /^proxylist: --judge URL is required; / },
  { args: 'check explain 192.0.2.1:80', stdout: /is not known to the checker/ },
  { args: 'judge', exitCode: 2, stderr: /^proxylist: --judge-secret FILE is required: / },
  { args: 'completions bash', stdout: /\n_proxylist\(\) \{\n/ },
  { args: 'systemd-unit', stdout: /\nExecStart=/ },
  { args: 'serve --metrics-open', exitCode: 2, stderr: /^proxylist: --metrics-open is for / },
  { args: 'lst', exitCode: 2, stderr: /did you mean 'list'\?\n$/ },
]

test('each command works as a program, and makes files only for its user', async () => {
  const cwd = directoryOf({
    'a.txt': 'http://192.0.2.1:80\nsocks5://192.0.2.2:80\n',
    'b.txt': 'http://192.0.2.3:80\n',
  })
  for (const step of STEPS) await runStep(cwd, step, proxylist)
  const filesOf = (dir: string) => readdirSync(join(cwd, dir)).map(name => join(dir, name))
  const made = ['b.tar', 'data', ...filesOf('data'), 'c', ...filesOf('c')]
  expect(made.filter(path => (statSync(join(cwd, path)).mode & 0o077) !== 0)).toEqual([])
  const lines = STEPS.map(({ args }) => `${args} `)
  const isRun = (name: string): boolean => lines.some(line => line.startsWith(`${name} `))
  expect(COMMANDS.map(({ name }) => name).filter(name => !isRun(name))).toEqual([])
})

test.skipIf(BINARY === undefined)('the binary ignores .env and bunfig.toml', async () => {
  const cwd = directoryOf({
    '.env': 'PROXYLIST_JSON=1\nPROXYLIST_DATA=elsewhere\n',
    'bunfig.toml': 'preload = ["./loud.ts"]\n',
    'loud.ts': 'process.stdout.write("hello from the preload")\n',
  })
  await runStep(cwd, { args: 'plans set classic', stderr: /^plan classic: / }, proxylist)
  await runStep(cwd, { args: 'plans list', stdout: /^NAME [^\n]*\nclassic / }, proxylist)
  expect(existsSync(join(cwd, 'data', ACCESS_FILE))).toBeTrue()
  expect(existsSync(join(cwd, 'elsewhere'))).toBeFalse()
})
