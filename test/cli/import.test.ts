import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openList, withListToReplace } from '../../src/sqlite/stores.ts'
import { ask } from '../support/answer.ts'
import { ASK, dataDirectory, fillList, T0 } from '../support/fixtures.ts'
import { at } from '../support/incoming.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { directoryOf, runCommand, runStep, testTranscripts } from '../support/transcript.ts'
import { counts, FORMATS, FOUND, GUARDS, ROWS, WHOLE_LISTS } from './import.cases.ts'
import { MIXED } from './list.cases.ts'

afterAll(cleanUp)

testTranscripts('import reads every format', FORMATS)
testTranscripts('import rejects single rows', ROWS)
testTranscripts('import takes whole lists', WHOLE_LISTS)
testTranscripts('import --replace is guarded', GUARDS)
testTranscripts('import maps columns', FOUND)

describe('list prints text that import reads back, byte for byte', () => {
  const forms = ['json', 'json&format=object&wrap=1&pretty=0&split_ip=1'].concat(
    'csv',
    'csv.file&sort=ping&split_ip=1',
    'ndjson',
    'ndjson.file&sort=works&split_ip=1',
  )
  test.each(forms)('get=%s', async form => {
    const cwd = directoryOf()
    const list = openList(join(cwd, 'data'))
    fillList(list, MIXED)
    list.close()
    const query = `time=999999999999999&get=${form}`
    const first = await runStep(cwd, { args: ['list', query], stdout: /Омск/ })
    const copy = ['--data', 'copy']
    const imported = counts({ read: 4, added: 4 })
    const args = ['import', '-', '--json', ...copy]
    const stderr =
      'note: 1 row was last checked over 7 days ago; serve deletes them (--retain) unless the whole list is so old\n'
    await runStep(cwd, { args, stdin: first.stdout, stdout: imported, stderr })
    await runStep(cwd, { args: ['list', query, ...copy], stdout: first.stdout })
    const unchanged = counts({ read: 4, unchanged: 4 })
    await runStep(cwd, { args: 'import - --json', stdin: first.stdout, stdout: unchanged, stderr })
  })
})

const SHARED = 'http://192.0.2.200:80\n'
const listOf = (n: number): string =>
  `http://192.0.2.${n}:80\nhttp://192.0.2.${n + 100}:80\n${SHARED}`
const importOf = (dir: string, stdin: string, ...more: string[]) =>
  proxylist(['import', '-', '--json', '--data', dir, ...more], { stdin })
const listed = async (dir: string): Promise<string[]> =>
  (await runCommand(['list', '--data', dir])).stdout.trim().split('\n').sort()
const lines = (text: string): string[] => text.trim().replaceAll('http://', '').split('\n').sort()

const NO_LIST: readonly (readonly [what: string, make: () => string])[] = [
  ['no list', temporaryDirectory],
  ['no data directory', () => join(temporaryDirectory(), 'some', 'where')],
]

test.each(NO_LIST)(
  'five commands import --replace run one after the other where there is %s',
  async (_, make) => {
    const dir = make()
    const numbers = [1, 2, 3, 4, 5]
    const outcomes = await Promise.all(numbers.map(n => importOf(dir, listOf(n), '--replace')))
    expect(outcomes.map(({ exitCode, stderr }) => (exitCode === 0 ? '' : stderr))).toEqual(
      Array(5).fill(''),
    )
    const done = outcomes.map(({ stdout }) => JSON.parse(stdout))
    const changes = done.map(({ added, unchanged, removed }) => [added, unchanged, removed].join())
    expect(changes.sort()).toEqual([...Array<string>(4).fill('2,1,2'), '3,0,0'])
    expect(numbers.map(n => lines(listOf(n)))).toContainEqual(await listed(dir))
    const beside = readdirSync(dir).filter(name => name !== PROXY_FILE && name !== 'access.db')
    expect(beside).toEqual([])
  },
)

