/** The command line of every command: help, version, wrong usage, and what is read where it starts. */
import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { COMMANDS, run } from '../../src/cli/program.ts'
import { defaultOf, environmentNameOf, flagOf } from '../../src/config/settings.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { golden, T0 } from '../support/fixtures.ts'
import { manual, TOPICS } from '../support/manual.ts'
import { BINARY, program, proxylist, RUNNER_FREE } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { directoryOf, take } from '../support/transcript.ts'

afterAll(cleanUp)

/** A name the command line does not have, and the one it should be. */
const HINTS: readonly (readonly [line: string, unknown: string, hint: string])[] = [
  ['lst', 'lst', 'list'],
  ['improt a.txt', 'improt', 'import'],
  ['sreve', 'sreve', 'serve'],
  ['versoin', 'versoin', 'version'],
  ['key add', 'key', 'keys'],
  ['keys ad', 'ad', 'add'],
  ['keys revok x', 'revok', 'revoke'],
  ['consol', 'consol', 'console'],
  ['plans lits', 'lits', 'list'],
  ['plans remov x', 'remov', 'remove'],
  ['serve --lsten 127.0.0.1:0', '--lsten', '--listen'],
  ['serve --smaple', '--smaple', '--sample'],
  ['import a.txt --tpye http', '--tpye', '--type'],
  ['import a.txt --repalce', '--repalce', '--replace'],
  ['list --dta x', '--dta', '--data'],
  ['keys add --exipres 30d', '--exipres', '--expires'],
  ['plans set x --dayly 5', '--dayly', '--daily'],
  ['version --jsno', '--jsno', '--json'],
  ['--verison', '--verison', '--version'],
]

/** Other wrong usage: the line and what is said of it. */
const MISTAKES: readonly (readonly [args: readonly string[], says: RegExp])[] = [
  [['frobnicate'], /unknown command 'frobnicate'/],
  [['serve', '--frobnicate'], /unknown option '--frobnicate'/],
  [['-x'], /unknown option '-x'/],
  [['serve', 'extra'], /too many arguments.*'?serve'?/],
  [['version', 'extra'], /too many arguments/],
  [
    ['list', 'key=k-secret', 'extra'],
    /^proxylist: too many arguments for 'list': it takes 1, not 2\n$/,
  ],
  [['keys', 'list', 'extra'], /too many arguments/],
  [['keys', 'revoke', 'a', 'b'], /too many arguments/],
  [['plans', 'set', 'a', 'b'], /too many arguments/],
  [['import'], /missing.*argument.*file/],
  [['import', 'a.txt', '--map', 'a=contry'], /no field is called 'contry'; did you mean 'country'/],
  [['import', 'a.txt', '--map', 'a=x'], /no field is called 'x'; the fields are ip, port, /],
  [['keys', 'revoke'], /missing.*argument.*id/],
  [['plans', 'set'], /missing.*argument.*name/],
  [['plans', 'remove'], /missing.*argument.*name/],
  [['list', '--data'], /--data .*missing/],
  [['keys', 'add', '--plan'], /--plan .*missing/],
]

/**
 * Values that options refuse, by command: the line says the option and what it accepts. All that each option
 * refuses is in `settings.test.ts`; instants that must lie in the future are refused by a rule.
 */
const BAD_VALUES: readonly (readonly [line: string, option: string, value: string])[] = [
  ['import a.txt', '--type', 'ftp'],
  ['import a.txt', '--type', ''],
  ['import a.txt', '--provider-service', 'google'],
  ['import a.txt', '--database-timeout', '0s'],
  ['keys add', '--expires', '0d'],
  ['keys add', '--expires', '2026-11-20T12:00:00Z'],
  ['keys add', '--expires', '2020-01-01'],
  ['keys add', '--expires', '9999w'],
  ['keys add', '--key', 'temp_0123456789abcdef'],
  ['keys add', '--key', ''],
  ['keys add', '--key', '0123456789abcde'],
  ['keys temp', '--ttl', '0h'],
  ['keys list', '--database', 'mysql://10.0.0.1/x'],
  ['import a.txt', '--database', ''],
  ['plans set small', '--burst', '5/1500ms'],
  ['serve', '--listen', 'nowhere'],
  ['serve', '--retain', '0s'],
  ['fetch', '--feeds', ''],
  ['console', '--admin-listen', 'unix:'],
]

