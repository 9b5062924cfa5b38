/** The command line of every command: help, version, wrong usage, and what is read where it starts. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { defaultOf, environmentNameOf, flagOf } from '../../src/config/settings.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { golden } from '../support/fixtures.ts'
import { manual, TOPICS } from '../support/manual.ts'
import { BINARY, program, proxylist, RUNNER_FREE } from '../support/program.ts'
import { cleanUp } from '../support/temporary.ts'
import { directoryOf, take } from '../support/transcript.ts'
import { BAD_VALUES, HINTS, MISTAKES } from './usage.cases.ts'

afterAll(cleanUp)

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
  const groups = ['', 'geoip', 'keys', 'plans']
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

  test.each([['-h'], ['help']])('%s is --help', async word => {
    expect(await proxylist([word])).toEqual(await proxylist(['--help']))
  })
})

describe('help', () => {
  test.each(TOPICS)(
    '%s is a topic of the manual, and listed with its first sentence',
    async topic => {
      await take(directoryOf(), { args: ['help', topic], stdout: manual(topic) })
      const [title, gap, sentence] = manual(topic).split('\n')
      expect([title, gap]).toEqual([expect.stringMatching(/^# \w/), ''])
      const { stdout } = await proxylist(['help'])
      expect(stdout).toMatch(new RegExp(`\n  ${topic} +${RegExp.escape(sentence ?? '')}\n`))
    },
  )

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

  test.each(['keys add', 'list', 'plans', 'help --help'])(
    '%s is the help of a command',
    async name => {
      const words = name.split(' ')
      const help = await proxylist([words[0] ?? '', ...words.slice(1), '--help'])
      expect(await proxylist(['help', ...words])).toEqual(help)
    },
  )

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
