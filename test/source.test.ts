/**
 * The program from source, as `make run` and developers start it. All other tests of its commands and
 * servers are of the program under test, which is the binary in `make test`.
 */
import { afterAll, expect, test } from 'bun:test'
import { dataDirectory } from './support/fixtures.ts'
import { launchServer, run } from './support/launch.ts'
import { createClock, SOURCE } from './support/program.ts'
import { cleanUp, temporaryDirectory } from './support/temporary.ts'
import { directoryOf } from './support/transcript.ts'

afterAll(cleanUp)

const ROWS = 'http://192.0.2.7:80\nhttp://192.0.2.8:80\n'
const LISTEN = ['--listen', '127.0.0.1:0']

test('commands work, and version says that they are from source', async () => {
  const cwd = directoryOf({ 'a.txt': ROWS })
  const { env } = createClock()
  const of = (...args: string[]) => run([...SOURCE, ...args], { cwd, env })
  const version = await of('version', '--json')
  expect(JSON.parse(version.stdout)).toMatchObject({ commit: 'source', bun: Bun.version })
  expect(await of('import', 'a.txt')).toMatchObject({ exitCode: 0 })
  expect(await of('list', 'sort=ping')).toEqual({
    ...{ exitCode: 0, stderr: '', stdout: '192.0.2.7:80\n192.0.2.8:80\n' },
  })
})

test('the program accepts options of the runtime', async () => {
  const env = { BUN_OPTIONS: '--smol' }
  const { exitCode, stderr } = await run([...SOURCE, '--version'], { env })
  expect([exitCode, stderr]).toEqual([0, ''])
})

test('serve --sample serves the API, statistics and every page with its files', async () => {
  const args = ['--sample', '--data', temporaryDirectory(), '--admin-listen', '127.0.0.1:0']
  await using server = await launchServer([...SOURCE, 'serve', ...LISTEN, ...args])
  const url = `http://127.0.0.1:${server.port}`
  const admin = (await server.says(/admin listening on \S+\n/)).trim().split(' ').at(-1)
  expect(await (await fetch(`${url}/api?key=demo`)).text()).toMatch(/^[\d.]+:\d+\n/)
  expect(await (await fetch(`${url}/stats`)).json()).toMatchObject({ total: expect.any(Number) })
  for (const page of [`${url}/`, `${url}/docs`, `${admin}/`]) {
    const files = [...(await (await fetch(page)).text()).matchAll(/(?:src|href)="(\/[^"]+\.\w+)"/g)]
    expect([page, files.length > 0]).toEqual([page, true])
    for (const [, path] of files) {
      expect([path, (await fetch(new URL(`${path}`, page))).status]).toEqual([path, 200])
    }
  }
  expect(await server.stop()).toBe(0)
})

test('a server fetches feeds in a process that runs from source too', async () => {
  const cwd = directoryOf({ 'a.txt': ROWS })
  const args = ['--data', dataDirectory(), '--feed', `${cwd}/a.txt`]
  await using server = await launchServer([...SOURCE, 'serve', ...LISTEN, ...args])
  await server.says(/a\.txt: 2 rows\n/)
  expect(await server.stop()).toBe(0)
})
