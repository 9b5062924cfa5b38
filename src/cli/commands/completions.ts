/** `completions`: prints a script with which a shell completes command lines, made from the table of commands. */

import { flagOf, SETTINGS, type SettingName, valueOf } from '../../config/settings.ts'
import { CommandError } from '../../lib/errors.ts'
import { type Command, command, print } from '../command.ts'

/** What may stand in a place: one of some words, a file, or anything. */
type Completed = { words: readonly string[]; isFile: boolean }

/** What can be typed of a command. */
type Line = {
  name: string
  summary: string
  argument: Completed
  /** `value` is `null` for a switch. */
  options: { flag: string; help: string; value: Completed | null }[]
}

const completedOf = (value: string | readonly string[]): Completed =>
  typeof value === 'string'
    ? { words: [], isFile: /file|DIR/i.test(value) }
    : { words: value, isFile: false }

const optionOf = (name: SettingName): Line['options'][number] => {
  const [flag = ''] = flagOf(name).split(' ')
  const value = valueOf(name)
  return { flag, help: SETTINGS[name].help, value: value ? completedOf(value) : null }
}

const lineOf = ({ name, summary, arguments: usage = '', choices, settings }: Command): Line => ({
  ...{ name, summary, argument: completedOf(choices?.() ?? usage) },
  options: [
    ...settings.map(optionOf),
    { flag: '--help', help: 'show the help of this command', value: null },
  ],
})

/** The words that may follow a command line so far, with what they do: of `''` the commands, of `keys` its own. */
function wordsAfter(path: string, lines: readonly Line[]): Map<string, string> {
  const depth = path === '' ? 0 : path.split(' ').length
  const after = lines.filter(({ name }) => path === '' || name.startsWith(`${path} `))
  return new Map(
    after.map(({ name, summary }) => {
      const words = name.split(' ')
      const isWhole = words.length === depth + 1
      return [words[depth] ?? '', isWhole ? summary : `commands for ${words[depth]}`]
    }),
  )
}

/** Every beginning of a command, also the whole: `keys`, `keys add`. */
const pathsOf = (lines: readonly Line[]): string[] => [
  ...new Set(lines.flatMap(({ name }) => [name.split(' ')[0] ?? '', name])),
]

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
/** `a|b` as a pattern of `case`. */
const pattern = (texts: readonly string[]): string => texts.map(quoted).join('|')

/** A function that finds the command in the words before the cursor; for bash and zsh. */
const pathFunction = (lines: readonly Line[]): string => `__proxylist_path() {
  local place='' word
  for word; do
    case "$place\${place:+ }$word" in
      ${pattern(pathsOf(lines))}) place="$place\${place:+ }$word" ;;
    esac
  done
  echo "$place"
}
`

/** Lines of `case` for all that can stand after an option with a value. */
const valueCases = (lines: readonly Line[], of: (value: Completed) => string): string =>
  lines
    .flatMap(({ name, options }) =>
      options.map(({ flag, value }) => value && `    ${quoted(`${name} ${flag}`)}) ${of(value)}`),
    )
    .filter(line => line !== null)
    .join('\n')

function bash(lines: readonly Line[]): string {
  const set = ({ words, isFile }: Completed): string =>
    `words=${quoted(words.join(' '))}${isFile ? ' files=yes' : ''}`
  const places = [
    `    '') words=${quoted([...wordsAfter('', lines).keys(), '--help', '--version'].join(' '))} ;;`,
    ...pathsOf(lines).map(path => {
      const line = lines.find(({ name }) => name === path)
      const words = [
        ...wordsAfter(path, lines).keys(),
        ...(line?.argument.words ?? []),
        ...(line?.options.map(({ flag }) => flag) ?? ['--help']),
      ]
      return `    ${quoted(path)}) ${set({ words, isFile: line?.argument.isFile ?? false })} ;;`
    }),
  ]
  return `# Completions of proxylist for bash: source this, or put it into /usr/share/bash-completion/completions/proxylist
${pathFunction(lines)}
_proxylist() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} words='' files=''
  local path
  path=$(__proxylist_path "\${COMP_WORDS[@]:1:COMP_CWORD-1}")
  # --log=json is three words here.
  if [[ $current == '=' ]]; then current=''
  elif [[ $before == '=' ]]; then before=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  case "$path $before" in
${valueCases(lines, value => `${set(value)} ;;`)}
    *) case "$path" in
${places.join('\n')}
    esac ;;
  esac
  COMPREPLY=()
  local word
  while read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
  if [[ $files == yes && $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    while read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
}
complete -F _proxylist proxylist
`
}

