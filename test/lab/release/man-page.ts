/** proxylist.1, made from the table of commands, the settings and the manual (contract G7). */
import { COMMANDS } from '../../../src/cli/program.ts'
import {
  defaultOf,
  environmentNameOf,
  flagOf,
  SETTINGS,
  type SettingName,
} from '../../../src/config/settings.ts'

/** Text as roff has it: no line begins a macro, and a dash is what is typed. */
const escaped = (text: string): string =>
  text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replace(/^[.']/gm, '\\&$&')

const option = (name: SettingName): string => {
  const standard = defaultOf(name) && ` (default: ${defaultOf(name)})`
  return `.TP\n.B ${escaped(flagOf(name))}\n${escaped(`${SETTINGS[name].help}${standard}`)}\n`
}

const command = ({
  name,
  arguments: usage = '',
  summary,
  settings,
  example,
}: (typeof COMMANDS)[number]) =>
  `.SS ${escaped(`${name} ${usage}`.trim())}
${escaped(summary)}
${settings.map(option).join('')}.PP
Example:
.PP
.nf
.RS
${escaped(example)}
.RE
.fi
`

/** A text of Markdown without its marks: headings, code and links. */
const plain = (markdown: string): string =>
  markdown.replace(/[`*#]/g, '').replace(/\[(.*?)\]\(.*?\)/g, '$1')

/**
 * @param manual the topics by name
 * @param at when the release was made
 */
export function manPage(version: string, at: Date, manual: ReadonlyMap<string, string>): string {
  const [, status = ''] = /^(Data goes to.*?)\n\n/ms.exec(manual.get('commands') ?? '') ?? []
  const topics = [...manual].map(
    ([name, text]) =>
      `.TP\n.B proxylist help ${escaped(name)}\n${escaped(plain(text.split('\n')[2] ?? ''))}\n`,
  )
  const all = [...new Set(COMMANDS.flatMap(({ settings }) => settings))]
  const variables = all.map(
    name => `.TP\n.B ${environmentNameOf(name)}\nas ${escaped(flagOf(name))}\n`,
  )
  return `.TH PROXYLIST 1 ${at.toISOString().slice(0, 10)} "proxylist ${version}" "User Commands"
.SH NAME
proxylist \\- serves filtered lists of proxy servers
.SH SYNOPSIS
.B proxylist
.I COMMAND
[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...
.SH DESCRIPTION
A self\\-hosted service that answers which proxies match a filter, right now.
${escaped(plain(status))}
.SH COMMANDS
${COMMANDS.map(command).join('')}.SH ENVIRONMENT
${variables.join('')}.SH MANUAL
${topics.join('')}`
}
