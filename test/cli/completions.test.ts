/** What `proxylist completions SHELL` makes of a line, asked of the shells themselves (contract G7). */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { COMMANDS } from '../../src/cli/program.ts'
import { flagOf, type SettingName, valueOf } from '../../src/config/settings.ts'
import { succeed } from '../support/launch.ts'
import { proxylist } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

type Ask = (script: string, line: string, cwd: string) => Promise<string[]>

const wordsOf = (text: string): string[] => text.split('\n').filter(Boolean)

/** How each shell is asked what may follow a line. */
const SHELLS: { readonly [shell: string]: Ask } = {
  async bash(script, line, cwd) {
    const words = line.split(/(=)| /).filter(word => word !== undefined)
    const quoted = words.map(word => `'${word}'`).join(' ')
    const asked = `source '${script}'
      COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}
      _proxylist; printf '%s\\n' "\${COMPREPLY[@]}"`
    return wordsOf(await succeed(['bash', '--norc', '-c', asked], { cwd }))
  },
  async fish(script, line, cwd) {
    const env = { HOME: cwd, XDG_CONFIG_HOME: join(cwd, '.config') }
    const asked = `source '${script}'; complete -C '${line}'`
    const found = wordsOf(await succeed(['fish', '--no-config', '-c', asked], { cwd, env }))
    return found.map(each => each.split('\t')[0] ?? '')
  },
  /** In a terminal, because only its editor completes; what it lists ends at a mark. */
  async zsh(script, line, cwd) {
    const setUp = `PS1=; autoload -U compinit && compinit -u -D; source '${script}'; LISTMAX=10000
      zstyle ':completion:*' verbose no; unsetopt prompt_cr prompt_sp; stty columns 200 rows 1000
      mark() { print -n '<<end>>' }; zle -N mark; bindkey '^X' mark; bindkey '^I' list-choices`
    const files = temporaryDirectory()
    writeFileSync(join(files, 'set-up'), setUp)
    const asked = `zmodload zsh/zpty; zpty shell 'zsh -f -i'
      zpty -w shell 'source ${files}/set-up; print r""eady'; zpty -r shell text $'*ready*'
      zpty -w -n shell ${JSON.stringify(line)}$'\\t\\x18'; zpty -r shell text $'*<<end>>*'
      print -r -- "$text"; zpty -d shell`
    const shown = await succeed(['zsh', '-f', '-c', asked], { cwd, env: { TERM: 'dumb' } })
    const listed = shown.slice(
      shown.indexOf('\n', shown.lastIndexOf('2004h')),
      shown.lastIndexOf(line),
    )
    return listed.split(/\s+/).filter(Boolean)
  },
}

const LINES: readonly (readonly [
  line: string,
  has: readonly string[],
  hasNot: readonly string[],
])[] = [
  ['proxylist se', ['serve'], ['import', '--help']],
  ['proxylist ', ['serve', 'keys', 'help', 'check'], ['keys add', 'add', 'list.txt']],
  ['proxylist keys ', ['add', 'import', 'revoke'], ['serve', 'keys']],
  ['proxylist keys add --', ['--plan', '--label', '--note', '--help'], ['--listen']],
  ['proxylist serve --log ', ['json', 'off'], ['serve', '--log', 'list.txt']],
  ['proxylist serve --log o', ['off'], ['json']],
  ['proxylist import --type ', ['http', 'https', 'socks4', 'socks5'], ['list.txt']],
  ['proxylist import l', ['list.txt'], ['serve']],
  ['proxylist import --type http l', ['list.txt'], ['list']],
  ['proxylist check e', ['explain'], []],
  ['proxylist systemd-unit ', ['serve', 'judge', 'check'], ['list.txt']],
  ['proxylist help ', ['feeds', 'upgrade'], ['list.txt']],
  ['proxylist completions ', ['bash', 'zsh', 'fish'], ['list.txt']],
  ['proxylist keys add --label ', [], ['list.txt', 'serve', '--plan']],
]

describe.each(Object.entries(SHELLS))('%s', (shell, ask) => {
  const isThere = Bun.which(shell) !== null
  let dir: string
  let script: string
  beforeAll(async () => {
    dir = temporaryDirectory()
    script = join(temporaryDirectory(), '_script')
    writeFileSync(script, (await proxylist(['completions', shell])).stdout)
    writeFileSync(join(dir, 'list.txt'), '')
  })

  test.skipIf(!isThere).each(LINES)('%p', async (line, has, hasNot) => {
    const found = await ask(script, line, dir)
    expect(found).toEqual(expect.arrayContaining([...has]))
    for (const each of hasNot) expect(found).not.toContain(each)
  })

  // zsh takes half a second for each, and has the table that bash has.
  const commands = shell === 'zsh' ? COMMANDS.slice(0, 2) : COMMANDS
  test.skipIf(!isThere).each(commands.map(each => [each.name, each] as const))(
    'knows every option and closed value of %s',
    async (name, { settings, choices }) => {
      const has = async (line: string, words: readonly string[]) =>
        expect(await ask(script, `proxylist ${name} ${line}`, dir)).toEqual(
          expect.arrayContaining([...words]),
        )
      const flags = settings.map((each: SettingName) => flagOf(each).split(' ')[0] ?? '')
      await has('--', [...flags, '--help'])
      await has('', choices?.() ?? [])
      for (const [i, each] of settings.entries()) {
        const values = valueOf(each)
        if (Array.isArray(values)) await has(`${flags[i]} `, values)
      }
    },
  )
})

test('bash: the value after an equals sign is completed', async () => {
  const script = join(temporaryDirectory(), 'script')
  writeFileSync(script, (await proxylist(['completions', 'bash'])).stdout)
  expect(await SHELLS.bash?.(script, 'proxylist serve --log=o', '/')).toEqual(['off'])
  expect(await SHELLS.bash?.(script, 'proxylist serve --log=', '/')).toEqual(['json', 'off'])
})

test('another shell is refused with those that there are', async () => {
  expect(await proxylist(['completions', 'tcsh'])).toMatchObject({
    ...{
      exitCode: 2,
      stdout: '',
      stderr: 'proxylist: there are completions for bash, zsh, fish\n',
    },
  })
})
