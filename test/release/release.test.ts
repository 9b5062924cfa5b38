/** What a release is made of (contract G7), as far as it takes seconds; `make torture ONLY=release` makes one. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Ajv from 'ajv'
import { unpackTar } from 'modern-tar'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { environmentNameOf, flagOf, valueOf } from '../../src/config/settings.ts'
import { type Entry, tarOf, zipOf } from '../lab/release/archive.ts'
import { manPage } from '../lab/release/man-page.ts'
import { notesOf } from '../lab/release/notes.ts'
import { sbomOf } from '../lab/release/sbom.ts'
import { targetsFrom } from '../lab/release/targets.ts'
import { run, succeed } from '../support/launch.ts'
import { manual, TOPICS } from '../support/manual.ts'
import { BINARY, ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const AT = new Date('2026-11-26T10:20:30Z')
const text = (words: string) => new TextEncoder().encode(words)
const ENTRIES: Entry[] = [
  { name: 'proxylist', bytes: text('#!/bin/sh\necho proxylist of a test\n'), isProgram: true },
  { name: 'LICENSE', bytes: text('as you like\n') },
]

describe('an archive', () => {
  test('has sorted names, root as owner, fixed modes and the time of the commit', async () => {
    const entries = await unpackTar(await tarOf('proxylist-1', ENTRIES, AT))
    expect(
      entries.map(({ header: { name, mode, uid, gid, uname, mtime } }) => [
        ...[name, mode, uid, gid, uname, mtime?.toISOString()],
      ]),
    ).toEqual([
      ['proxylist-1/LICENSE', 0o644, 0, 0, 'root', '2026-11-26T10:20:30.000Z'],
      ['proxylist-1/proxylist', 0o755, 0, 0, 'root', '2026-11-26T10:20:30.000Z'],
    ])
  })

  test.each([tarOf, zipOf])('is the same bytes in any order of its files: %p', async make => {
    const one = await make('folder', ENTRIES, AT)
    const other = await make('folder', ENTRIES.toReversed(), AT)
    expect(Buffer.compare(one, other)).toBe(0)
    expect(one.length).toBeGreaterThan(200)
  })
})

test('notes have the commits since the release before, by area', () => {
  const notes = notesOf('1.2.3', ['http: one', 'Fix it', 'feeds: two', 'http: three'])
  expect(notes).toStartWith('# proxylist 1.2.3\n')
  expect(notes).toContain(
    '### feeds\n\n- two\n\n### http\n\n- one\n- three\n\n### other\n\n- Fix it\n',
  )
  expect(notesOf('1.0.0', null)).toContain('`proxylist import FILE`')
})

test('TARGETS chooses machines; an unknown one is named with the known ones', () => {
  expect(targetsFrom()).toHaveLength(7)
  expect(targetsFrom('macos-arm64, linux-x64')).toEqual(['linux-x64', 'macos-arm64'])
  expect(() => targetsFrom('linux-x86')).toThrow(/may have linux-x64, .*, not linux-x86/)
})

const BINARY_FOLDER = BINARY && dirname(BINARY)
test.if(BINARY_FOLDER !== undefined)(
  'the bill of materials is CycloneDX 1.6, and has each package of the program with licence and hash',
  async () => {
    const sbom = await sbomOf(ROOT, BINARY_FOLDER ?? '', version, AT, process.execPath)
    const schemas = join(ROOT, 'node_modules/@cyclonedx/cyclonedx-library/res/schema')
    const schema = (name: string) =>
      JSON.parse(readFileSync(join(schemas, `${name}.SNAPSHOT.schema.json`), 'utf8'))
    const ajv = new Ajv({ strict: false, validateFormats: false })
    for (const name of ['spdx', 'jsf-0.82'])
      ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
    const validate = ajv.compile(schema('bom-1.6'))
    validate(sbom)
    expect(validate.errors).toBeNull()
    expect(validate({ ...sbom, components: [{ name: 'no type' }] })).toBeFalse()
    const names = sbom.components.map(({ name }) => name)
    for (const name of ['bun', 'elysia', 'preact', '@sinclair/typebox'])
      expect(names).toContain(name)
    for (const { hashes, purl } of sbom.components) {
      expect([purl, hashes[0]?.content]).toEqual([
        purl,
        expect.stringMatching(/^[0-9a-f]{64,128}$/),
      ])
    }
  },
)

describe('proxylist.1', () => {
  const page = manPage(version, AT, new Map(TOPICS.map(topic => [topic, manual(topic)])))
  const plain = page.replaceAll('\\-', '-')

  test('has every command, option, variable and topic', () => {
    for (const { name, settings, summary } of COMMANDS) {
      expect(plain).toContain(`.SS ${name}`)
      expect(plain).toContain(summary)
      for (const setting of settings) {
        expect(plain).toContain(`.B ${flagOf(setting)}\n`)
        expect(plain).toContain(`.B ${environmentNameOf(setting)}\n`)
      }
    }
    for (const topic of TOPICS) expect(plain).toContain(`.B proxylist help ${topic}\n`)
  })

  const options = [...new Set(COMMANDS.flatMap(({ settings }) => settings))]
  test.each(options.filter(each => Array.isArray(valueOf(each))))(
    'has the values of %s',
    option => {
      const [, help = ''] = plain.split(`.B ${flagOf(option)}\n`)
      for (const value of valueOf(option) ?? []) expect(help.split('\n', 1)[0]).toContain(value)
    },
  )

  test.if(Bun.which('man') !== null)('is read by man without a warning', async () => {
    const file = join(temporaryDirectory(), 'proxylist.1')
    writeFileSync(file, page)
    const env = { MANWIDTH: '80', LC_ALL: 'C.UTF-8' }
    const { stdout, stderr } = await run(['man', '--warnings', '-l', file], { env })
    expect(stderr).toBe('')
    expect(stdout).toContain('keys rotate <id>')
  })
})

describe('install.sh', () => {
  const script = join(ROOT, 'data/install.sh')
  const install = (...args: string[]) => run(['sh', script, ...args], { env: { HOME: '/nowhere' } })

  /** A release with archives for all machines, whose program is a script; what it prints. */
  async function release(entries = ENTRIES): Promise<string> {
    const dir = temporaryDirectory()
    const sums: string[] = []
    for (const target of targetsFrom()) {
      const tar = Bun.gzipSync(await tarOf(`proxylist-1.2.3-${target}`, entries, AT))
      const name = `proxylist-1.2.3-${target}.tar.gz`
      writeFileSync(join(dir, name), tar)
      sums.push(`${Bun.SHA256.hash(tar, 'hex')}  ${name}\n`)
    }
    writeFileSync(join(dir, 'SHA256SUMS'), sums.join(''))
    return dir
  }

  test('installs the program of a folder, says what it did and how to undo it', async () => {
    const to = join(temporaryDirectory(), 'new')
    expect(await install('--from', await release(), '--to', to)).toEqual({
      ...{ exitCode: 0, stderr: '' },
      stdout: `installed ${to}/proxylist: proxylist of a test\n${to} is not in PATH: call it as ${to}/proxylist\nto undo: rm ${to}/proxylist\n`,
    })
    expect(readdirSync(to)).toEqual(['proxylist'])
  })

  test('downloads from a URL', async () => {
    const dir = await release()
    using server = Bun.serve({
      ...{ hostname: '127.0.0.1', port: 0 },
      fetch: ({ url }) => new Response(Bun.file(join(dir, new URL(url).pathname))),
    })
    const to = temporaryDirectory()
    expect(await install('--from', server.url.href, '--to', to)).toMatchObject({ exitCode: 0 })
    expect(readdirSync(to)).toEqual(['proxylist'])
  })

  test.each([
    [
      'a changed archive',
      (dir: string) => {
        for (const name of readdirSync(dir).filter(each => each.endsWith('.gz')))
          writeFileSync(join(dir, name), 'x')
      },
      /is not what SHA256SUMS says: download it again; nothing was installed\n$/,
    ],
    [
      'a release without sums',
      (dir: string) => succeed(['rm', join(dir, 'SHA256SUMS')]),
      /there is no SHA256SUMS in /,
    ],
    [
      'a release without this machine',
      (dir: string) => writeFileSync(join(dir, 'SHA256SUMS'), ''),
      /has no archive for (?:linux|macos)-/,
    ],
  ])('refuses %s, and leaves nothing', async (_, spoil, says) => {
    const [dir, to] = [await release(), temporaryDirectory()]
    await spoil(dir)
    const { exitCode, stdout, stderr } = await install('--from', dir, '--to', to)
    expect([exitCode, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(says)
    expect(readdirSync(to)).toEqual([])
  })

  test('refuses a program that does not run here, and keeps the one that is there', async () => {
    const broken = ENTRIES.map(entry => ({ ...entry, bytes: text('#!/bin/false\n') }))
    const to = temporaryDirectory()
    writeFileSync(join(to, 'proxylist'), 'old')
    const { exitCode, stderr } = await install('--from', await release(broken), '--to', to)
    expect([exitCode, stderr]).toEqual([
      ...[1, 'install.sh: the program does not run on this machine; nothing was installed\n'],
    ])
    expect(readFileSync(join(to, 'proxylist'), 'utf8')).toBe('old')
  })

  test.each([
    [[], /--from is needed/],
    [['--from'], /--from needs a value/],
    [['--form', 'x'], /there is no option --form/],
    [['--from', '/dev/null/x', '--to', '/dev/null/y'], /cannot make the folder/],
  ])('refuses %j', async (args, says) => {
    const { exitCode, stderr } = await install(...args)
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(says)])
  })

  test.if(Bun.which('shellcheck') !== null)(
    'passes shellcheck with the scripts of the package',
    async () => {
      const debian = ['postinst', 'prerm', 'postrm'].map(name => join(ROOT, 'data/debian', name))
      expect(await succeed(['shellcheck', script, ...debian])).toBe('')
    },
  )
})

describe('workflows', () => {
  const folder = join(ROOT, '.github/workflows')
  test.each(readdirSync(folder))('%s runs only make targets and pinned actions', name => {
    const yaml = readFileSync(join(folder, name), 'utf8')
    const make = readFileSync(join(ROOT, 'Makefile'), 'utf8')
    for (const [, command = ''] of yaml.matchAll(/run: (.*)/g)) {
      const [, target = ''] = /^make ([a-z]+)$/.exec(command) ?? []
      expect(make).toContain(`\n${target}: `)
    }
    for (const [, action = ''] of yaml.matchAll(/uses: (.*)/g))
      expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    expect(yaml).toMatch(/^permissions:/m)
  })
})