/** What a command line that is wrong in itself says, in this process, as one line. */
async function saidOf(args: readonly string[]): Promise<string> {
  let stderr = ''
  using _ = spyOn(process.stderr, 'write').mockImplementation(text => {
    stderr += text
    return true
  })
  expect(await run(args, {}, () => T0)).toBe(2)
  expect(stderr).toMatch(/^proxylist: [^\n]+\n$/)
  return stderr
}

describe('wrong usage is one line and status 2', () => {
  test.each(HINTS)('%s', async (line, unknown, hint) => {
    const said = await saidOf(line.split(' '))
    expect(said).toMatch(/^proxylist: unknown (?:command|option) /)
    expect(said).toContain(`'${unknown}'`)
    expect(said).toEndWith(`did you mean '${hint}'?\n`)
  })

  test.each(MISTAKES)('%p', async (args, says) => expect(await saidOf(args)).toMatch(says))

  test.each(BAD_VALUES)('%s %s %p', async (line, option, value) => {
    const data = join(temporaryDirectory(), 'data')
    const said = await saidOf([...line.split(' '), option, value, '--data', data])
    expect(said).toMatch(new RegExp(`^proxylist: ${option} must \\S+ .+\\n$`))
    expect(existsSync(data)).toBeFalse()
  })

  test('of the program itself, too', async () => {
    const args = ['serve', '--retain', '0s']
    await take(directoryOf(), { args, exitCode: 2, stderr: /^proxylist: --retain must be / })
    await take(directoryOf(), { args: 'lst', exitCode: 2, stderr: /did you mean 'list'\?\n$/ })
  })

  test.each(['keys', 'plans', ''])(
    '“%s” without a command shows the help on stderr',
    async group => {
      const { exitCode, stdout, stderr } = await proxylist(group === '' ? [] : [group])
      expect([exitCode, stdout]).toEqual([2, ''])
      const [help] = stderr.split('\nTopics of the manual')
      expect(help).toBe(golden(`help${group && '-'}${group}.txt`, help ?? ''))
    },
  )
})

