/** Data directories as each release left them are opened by this program, whole (contract G6). */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packTar, unpackTar } from 'modern-tar'
import { version } from '../../package.json'
import { KEY } from '../support/fixtures.ts'
import { succeed } from '../support/launch.ts'
import { program, proxylist, ROOT } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const FOLDER = join(ROOT, 'test/fixtures/releases')
const fixtureOf = (release: string): string => join(FOLDER, `${release}.tar.zst`)

/** Makes the fixture of this version, with GOLDEN=write: once, when it is released. */
async function writeFixture(): Promise<void> {
  const dir = temporaryDirectory()
  const command = (...args: string[]) =>
    succeed([...program(), ...args, '--data', dir], { env: { PROXYLIST_KEY: KEY } })
  const list = join(temporaryDirectory(), 'list.csv')
  writeFileSync(
    list,
    'ip,type,country,anon,works\n192.0.2.7:1080,socks5,de,elite,98\n192.0.2.8:80,http,fr,,\n',
  )
  await command('import', list)
  await command('plans', 'set', 'gold', '--daily', '7', '--burst', '3/5s')
  await command('keys', 'add', '--plan', 'gold', '--label', 'first customer', '--note', 'pays')
  const service = await startChild(dir)
  await service.request(`/api?key=${KEY}&time=999999999`)
  await service.stop()
  const entries = readdirSync(dir).map(name => {
    const body = readFileSync(join(dir, name))
    return { header: { name, size: body.length, mode: 0o600 }, body }
  })
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(fixtureOf(version), await Bun.zstdCompress(await packTar(entries), { level: 19 }))
}

if (process.env.GOLDEN === 'write' && !existsSync(fixtureOf(version))) await writeFixture()

/** The data directory that a release left. */
async function directoryOf(release: string): Promise<string> {
  const dir = temporaryDirectory()
  const tar = await Bun.zstdDecompress(readFileSync(fixtureOf(release)))
  for (const { header, data } of await unpackTar(new Uint8Array(tar)))
    writeFileSync(join(dir, header.name), data ?? '', { mode: 0o600 })
  return dir
}

const RELEASES = readdirSync(FOLDER).map(name => name.replace('.tar.zst', ''))

test('each released version has a fixture: GOLDEN=write makes one for the version in package.json', () => {
  expect(RELEASES).toContain(version)
})

describe.each(RELEASES)('the data of %s', release => {
  test('are served unchanged: list, key, plan and usage', async () => {
    const service = await startChild(await directoryOf(release))
    const answer = await service.request(`/api?key=${KEY}&time=999999999`)
    expect(answer.status).toBe(200)
    expect(answer.text.trim().split('\n').sort()).toEqual(['192.0.2.7:1080', '192.0.2.8:80'])
    expect(answer.headers.get('ratelimit')).toContain('"daily";r=5') // of 7, two are used
    const own = JSON.parse(
      (await service.request('/key', { headers: { authorization: `Bearer ${KEY}` } })).text,
    )
    expect(own).toMatchObject({ plan: 'gold', label: 'first customer' })
    await service.stop()
  })

  test('are changed and read by commands, and doctor finds no problem', async () => {
    const data = ['--data', await directoryOf(release)]
    expect((await proxylist(['plans', 'set', 'gold', '--daily', '8', ...data])).exitCode).toBe(0)
    const row = { stdin: 'http://192.0.2.9:80\n' }
    expect((await proxylist(['import', '-', ...data], row)).exitCode).toBe(0)
    const list = await proxylist(['list', 'type=socks5&time=999999999&get=json', ...data])
    expect(JSON.parse(list.stdout)).toMatchObject([
      { ip: '192.0.2.7:1080', type: 'socks5', country: 'DE', anon: 'elite', works: '98' },
    ])
    const keys = JSON.parse((await proxylist(['keys', 'list', '--json', ...data])).stdout)
    expect(keys).toMatchObject([{ plan: 'gold', label: 'first customer', note: 'pays' }])
    const { stdout } = await proxylist(['doctor', ...data])
    expect(stdout).not.toMatch(/schema|damaged|database disk image/)
  })
})
