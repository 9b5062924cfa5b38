/** What `proxylist completions SHELL` makes of a line, asked of the shells themselves (contract G7). */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { candidatesAfter } from '../../src/cli/commands/completions.ts'
import { COMMANDS } from '../../src/cli/program.ts'
import { succeed } from '../support/launch.ts'
import { program } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

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
  words: string,
  has: readonly string[],
  hasNot: readonly string[],
])[] = [
  ['', ['serve', 'keys', 'help', 'check', '--version'], ['keys add', 'add', ':files']],
  ['keys', ['add', 'import', 'revoke', '--help'], ['serve', 'keys', '--version']],
  ['keys add', ['--plan', '--label', '--note', '--help'], ['--listen', ':files']],
  ['keys add --label', [], ['serve', '--plan', ':files']],
  ['serve --log', ['json', 'off'], ['serve', '--log']],
  ['serve --log =', ['json', 'off'], ['--log']],
  ['import', [':files', '--type'], ['serve']],
  ['import --type', ['http', 'https', 'socks4', 'socks5'], [':files']],
  ['import --type http', [':files', '--map'], ['http']],
  ['check', ['explain', ':files', '--judge'], ['serve']],
  ['systemd-unit', ['serve', 'judge', 'check'], [':files']],
  ['help', ['feeds', 'upgrade'], [':files']],
  ['completions', ['bash', 'zsh', 'fish'], [':files']],
]

test.each(LINES)('completions after "%s" are the words of the tables', (text, has, hasNot) => {
  const found = candidatesAfter(text.split(' ').filter(Boolean), COMMANDS).map(([word]) => word)
  expect(found).toEqual(expect.arrayContaining([...has]))
  for (const each of hasNot) expect(found).not.toContain(each)
})

describe.each(Object.entries(SHELLS))('%s', (shell, ask) => {
  const isThere = Bun.which(shell) !== null
  let dir: string
  let script: string
  beforeAll(async () => {
    dir = temporaryDirectory()
    const bin = temporaryDirectory()
    script = join(bin, '_script')
    const { stdout } = await runCommand(['completions', shell])
    const path = shell === 'fish' ? `set -x PATH ${bin} $PATH` : `PATH=${bin}:$PATH`
    writeFileSync(script, `${path}\n${stdout}`)
    writeFileSync(join(bin, 'proxylist'), `#!/bin/sh\nexec ${program().join(' ')} "$@"\n`)
    chmodSync(join(bin, 'proxylist'), 0o755)
    writeFileSync(join(dir, 'list.txt'), '')
  })

  test.skipIf(!isThere).each([
    ['proxylist se', ['serve'], ['import', '--help']],
    ['proxylist keys add --pl', ['--plan'], ['--label']],
    ['proxylist serve --log o', ['off'], ['json']],
    ['proxylist import l', ['list.txt'], ['serve']],
  ] as const)('%p', async (line, has, hasNot) => {
    const found = await ask(script, line, dir)
    expect(found).toEqual(expect.arrayContaining([...has]))
    for (const each of hasNot) expect(found).not.toContain(each)
  })
})

test.skipIf(Bun.which('bash') === null)(
  'bash completes the value after an equals sign',
  async () => {
    const script = join(temporaryDirectory(), 'script')
    const { stdout } = await runCommand(['completions', 'bash'])
    writeFileSync(script, `proxylist() { ${program().join(' ')} "$@"; }\n${stdout}`)
    expect(await SHELLS.bash?.(script, 'proxylist serve --log=o', '/')).toEqual(['off'])
    expect(await SHELLS.bash?.(script, 'proxylist serve --log=', '/')).toEqual(['json', 'off'])
  },
)