describe('--help', () => {
  const groups = ['', 'keys', 'plans']
  const names = [...groups, ...COMMANDS.map(({ name }) => name)]
  test.each(names)('of proxylist %s shows each option, its default and its twin', async name => {
    const args = name.split(' ').filter(word => word !== '')
    const { exitCode, stdout, stderr } = await proxylist([...args, '--help'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    const [help = ''] = stdout.split('\nTopics of the manual') // which has a test below
    expect(help).toBe(golden(`help${name && '-'}${name.replace(' ', '-')}.txt`, help))
    const found = COMMANDS.find(command => command.name === name)
    if (found === undefined) return
    const words = help.replace(/\s+/g, ' ')
    expect(words).toStartWith(`Usage: proxylist ${name} [options]`)
    expect(words).toEndWith(`Example: ${found.example} `)
    for (const setting of found.settings) {
      expect(words).toContain(` ${flagOf(setting)} `)
      expect(words).toContain(`[${environmentNameOf(setting)}]`)
      const standard = defaultOf(setting)
      if (standard !== '') expect(words).toContain(`(default: ${standard})`)
    }
  })

  test('is -h and help, too', async () => {
    const help = await proxylist(['--help'])
    for (const word of ['-h', 'help']) expect(await proxylist([word])).toEqual(help)
  })
})

describe('help', () => {
  test('lists all topics of the manual with their first sentences', async () => {
    const { stdout } = await proxylist(['help'])
    for (const topic of TOPICS) {
      const [title, gap, sentence] = manual(topic).split('\n')
      expect([title, gap]).toEqual([expect.stringMatching(/^# \w/), ''])
      expect(stdout).toMatch(new RegExp(`\n  ${topic} +${RegExp.escape(sentence ?? '')}\n`))
    }
  })

  test.each(TOPICS.slice(0, 2))('shows a topic: %s', async topic => {
    await take(directoryOf(), { args: ['help', topic], stdout: manual(topic) })
  })

  test.each([
    ['a pager', 'tr a-z A-Z', '# FEEDS'],
    ['no pager', '', '# Feeds'],
    ['a pager that is not there', 'no-such-pager', '# Feeds'],
  ])('on a terminal with %s', async (_, pager, starts) => {
    let shown = ''
    const { promise: hungUp, resolve } = Promise.withResolvers<void>()
    const child = Bun.spawn([...program(), 'help', 'feeds'], {
      env: { ...RUNNER_FREE, PAGER: pager },
      terminal: {
        data(_, bytes) {
          shown += Buffer.from(bytes).toString()
        },
        exit: () => resolve(),
      },
    })
    expect(await child.exited).toBe(0)
    await hungUp
    expect(shown.replaceAll('\r\n', '\n')).toContain(`${starts}\n\n`)
  })

  test.each(['keys add', 'plans', 'help --help'])('%s is the help of a command', async name => {
    const words = name.replace(' --help', '').split(' ')
    const help = await proxylist([...words, '--help'])
    expect(await proxylist(['help', ...name.split(' ')])).toEqual(help)
  })

  test.each([
    ['keys ad', `unknown topic 'keys ad'; did you mean 'keys add'?`],
    ['feedz', `unknown topic 'feedz'; did you mean 'feeds'?`],
    ['nothing', `unknown topic 'nothing'; proxylist help lists them`],
    ['serve now', `unknown topic 'serve now'; proxylist help lists them`],
    ['--data', `unknown option '--data'`],
  ])('%s is wrong usage', async (words, says) => {
    const args = ['help', ...words.split(' ')]
    await take(directoryOf(), { args, exitCode: 2, stderr: `proxylist: ${says}\n` })
  })
})

describe('version', () => {
  test('--version is the version alone', async () => {
    await take(directoryOf(), { args: '--version', stdout: `${version}\n` })
  })

  test('version names the commit, Bun and SQLite, as text and as JSON', async () => {
    const json = await take(directoryOf(), { args: 'version --json', stdout: /^\{\n/ })
    const parsed: unknown = JSON.parse(json.stdout)
    expect(parsed).toEqual({
      version,
      commit: expect.stringMatching(BINARY ? /^(?:[0-9a-f]{12}|unknown)$/ : /^source$/),
      bun: Bun.version,
      sqlite: expect.stringMatching(/^3\.\d+\.\d+$/),
    })
    const { commit, bun, sqlite } = parsed as { [name: string]: string } // as expected above
    const stdout = `proxylist ${version} (commit ${commit}, Bun ${bun}, SQLite ${sqlite})\n`
    await take(directoryOf(), { args: 'version', stdout })
  })
})

if (BINARY !== undefined) {
  test('the binary ignores .env and bunfig.toml where it is started', async () => {
    const cwd = directoryOf({
      '.env': 'PROXYLIST_JSON=1\nPROXYLIST_DATA=elsewhere\n',
      'bunfig.toml': 'preload = ["./loud.ts"]\n',
      'loud.ts': 'process.stdout.write("hello from the preload")\n',
    })
    await take(cwd, { args: 'plans set classic', stderr: /^plan classic: / })
    await take(cwd, { args: 'plans list', stdout: /^NAME [^\n]*\nclassic / })
    expect(existsSync(join(cwd, 'data', ACCESS_FILE))).toBeTrue()
    expect(existsSync(join(cwd, 'elsewhere'))).toBeFalse()
  })
}
