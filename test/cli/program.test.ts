/**
 * The command line as its users meet it: status, stdout and stderr of every command and failure,
 * of the program from source or of the binary.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { environmentNameOf, flagOf, SETTINGS } from '../../src/config/settings.ts'
import { ACCESS_FILE, openList, openRegistry, PROXY_FILE } from '../../src/sqlite/stores.ts'
import { fillList, golden } from '../support/fixtures.ts'
import { BINARY, proxylist, startProgram } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, type Transcript, take } from '../support/transcript.ts'
import { CONSOLE } from './console.cases.ts'
import { DAMAGES, READERS } from './data.cases.ts'
import { BAD_FEEDS, FEEDS } from './feeds.cases.ts'
import { counts, FORMATS, FOUND, GUARDS, ROWS, WHOLE_LISTS } from './import.cases.ts'
import { LISTS, MIXED } from './list.cases.ts'
import { KEYS, PLAN_STEPS, TWINS } from './registry.cases.ts'
import { BAD_VALUES, HINTS, MISTAKES } from './usage.cases.ts'

afterAll(cleanUp)

function testTranscripts(title: string, transcripts: readonly Transcript[]): void {
  describe(title, () => {
    test.each(transcripts.map(({ name, files, steps }) => [name, files, steps] as const))(
      '%s',
      async (_, files, steps) => {
        const cwd = directoryOf(files)
        for (const step of steps) await take(cwd, step)
      },
    )
  })
}

testTranscripts('import reads every format', FORMATS)
testTranscripts('import takes rows one by one', ROWS)
testTranscripts('import takes a list whole', WHOLE_LISTS)
testTranscripts('import --replace is guarded', GUARDS)
testTranscripts('import takes lists as they are found', FOUND)
testTranscripts('feeds', FEEDS)
testTranscripts('feeds that are refused', BAD_FEEDS)
testTranscripts('list', LISTS)
testTranscripts('keys', KEYS)
testTranscripts('plans', PLAN_STEPS)
testTranscripts('console', CONSOLE)
testTranscripts('environment twins', TWINS)

describe('wrong usage is one line and status 2', () => {
  test.each(HINTS)('%s', async (line, unknown, hint) => {
    const { stderr } = await take(directoryOf(), {
      args: line.split(' '),
      exitCode: 2,
      stderr: /./,
    })
    expect(stderr).toMatch(/^proxylist: unknown (?:command|option) /)
    expect(stderr).toContain(`'${unknown}'`)
    expect(stderr).toEndWith(`did you mean '${hint}'?\n`)
  })

  test.each(MISTAKES)('%p', async (args, says) => {
    await take(directoryOf(), { args, exitCode: 2, stderr: says })
  })

  test.each(BAD_VALUES)('%s %s %p', async (line, option, value) => {
    const cwd = directoryOf({ 'a.txt': 'http://192.0.2.1:80\n' })
    const { stderr } = await take(cwd, {
      args: [...line.split(' '), option, value],
      exitCode: 2,
      stderr: /./,
    })
    expect(stderr).toMatch(new RegExp(`^proxylist: ${option} must \\S+ .+\\n$`))
    expect(existsSync(join(cwd, 'data'))).toBeFalse()
  })

  test.each([[], ['geoip'], ['keys'], ['plans']])(
    'without a command, %p shows the help on stderr',
    async (...args) => {
      const { exitCode, stdout, stderr } = await proxylist(args)
      const help = await proxylist([...args, '--help'])
      expect({ exitCode, stdout, stderr }).toEqual({ exitCode: 2, stdout: '', stderr: help.stdout })
    },
  )
})

describe('--help', () => {
  const names = ['', 'geoip', 'keys', 'plans', ...COMMANDS.map(({ name }) => name)]
  test.each(names)('proxylist %s --help', async name => {
    const args = name.split(' ').filter(word => word !== '')
    const { exitCode, stdout, stderr } = await proxylist([...args, '--help'])
    expect(stdout).toBe(golden(`help${name && '-'}${name.replace(' ', '-')}.txt`, stdout))
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(await proxylist([...args, '-h'])).toEqual({ exitCode, stdout, stderr })
  })

  test.each(COMMANDS.map(({ name }) => name))(
    '%s shows each option, its default and its twin',
    async name => {
      const help = (await proxylist([...name.split(' '), '--help'])).stdout.replace(/\s+/g, ' ')
      const found = COMMANDS.find(command => command.name === name)
      expect(help).toStartWith(`Usage: proxylist ${name} [options]`)
      expect(help).toEndWith(`Example: ${found?.example} `)
      for (const setting of found?.settings ?? []) {
        const { fallback }: { fallback?: string } = SETTINGS[setting]
        expect(help).toContain(` ${flagOf(setting)} `)
        expect(help).toContain(`[${environmentNameOf(setting)}]`)
        if (fallback) expect(help).toContain(`(default: ${fallback})`)
      }
    },
  )
})

describe('version', () => {
  test('--version is the version alone', async () => {
    await take(directoryOf(), { args: ['--version'], stdout: `${version}\n` })
  })

  test('version names the commit, Bun and SQLite, as text and as JSON', async () => {
    const json = await take(directoryOf(), { args: ['version', '--json'], stdout: /^\{\n/ })
    const parsed: unknown = JSON.parse(json.stdout)
    expect(parsed).toEqual({
      version,
      commit: expect.stringMatching(BINARY ? /^(?:[0-9a-f]{12}|unknown)$/ : /^source$/),
      bun: Bun.version,
      sqlite: expect.stringMatching(/^3\.\d+\.\d+$/),
    })
    const { commit, bun, sqlite } = parsed as { [name: string]: string } // as expected above
    const stdout = `proxylist ${version} (commit ${commit}, Bun ${bun}, SQLite ${sqlite})\n`
    await take(directoryOf(), { args: ['version'], stdout })
  })
})

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
      await take(cwd, { args: ['keys', 'temp', '--ttl', '2h'], stdout: /^temp_/, stderr: /./ }),
      await take(cwd, { args: ['keys', 'add', '--key', inFull], stdout: /./, stderr: /./ }),
    ]
    const ids = made.map(({ stderr }) => /key ([a-z0-9]{8})/.exec(stderr)?.[1] ?? 'none')
    await take(cwd, {
      args: ['keys', 'revoke', ids[2] ?? ''],
      stderr: `key ${ids[2]} is revoked\n`,
    })
    const table = await take(cwd, { args: ['keys', 'list'], stdout: /^ID / })
    const json = await take(cwd, { args: ['keys', 'list', '--json'], stdout: /^\[\n/ })
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
    await take(cwd, {
      args: ['keys', 'list'],
      stdout: / standard +expired +1970-01-01T00:00:00\.001Z /,
    })
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
    await take(cwd, { args: ['import', 'a.txt', '--data', 'deep/data'], stderr: /./ })
    await take(cwd, { args: ['keys', 'add', '--data', 'deep/data'], stdout: /./, stderr: /./ })
    const modes = ['deep/data', `deep/data/${PROXY_FILE}`, `deep/data/${ACCESS_FILE}`].map(path =>
      (statSync(join(cwd, path)).mode & 0o777).toString(8),
    )
    expect(modes).toEqual(['700', '600', '600'])
  })
})

describe('what is listed as records can be imported and listed again, byte for byte', () => {
  const shapes = ['', '&format=object', '&wrap=1', '&wrap=1&format=object']
  const documents = shapes.flatMap(shape =>
    ['', '&pretty=0'].map(pretty => `json${shape}${pretty}`),
  )
  const forms = [...documents, 'csv', 'ndjson', 'csv.file&sort=ping', 'ndjson.file&sort=works']
  test.each(forms.flatMap(form => [form, `${form}&split_ip=1`]))('get=%s', async form => {
    const cwd = directoryOf()
    const list = openList(join(cwd, 'data'))
    fillList(list, MIXED)
    list.close()
    const query = `time=999999999999999&get=${form}`
    const first = await take(cwd, { args: ['list', query], stdout: /Омск/ })
    const copy = ['--data', 'copy']
    const imported = counts({ read: 4, added: 4 })
    const args = ['import', '-', '--json', ...copy]
    await take(cwd, { args, stdin: first.stdout, stdout: imported })
    await take(cwd, { args: ['list', query, ...copy], stdout: first.stdout })
    const unchanged = counts({ read: 4, unchanged: 4 })
    await take(cwd, { args: ['import', '-', '--json'], stdin: first.stdout, stdout: unchanged })
  })
})

test.each([[], ['--replace']])(
  'an import killed in the middle leaves the list as it was %p',
  async (...more) => {
    const cwd = directoryOf()
    const data = join(cwd, 'data')
    const before = '192.0.2.1:80\n'
    await take(cwd, { args: ['import', '-'], stdin: `http://${before}`, stderr: /added 1/ })
    await using running = startProgram(['import', '-', '--format', 'txt', '--data', data, ...more])
    const rows = Array.from({ length: 60_000 }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80\n`)
    running.stdin.write(`${rows.join('')}halfway\n`)
    await running.stdin.flush()
    await running.says(/:60001: ip/)
    running.kill('SIGKILL')
    expect(await running.ended).not.toBe(0)
    await take(cwd, { args: ['list', 'time=999999999'], stdout: before })
    const counted = counts({ read: 1, unchanged: 1 })
    await take(cwd, { args: ['import', '-', '--json'], stdin: `http://${before}`, stdout: counted })
  },
)

if (BINARY !== undefined) {
  test('the binary ignores .env and bunfig.toml where it is started', async () => {
    const cwd = directoryOf({
      '.env': 'PROXYLIST_JSON=1\nPROXYLIST_DATA=elsewhere\n',
      'bunfig.toml': 'preload = ["./loud.ts"]\n',
      'loud.ts': 'process.stdout.write("hello from the preload")\n',
    })
    await take(cwd, { args: ['plans', 'set', 'classic'], stderr: /^plan classic: / })
    await take(cwd, { args: ['plans', 'list'], stdout: /^NAME [^\n]*\nclassic / })
    expect(existsSync(join(cwd, 'data', ACCESS_FILE))).toBeTrue()
    expect(existsSync(join(cwd, 'elsewhere'))).toBeFalse()
  })
}