/** An import that waits for more of its source: it has read more than pipes hold. */
async function startImport(dir: string, ...more: string[]) {
  const child = startProgram(['import', '-', '--data', dir, ...more])
  child.stdin.write('http://192.0.2.1:80\n'.repeat(40_000))
  await child.stdin.flush()
  return child
}

test.each([
  ['import', []],
  ['import --replace', ['--replace']],
])('a stalled source locks no list: %s', async (_, more) => {
  const dir = temporaryDirectory()
  await using stalled = await startImport(dir, ...more)
  expect(await importOf(dir, listOf(2))).toMatchObject({ exitCode: 0, stderr: '' })
  expect(await listed(dir)).toEqual(lines(listOf(2)))
  expect(readdirSync(dir)).toEqual([PROXY_FILE])
  stalled.stdin.write('http://192.0.2.9:80\n')
  stalled.stdin.end()
  expect(await stalled.ended).toBe(0)
  const own = lines('192.0.2.1:80\n192.0.2.9:80\n')
  expect(await listed(dir)).toEqual([...own, ...(more.length > 0 ? [] : lines(listOf(2)))].sort())
})

test('a server that starts during a first import --replace does not answer 503', async () => {
  const dir = dataDirectory([])
  for (const end of ['', '-wal', '-shm']) rmSync(join(dir, PROXY_FILE + end), { force: true })
  const imported = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const replacing = withListToReplace(
    dir,
    () => T0,
    async list => {
      const importTx = list.begin('replace')
      await importTx.lock()
      locked.resolve()
      await imported.promise
      importTx.add(at(1))
      importTx.commit()
    },
    { onDamage() {} },
  )
  await locked.promise
  const server = await startChild(dir)
  expect(await ask(server, '/readyz')).toBe('200 ready\n')
  expect(await ask(server, ASK)).toStartWith('404 PROXIES_NOT_FOUND')
  imported.resolve()
  await replacing
  const seen = new Set<string>()
  for (;;) {
    const answer = await ask(server, ASK)
    seen.add(answer.slice(0, 3))
    if (answer.startsWith('200')) break
  }
  expect(seen.has('503')).toBeFalse()
  await server.stop()
})

const KEPT = 'proxylist: interrupted; nothing was imported, the list is as it was\n'

describe('a signal ends an import with one sentence', () => {
  test('while its source is silent, without leaving a WAL', async () => {
    const dir = temporaryDirectory()
    await importOf(dir, listOf(1))
    await using child = await startImport(dir, '--replace', '--allow-shrink')
    child.kill('SIGINT')
    expect(await child.ended).toBe(130)
    expect(child.written).toEqual({ stdout: '', stderr: KEPT })
    expect(readdirSync(dir)).toEqual([PROXY_FILE])
    expect(await listed(dir)).toEqual(lines(listOf(1)))
  })

  test('while it waits for another import', async () => {
    const dir = temporaryDirectory()
    using list = openList(dir)
    const first = list.begin('merge')
    await first.lock()
    await using second = startProgram(['import', '-', '--data', dir])
    second.stdin.write(SHARED)
    second.stdin.end()
    await second.says(/waiting for its end\n/)
    second.kill('SIGTERM')
    expect(await second.ended).toBe(143)
    const waiting = 'another import has locked the list; waiting for its end\n'
    expect(second.written.stderr).toBe(waiting + KEPT)
    first.add(at(1))
    first.commit()
    expect(await listed(dir)).toEqual(['10.0.0.1:80'])
  })
})

test('Ctrl-Z does not suspend an import', async () => {
  const dir = temporaryDirectory()
  await using child = await startImport(dir)
  child.kill('SIGTSTP')
  await child.says(/^not suspended, as it may have locked the data; Ctrl-C ends it\n/)
  child.stdin.write(SHARED)
  child.stdin.end()
  expect(await child.ended).toBe(0)
})
