/**
 * What the server does when the files of its databases are damaged, removed or replaced: it answers 503, says
 * one sentence, and answers correctly once the files are repaired.
 * What needs a full disk is in `test/lab/torture/faults.ts`.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { chownSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { ask } from '../support/answer.ts'
import { overwriteRoots } from '../support/damage.ts'
import { ASK, dataDirectory, type TestRow } from '../support/fixtures.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = Array.from({ length: 400 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: 'http',
  age: i % 500,
  speed: 1000 + i,
}))
const QUERY = `${ASK}&count=20&get=json`
const UNAVAILABLE = '503 DB_EXECUTE_FAILED'
const NEW_LIST = 'http://192.0.2.9:80\n'
const NEW_ANSWER = '200 192.0.2.9:80\n'

type Child = Awaited<ReturnType<typeof startChild>>

/** A server on a list, its right answer, and where the files are. */
async function serving() {
  const dir = dataDirectory(ROWS)
  const server = await startChild(dir)
  const right = await ask(server, QUERY)
  expect(right).toStartWith('200 ')
  return { dir, server, right, list: join(dir, PROXY_FILE), access: join(dir, ACCESS_FILE) }
}

/** Asks until the answer is this one: a server verifies its files every second. */
async function until(server: Child, answer: string, path = ASK): Promise<void> {
  while ((await ask(server, path)) !== answer) await Bun.sleep(5)
}

const replaceList = (dir: string) =>
  proxylist(['import', '-', '--replace', '--data', dir], { stdin: NEW_LIST })

const sentences = (server: Child, about: string): string[] =>
  server
    .output()
    .split('\n')
    .filter(line => !line.startsWith('{') && line.includes(about))

const REMOVALS: readonly (readonly [string, (file: string) => void])[] = [
  ['its removal', file => rmSync(file)],
  [
    'its removal with the WAL',
    file => {
      for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true })
    },
  ],
]

describe.each(REMOVALS)('after %s', (_, remove) => {
  test('of proxies.db, the server answers 503 within a second, and answers from a new list', async () => {
    const { dir, server, list } = await serving()
    remove(list)
    await until(server, UNAVAILABLE, QUERY)
    expect(await ask(server, '/readyz')).toBe(UNAVAILABLE)
    expect(await ask(server, '/healthz')).toBe('200 ok\n')
    expect(await ask(server, '/api?key=nobody')).toBe('403 INVALID_KEY')
    expect(await replaceList(dir)).toMatchObject({ exitCode: 0 })
    await until(server, NEW_ANSWER)
    expect(await ask(server, '/readyz')).toBe('200 ready\n')
    await server.stop()
    const said = sentences(server, PROXY_FILE)
    expect(said.length).toBeLessThanOrEqual(5)
    expect(said[0]).toContain('; answering 503')
  })
})

describe('a list that is damaged before the start', () => {
  test('is refused by list and import, except with --replace, which says so', async () => {
    const dir = dataDirectory(ROWS)
    overwriteRoots(join(dir, PROXY_FILE))
    const damaged = expect.stringMatching(/^proxylist: \S+ is damaged.* --replace[^\n]*\n$/)
    for (const args of [['list'], ['import', '-']]) {
      const outcome = await proxylist([...args, '--data', dir], { stdin: NEW_LIST })
      expect(outcome).toEqual({ exitCode: 1, stdout: '', stderr: damaged as never })
    }
    const { exitCode, stderr } = await replaceList(dir)
    expect(exitCode).toBe(0)
    expect(stderr).toMatch(/^\S+ is damaged.*\nread 1, added 1, /)
    const { stdout } = await proxylist(['list', '--data', dir])
    expect(stdout).toBe('192.0.2.9:80\n')
  })
})

test('a list that is replaced by another file is served within a second, long answers too', async () => {
  const { server, list } = await serving()
  const long = Array.from({ length: 3_000 }, (_, i) => ({
    ...{ ip: `10.0.${i >> 8}.${i & 255}:80`, type: 'http' },
  }))
  for (const count of [1, 2]) {
    renameSync(join(dataDirectory(long.slice(count)), PROXY_FILE), list)
    for (;;) {
      const answer = await ask(server, ASK)
      if (answer.split('\n').length === long.length - count + 1) break
      expect(answer).toMatch(/^(?:200|503) /)
    }
  }
  await server.stop()
})

describe('access.db', () => {
  const copyOf = (file: string): string => {
    const copy = `${file}.copy`
    const db = new Database(file)
    db.run(`vacuum into '${copy}'`)
    db.close()
    return copy
  }
  test.each(REMOVALS)(
    'counts every answered request after %s, and a copy in its place is used',
    async (_, lose) => {
      const { server, right, access } = await serving()
      const copy = copyOf(access)
      lose(access)
      expect(await ask(server, QUERY)).toBe(UNAVAILABLE)
      expect(await ask(server, '/readyz')).toBe(UNAVAILABLE)
      expect(await ask(server, '/healthz')).toBe('200 ok\n')
      renameSync(copy, access)
      await until(server, right, QUERY)
      expect(await ask(server, '/api?key=nobody')).toBe('403 INVALID_KEY')
      await server.stop()
      expect(sentences(server, ACCESS_FILE).at(-1)).toEndWith('works again')
    },
  )
})

test.skipIf(process.getuid?.() !== 0)(
  'files that root makes belong to the owner of the data',
  async () => {
    const dir = temporaryDirectory()
    chownSync(dir, 65534, 65534)
    await replaceList(dir)
    await proxylist(['keys', 'add', '--data', dir])
    const owners = [PROXY_FILE, ACCESS_FILE].map(file => statSync(join(dir, file)).uid)
    expect(owners).toEqual([65534, 65534])
  },
)
