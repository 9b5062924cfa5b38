/** `completions` prints a small script for a shell. The script asks this program for the next words of a line. */
import { flagOf, SETTINGS, valueOf } from '../../config/settings.ts'
import { CommandError } from '../../lib/errors.ts'
import { type Command, command, print } from '../command.ts'

/** The command that the scripts run. It has no help. */
const COMPLETE = 'complete-words'
/** Stands for the names of files, which the shell knows. */
const FILES = ':files'

/** A next word and its help. */
type Candidate = readonly [word: string, help: string]

const isBelow = (name: string, path: string): boolean => path === '' || name.startsWith(`${path} `)

/** Words of a closed list, else files where the usage names one. */
const wordsOf = (value: string | readonly string[]): Candidate[] =>
  typeof value === 'string'
    ? /file|DIR/i.test(value)
      ? [[FILES, '']]
      : []
    : value.map(word => [word, ''])

/** Returns the next words after these words of a command line; `proxylist` is not among them. */
export function candidatesAfter(
  words: readonly string[],
  commands: readonly Command[],
): Candidate[] {
  const path = words.reduce((path, word) => {
    const longer = path === '' ? word : `${path} ${word}`
    return commands.some(({ name }) => name === longer || isBelow(name, longer)) ? longer : path
  }, '')
  const found = commands.find(({ name }) => name === path)
  const options = (found?.settings ?? []).map(name => {
    const [flag = ''] = flagOf(name).split(' ')
    return { flag, help: SETTINGS[name].help, value: valueOf(name) }
  })
  const last = words.filter(word => word !== '=').at(-1) // bash makes three words of `--log=json`
  const value = options.find(({ flag }) => flag === last)?.value
  if (value) return wordsOf(value)
  const below = commands
    .filter(({ name }) => isBelow(name, path))
    .map(({ name, summary }): Candidate => {
      const [next = '', ...more] = name.slice(path.length).trim().split(' ')
      return [next, more.length === 0 ? summary : `commands for ${next}`]
    })
  return [
    ...new Map(below),
    ...wordsOf(found?.choices?.() ?? found?.arguments ?? ''),
    ...options.map(({ flag, help }): Candidate => [flag, help]),
    ['--help', 'show the help'],
    ...(path === '' ? [['--version', 'print the version'] as const] : []),
  ]
}

const SCRIPTS: { readonly [shell: string]: string } = {
  bash: `# Completions of proxylist for bash: source this, or put it into /usr/share/bash-completion/completions/proxylist
_proxylist() {
  local current=\${COMP_WORDS[COMP_CWORD]} word
  if [[ $current == '=' ]]; then current=''; fi
  COMPREPLY=()
  while read -r word _; do
    if [[ $word == ${FILES} ]]; then
      compopt -o filenames 2>/dev/null
      while read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
    elif [[ $word == "$current"* ]]; then COMPREPLY+=("$word")
    fi
  done < <("\${COMP_WORDS[0]}" ${COMPLETE} -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
}
complete -F _proxylist proxylist
`,
  zsh: `#compdef proxylist
# Completions of proxylist for zsh: source this, or put it as _proxylist into a folder of $fpath
_proxylist() {
  local word help files=''
  local -a entries
  while read -r word help; do
    if [[ $word == ${FILES} ]]; then files=yes
    else entries+=("\${word//:/\\\\:}:$help")
    fi
  done < <($words[1] ${COMPLETE} -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null)
  (( $#entries )) && _describe proxylist entries
  [[ $files == yes ]] && _files
  return 0
}
if [[ $funcstack[1] == _proxylist ]]; then _proxylist "$@"; else compdef _proxylist proxylist; fi
`,
  fish: `# Completions of proxylist for fish: put this into ~/.config/fish/completions/proxylist.fish
function __proxylist_words
    set -l words (commandline -opc)
    for each in ($words[1] ${COMPLETE} -- $words[2..] 2>/dev/null)
        if test "$each" = ${FILES}
            __fish_complete_path (commandline -ct)
        else
            string replace -- ' ' \\t $each
        end
    end
end
complete -c proxylist -f -a '(__proxylist_words)'
`,
}

/** The script for a shell. @throws CommandError (usage) for another shell */
export function completionsFor(shell: string): string {
  const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined
  if (script !== undefined) return script
  throw new CommandError(`there are completions for ${Object.keys(SCRIPTS).join(', ')}`, 2)
}

export const completionsCommand = command({
  name: 'completions',
  summary: 'print a script that completes commands and options, for bash, zsh or fish',
  arguments: '<shell>',
  choices: () => Object.keys(SCRIPTS),
  settings: [],
  example: 'proxylist completions bash > ~/.local/share/bash-completion/completions/proxylist',
  run: ({ args: [shell = ''] }) => print(completionsFor(shell)),
})

/** Prints the next words, each with its help. */
export const completeCommand = (table: () => readonly Command[]) =>
  command({
    name: COMPLETE,
    summary: 'print the next words of a command line',
    arguments: '[word...]',
    settings: [],
    example: `proxylist ${COMPLETE} -- keys`,
    run: ({ args }) =>
      print(
        candidatesAfter(args, table())
          .map(candidate => `${candidate.join(' ').trimEnd()}\n`)
          .join(''),
      ),
  })
