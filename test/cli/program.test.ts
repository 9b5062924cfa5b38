/** The command line of every command: help, version, wrong usage, and what is read where it starts. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { COMMANDS } from '../../src/cli/program.ts'
import { environmentNameOf, flagOf, SETTINGS } from '../../src/config/settings.ts'
import { ACCESS_FILE } from '../../src/sqlite/stores.ts'
import { golden } from '../support/fixtures.ts'
import { BINARY, proxylist } from '../support/program.ts'
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