function zsh(lines: readonly Line[]): string {
  const described = (entries: Iterable<readonly [word: string, help: string]>): string =>
    [...entries].map(([word, help]) => quoted(`${word.replaceAll(':', '\\:')}:${help}`)).join(' ')
  const set = ({ words, isFile }: Completed): string =>
    `entries=(${words.map(quoted).join(' ')})${isFile ? ' files=yes' : ''}`
  const places = ['', ...pathsOf(lines)].map(path => {
    const line = lines.find(({ name }) => name === path)
    const options = line?.options.map(({ flag, help }) => [flag, help] as const)
    const words = [
      ...wordsAfter(path, lines),
      ...(line?.argument.words ?? []).map(word => [word, ''] as const),
      ...(options ?? [['--help', 'show the help'] as const]),
      ...(path === '' ? [['--version', 'print the version'] as const] : []),
    ]
    const files = line?.argument.isFile ? ' files=yes' : ''
    return `    ${quoted(path)}) entries=(${described(words)})${files} ;;`
  })
  return `#compdef proxylist
# Completions of proxylist for zsh: source this, or put it as _proxylist into a folder of $fpath
${pathFunction(lines)}
_proxylist() {
  local before=\${words[CURRENT-1]} files='' place
  place=$(__proxylist_path "\${(@)words[2,CURRENT-1]}")
  local -a entries
  case "$place $before" in
${valueCases(lines, value => `${set(value)} ;;`)}
    *) case "$place" in
${places.join('\n')}
    esac ;;
  esac
  (( $#entries )) && _describe proxylist entries
  [[ $files == yes ]] && _files
  return 0
}
if [[ $funcstack[1] == _proxylist ]]; then _proxylist "$@"; else compdef _proxylist proxylist; fi
`
}

function fish(lines: readonly Line[]): string {
  const entry = (path: string, ...parts: readonly string[]): string =>
    `complete -c proxylist -n ${quoted(`__proxylist_at ${quoted(path)}`).replaceAll(`'\\''`, '"')} ${parts.join(' ')}`
  const values = ({ words, isFile }: Completed): string[] => [
    ...(words.length > 0 ? [`-a ${quoted(words.join(' '))}`] : []),
    isFile ? '-r -F' : '-x',
  ]
  const after = ['', ...pathsOf(lines)].flatMap(path =>
    [...wordsAfter(path, lines)].map(([word, help]) =>
      entry(path, `-a ${word} -d ${quoted(help)}`),
    ),
  )
  const own = lines.flatMap(({ name, argument, options }) => [
    ...(argument.words.length > 0 ? [entry(name, `-a ${quoted(argument.words.join(' '))}`)] : []),
    ...(argument.isFile ? [entry(name, '-F')] : []),
    ...options.map(({ flag, help, value }) =>
      entry(name, `-l ${flag.slice(2)} -d ${quoted(help)}`, ...(value ? values(value) : [])),
    ),
  ])
  return `# Completions of proxylist for fish: put this into ~/.config/fish/completions/proxylist.fish
function __proxylist_at
    set -l path
    for word in (commandline -opc)[2..-1]
        switch "$path $word"
            case ${pathsOf(lines)
              .map(path => quoted(path.includes(' ') ? path : ` ${path}`))
              .join(' ')}
                set -a path $word
        end
    end
    test "$path" = "$argv[1]"
end
complete -c proxylist -f
complete -c proxylist -l help -d 'show the help'
${[entry('', `-l version -d 'print the version'`), ...after, ...own].join('\n')}
`
}

const SHELLS = { bash, zsh, fish }
const isShell = (name: string): name is keyof typeof SHELLS => Object.hasOwn(SHELLS, name)

export const completionsFor = (shell: keyof typeof SHELLS, table: readonly Command[]): string =>
  SHELLS[shell](table.map(lineOf))

export const completionsCommand = (table: () => readonly Command[]) =>
  command({
    name: 'completions',
    summary: 'print a script that completes commands and options, for bash, zsh or fish',
    arguments: '<shell>',
    choices: () => Object.keys(SHELLS),
    settings: [],
    example: 'proxylist completions bash > ~/.local/share/bash-completion/completions/proxylist',
    run({ args: [shell = ''] }) {
      if (isShell(shell)) return print(completionsFor(shell, table()))
      throw new CommandError(`there are completions for ${Object.keys(SHELLS).join(', ')}`, 2)
    },
  })
