/**
 * Commands on keys, plans, lists and feeds, and on data directories: status, stdout and stderr, of the
 * program from source or of the binary.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, take, testTranscripts } from '../support/transcript.ts'
import { CONSOLE } from './console.cases.ts'
import { DAMAGES, READERS } from './data.cases.ts'
import { BAD_FEEDS, FEEDS } from './feeds.cases.ts'
import { LISTS } from './list.cases.ts'
import { KEYS, PLAN_STEPS, TWINS } from './registry.cases.ts'

afterAll(cleanUp)

testTranscripts('feeds', FEEDS)
testTranscripts('feeds that are refused', BAD_FEEDS)
testTranscripts('list', LISTS)
testTranscripts('keys', KEYS)
testTranscripts('plans', PLAN_STEPS)
testTranscripts('console', CONSOLE)
testTranscripts('environment twins', TWINS)

describe('keys over their life', () => {
  const inFull = '$KEY1234567890123456789012345678901234567890'

  test('keys list shows state, plan and end, and of a key no more than its prefix', async () => {
    const cwd = directoryOf()
    const made = [
      await take(cwd, {
        args: ['keys', 'add', '--label', 'Örn & Co'],
        stdout: /^pl_/,
        stderr: /./,
      }),
      await take(cwd, { args: 'keys temp --ttl 2h', stdout: /^temp_/, stderr: /./ }),
      await take(cwd, { args: ['keys', 'add', '--key', inFull], stdout: /./, stderr: /./ }),
    ]
    const ids = made.map(({ stderr }) => /key ([a-z0-9]{8})/.exec(stderr)?.[1] ?? 'none')
    await take(cwd, {
      args: ['keys', 'revoke', ids[2] ?? ''],
      stderr: `key ${ids[2]} is revoked\n`,
    })
    const table = await take(cwd, { args: 'keys list', stdout: /^ID / })
    const json = await take(cwd, { args: 'keys list --json', stdout: /^\[\n/ })
    for (const { stdout: key } of made) {
      expect(table.stdout + json.stdout).not.toContain(key.slice(0, 12))
    }
    const none = { requests_today: 0, subnets_today: 0, created: '2026-11-20T12:00:00.000Z' }
    const regular = { kind: 'regular', plan: 'standard', expires: null, ...none }
    const soon = '2026-11-20T14:00:00.000Z'
    const keys = [
      {
        ...regular,
        id: ids[0],
        prefix: made[0]?.stdout.slice(0, 8),
        label: 'Örn & Co',
        state: 'active',
      },
      { ...none, id: ids[1], prefix: made[1]?.stdout.slice(0, 8), label: '', state: 'active' },
      { ...regular, id: ids[2], prefix: '$KEY1234', label: '', state: 'revoked' },
    ]
    Object.assign(keys[1] ?? {}, { kind: 'temporary', plan: null, expires: soon })
    keys.sort((a, b) => (`${a.id}` < `${b.id}` ? -1 : 1))
    expect(JSON.parse(json.stdout)).toEqual(keys)
    for (const { id, prefix, state } of keys) {
      expect(table.stdout).toMatch(
        new RegExp(`^${id} +${prefix?.replace('$', '\\$')}… .* ${state} `, 'm'),
      )
    }
  })

  test('a key is nowhere in the files, and never printed twice', async () => {
    const cwd = directoryOf()
    await take(cwd, { args: ['keys', 'add', '--key', inFull], stdout: `${inFull}\n`, stderr: /./ })
    const again = await take(cwd, {
      args: ['keys', 'add', '--key', inFull],
      exitCode: 1,
      stderr: /./,
    })
    expect(again.stderr).not.toContain(inFull.slice(0, 12))
    const bytes = await Bun.file(join(cwd, 'data', ACCESS_FILE)).text()
    expect(bytes).toContain('$KEY1234')
    expect(bytes).not.toContain(inFull.slice(0, 12))
  })

  test('a key past its end is expired', async () => {
    const cwd = directoryOf()
    const registry = openRegistry(join(cwd, 'data'))
    const past = { key: 'k', label: '', plan: 'standard', expiresAt: 1 }
    registry.keys.add(past, 0)
    registry.close()
    await take(cwd, { args: 'keys list', stdout: / standard +expired +1970-01-01T00:00:00\.001Z / })
  })
})

describe.each(DAMAGES)('%s is named in one sentence', (_, damage, says) => {
  test.each(READERS)('by %s', async (line, file) => {
    const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n' })
    mkdirSync(join(cwd, 'data'))
    damage(join(cwd, 'data'))
    const step = { args: line.split(' '), exitCode: 1, stderr: /^proxylist: [^\n]+\n$/ }
    const { stderr } = await take(cwd, step)
    expect(stderr).toContain(join('data', file))
    expect(stderr.trimEnd()).toMatch(says)
  })
})

describe('data directories', () => {
  test.each(READERS)('one that cannot be made is named: %s', async line => {
    const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n' })
    const args = [...line.split(' '), '--data', '/dev/null/x']
    await take(cwd, { args, exitCode: 1, stderr: /^proxylist: [^\n]* \/dev\/null\/x[^\n]*\n$/ })
  })

  test('a new one is only its owner’s: mode 0700, files 0600', async () => {
    const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n' })
    await take(cwd, { args: 'import a.txt --data deep/data', stderr: /./ })
    await take(cwd, { args: 'keys add --data deep/data', stdout: /./, stderr: /./ })
    const modes = ['deep/data', `deep/data/${PROXY_FILE}`, `deep/data/${ACCESS_FILE}`].map(path =>
      (statSync(join(cwd, path)).mode & 0o777).toString(8),
    )
    expect(modes).toEqual(['700', '600', '600'])
  })
})
