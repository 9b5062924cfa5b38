/**
 * Imports as several processes: the first `import --replace` of a data directory, servers and other
 * imports meanwhile, and signals.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { ASK, addList, dataDirectory } from '../support/fixtures.ts'
import { proxylist, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const SHARED = 'http://192.0.2.200:80\n'
const listOf = (n: number): string =>
  `http://192.0.2.${n}:80\nhttp://192.0.2.${n + 100}:80\n${SHARED}`
const importOf = (dir: string, stdin: string, ...more: string[]) =>
  proxylist(['import', '-', '--json', '--data', dir, ...more], { stdin })
const listed = async (dir: string): Promise<string[]> =>
  (await proxylist(['list', '--data', dir])).stdout.trim().split('\n').sort()
const lines = (text: string): string[] => text.trim().replaceAll('http://', '').split('\n').sort()

/** Damages a list so that it can only be replaced. */
function damage(dir: string): void {
  const file = join(dir, PROXY_FILE)
  writeFileSync(file, readFileSync(file).fill(255, 4096))
}

const NO_LIST: readonly (readonly [what: string, make: () => string])[] = [
  ['no list', temporaryDirectory],
  ['no data directory', () => join(temporaryDirectory(), 'some', 'where')],
  [
    'a damaged list',
    () => {
      const dir = dataDirectory([])
      addList(dir, [{ ip: '192.0.2.99:80', type: 'http' }])
      damage(dir)
      return dir
    },
  ],
]

describe.each(NO_LIST)('the first import --replace where there is %s', (_, make) => {
  test('makes the list, and leaves nothing beside it', async () => {
    const dir = make()
    const { exitCode, stdout } = await importOf(dir, listOf(1), '--replace')
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ read: 3, added: 3 })
    expect(await listed(dir)).toEqual(lines(listOf(1)))
    const beside = readdirSync(dir).filter(name => name !== PROXY_FILE && name !== 'access.db')
    expect(beside).toEqual([])
  })

  test('takes a lock: of five at once, each sees what the one before has left', async () => {
    const dir = make()
    const outcomes = await Promise.all(
      [1, 2, 3, 4, 5].map(n => importOf(dir, listOf(n), '--replace')),
    )
    expect(outcomes.map(({ exitCode, stderr }) => (exitCode === 0 ? '' : stderr))).toEqual(
      Array(5).fill(''),
    )
    const counts = outcomes.map(({ stdout }) => JSON.parse(stdout))
    expect(
      counts.map(({ added, unchanged, removed }) => [added, unchanged, removed]).sort(),
    ).toEqual([
      [2, 1, 2],
      [2, 1, 2],
      [2, 1, 2],
      [2, 1, 2],
      [3, 0, 0],
    ])
    const found = await listed(dir)
    expect([1, 2, 3, 4, 5].map(n => lines(listOf(n)))).toContainEqual(found)
  })
})

test('rows that other imports add to a list that is not there yet do not vanish', async () => {
  const dir = temporaryDirectory()
  const numbers = [1, 2, 3, 4, 5, 6]
  const outcomes = await Promise.all(
    numbers.map(n => importOf(dir, `http://192.0.2.${n}:80\n`, ...(n === 1 ? ['--replace'] : []))),
  )
  const counts = outcomes.map(({ stdout }) => JSON.parse(stdout))
  const removed = counts.reduce((sum, { removed }) => sum + removed, 0)
  expect(counts.map(({ added }) => added)).toEqual([1, 1, 1, 1, 1, 1])
  expect(await listed(dir)).toHaveLength(numbers.length - removed)
})

/** Whether some process has locked the list. */
function isLocked(dir: string): boolean {
  const file = join(dir, PROXY_FILE)
  if (!existsSync(file)) return false
  const db = new Database(file)
  try {
    db.run('begin immediate')
    db.run('rollback')
    return false
  } catch {
    return true
  } finally {
    db.close()
  }
}

/** An import that has locked the list and waits for more of its source. */
async function startImport(dir: string, ...more: string[]) {
  const child = startProgram(['import', '-', '--data', dir, ...more])
  child.stdin.write('http://192.0.2.1:80\n'.repeat(8000))
  child.stdin.flush()
  while (!isLocked(dir)) await Bun.sleep(1)
  return child
}

test('a server that starts during the first import --replace does not answer 503', async () => {
  const dir = dataDirectory([])
  for (const end of ['', '-wal', '-shm']) rmSync(join(dir, PROXY_FILE + end), { force: true })
  await using child = await startImport(dir, '--replace')
  const server = await startChild(dir)
  expect(await ask(server, '/readyz')).toBe('200 ready\n')
  expect(await ask(server, ASK)).toStartWith('404 PROXIES_NOT_FOUND')
  child.stdin.end()
  expect(await child.ended).toBe(0)
  const seen = new Set<string>()
  for (;;) {
    const answer = await ask(server, ASK)
    seen.add(answer.slice(0, 3))
    if (answer.startsWith('200')) break
  }
  expect(seen.has('503')).toBeFalse()
  await server.stop()
})

const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const
const KEPT = 'proxylist: interrupted; nothing was imported, the list is as it was\n'

describe.each(SIGNALS)('%s ends an import with status %d and one sentence', (signal, status) => {
  test('while its source is silent, and leaves no WAL', async () => {
    const dir = temporaryDirectory()
    await importOf(dir, listOf(1))
    await using child = await startImport(dir, '--replace', '--allow-shrink')
    child.kill(signal)
    expect(await child.ended).toBe(status)
    expect(child.written).toEqual({ stdout: '', stderr: KEPT })
    expect(readdirSync(dir)).toEqual([PROXY_FILE])
    expect(await listed(dir)).toEqual(lines(listOf(1)))
  })

  test('while it waits for another import', async () => {
    const dir = temporaryDirectory()
    await using first = await startImport(dir)
    await using second = startProgram(['import', '-', '--data', dir])
    second.stdin.write(SHARED)
    second.stdin.end()
    const waiting = 'another import has locked the list; waiting for its end\n'
    await second.says(/waiting for its end\n/)
    second.kill(signal)
    expect(await second.ended).toBe(status)
    expect(second.written.stderr).toBe(waiting + KEPT)
    first.stdin.end()
    expect(await first.ended).toBe(0)
    expect(await listed(dir)).toEqual(['192.0.2.1:80'])
  })
})

test('proxies.db does not stay large after a replace down to 2 rows, while a server uses it', async () => {
  const dir = dataDirectory([])
  const rows = Array.from(
    { length: 150_000 },
    (_, i) => `http://10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80\n`,
  )
  expect((await importOf(dir, rows.join(''))).exitCode).toBe(0)
  const file = join(dir, PROXY_FILE)
  expect(statSync(file).size).toBeGreaterThan(20_000_000)
  const server = await startChild(dir)
  expect(await ask(server, `${ASK}&count=1`)).toStartWith('200 ')
  const two = 'http://192.0.2.1:80\nhttp://192.0.2.2:80\n'
  expect((await importOf(dir, two, '--replace', '--allow-shrink')).exitCode).toBe(0)
  expect(await ask(server, ASK)).toBe('200 192.0.2.1:80\n192.0.2.2:80\n')
  expect(statSync(file).size).toBeLessThan(1_000_000)
  expect(await ask(server, '/readyz')).toBe('200 ready\n')
  await server.stop()
  expect(server.output()).not.toContain('truncated')
  expect((await proxylist(['doctor', '--data', dir])).stdout).toMatch(/^list +ok /m)
})
