/** What the program says of itself: help, the manual and the version. */
import { afterAll, describe, expect, test } from 'bun:test'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { defaultOf, environmentNameOf, flagOf } from '../../src/config/settings.ts'
import { golden } from '../support/fixtures.ts'
import { manual, TOPICS } from '../support/manual.ts'
import { cleanUp } from '../support/temporary.ts'
import { onTerminal } from '../support/terminal.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

/** What a command prints; it must succeed. */
async function stdoutOf(...args: string[]): Promise<string> {
  const { stdout, ...outcome } = await runCommand(args)
  expect(outcome).toEqual({ exitCode: 0, stderr: '' })
  return stdout
}
const wordsOf = (name: string): string[] => name.split(' ').filter(word => word !== '')
/** A test of its own has the topics. */
const withoutTopics = (help: string): string => help.split('\nTopics of the manual')[0] ?? ''
const goldenHelp = (name: string, help: string): string =>
  golden(`help${name && '-'}${name.replace(' ', '-')}.txt`, help)

describe('help', () => {
  test.each(['keys', 'plans', ''])('for “%s” without a command goes to stderr', async group => {
    const { exitCode, stdout, stderr } = await runCommand(wordsOf(group))
    expect([exitCode, stdout]).toEqual([2, ''])
    expect(withoutTopics(stderr)).toBe(goldenHelp(group, withoutTopics(stderr)))
  })

  const names = ['', 'keys', 'plans', ...COMMANDS.map(({ name }) => name)]
  test.each(names)('of “%s” shows each option, its default and its twin', async name => {
    const help = withoutTopics(await stdoutOf(...wordsOf(name), '--help'))
    expect(help).toBe(goldenHelp(name, help))
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

  test('has several names', async () => {
    const help = await stdoutOf('--help')
    for (const word of ['-h', 'help']) expect(await stdoutOf(word)).toBe(help)
    for (const name of ['keys add', 'plans', 'help --help']) {
      const help = await stdoutOf(...wordsOf(name.replace(' --help', '')), '--help')
      expect(await stdoutOf('help', ...wordsOf(name))).toBe(help)
    }
  })

  test('lists all topics of the manual with their first sentences', async () => {
    const help = await stdoutOf('help')
    for (const topic of TOPICS) {
      const [title, gap, sentence] = manual(topic).split('\n')
      expect([title, gap]).toEqual([expect.stringMatching(/^# \w/), ''])
      expect(help).toMatch(new RegExp(`\n  ${topic} +${RegExp.escape(sentence ?? '')}\n`))
    }
  })

  test('shows each topic', async () => {
    for (const topic of TOPICS) expect(await stdoutOf('help', topic)).toBe(manual(topic))
  })

  test.each([
    ['a pager', 'tr a-z A-Z', '# FEEDS'],
    ['no pager', '', '# Feeds'],
    ['a pager that does not exist', 'no-such-pager', '# Feeds'],
  ])('shows a topic on a terminal with %s', async (_, pager, starts) => {
    const { shown, ended } = onTerminal(['help', 'feeds'], { PAGER: pager })
    expect(await ended()).toBe(0)
    expect(shown().replaceAll('\r\n', '\n')).toContain(`${starts}\n\n`)
  })
})

test('version names the commit, Bun and SQLite, as text and as JSON', async () => {
  expect(await stdoutOf('--version')).toBe(`${version}\n`)
  const parsed = JSON.parse(await stdoutOf('version', '--json'))
  expect(parsed).toEqual({
    ...{ version, commit: 'source', bun: Bun.version },
    sqlite: expect.stringMatching(/^3\.\d+\.\d+$/),
  })
  const line = `proxylist ${version} (commit source, Bun ${Bun.version}, SQLite ${parsed.sqlite})\n`
  expect(await stdoutOf('version')).toBe(line)
})
