/**
 * The reference lists of the manual, made from the tables that the program itself uses. With
 * GOLDEN=write `docs.test.ts` writes them into `data/manual/`.
 */
import { ERRORS } from '../../src/api/errors.ts'
import { COMMANDS } from '../../src/cli/program.ts'
import { defaultOf, flagOf, SETTINGS, type SettingName } from '../../src/config/settings.ts'
import { FAMILIES } from '../../src/metrics/families.ts'

/** The manual is read in a terminal, too. */
export const COLUMNS_MAX = 100

const quoted = (text: string): string => `\`${text}\``
const withoutDot = (text: string): string => text.replace(/\.$/, '')

/** An item of a list, in lines of at most COLUMNS_MAX characters; a code span is never divided. */
function item(text: string): string {
  const lines = ['-']
  for (const word of text.match(/(?:`[^`]*`|\S)+/g) ?? []) {
    const line = `${lines.at(-1)} ${word}`
    if (line.length <= COLUMNS_MAX) lines[lines.length - 1] = line
    else lines.push(`  ${word}`)
  }
  return lines.join('\n')
}
const list = (texts: readonly string[]): string => texts.map(item).join('\n')

type Schema = {
  type: string
  enum?: readonly string[]
  items?: { enum?: readonly string[] }
  default?: unknown
}
/** The parts of the OpenAPI document that the manual has too. */
export type Document = {
  paths: {
    '/api': { get: { parameters: { name: string; description: string; schema: Schema }[] } }
  }
  components: { schemas: { Proxy: { properties: { [name: string]: { description: string } } } } }
}

/** Options that every command has which uses data. */
export const GRANTED: readonly SettingName[] = ['data', 'database', 'databaseTimeout']

export const commandList = (): string =>
  list(
    COMMANDS.map(({ name, arguments: given, summary }) => {
      return `${quoted(given === undefined ? name : `${name} ${given}`)}: ${summary}`
    }),
  )

export const settingList = (): string =>
  list(
    (Object.keys(SETTINGS) as SettingName[]).map(name => {
      const usual = defaultOf(name)
      return `${quoted(flagOf(name))}: ${SETTINGS[name].help}${usual && ` (default: ${usual})`}`
    }),
  )

export const metricList = (): string =>
  list(
    FAMILIES.map(({ name, type, labels, help }) => {
      const kind = [type, ...labels.map(quoted)].join(', ')
      return `${quoted(name)} (${kind}): ${withoutDot(help)}`
    }),
  )

export function parameterList({ paths, components }: Document): string {
  const members = Object.keys(components.schemas.Proxy.properties)
  const valuesOf = (values: readonly string[]): string =>
    values.length === members.length ? 'members' : values.join(', ')
  /** What a parameter accepts, where its description does not say so. */
  function formOf({ type, enum: values, items, default: usual }: Schema): string {
    const form = values === undefined ? type : valuesOf(values)
    const list = items?.enum === undefined ? 'list' : `list of ${valuesOf(items.enum)}`
    return `${type === 'array' ? list : form}${usual === undefined ? '' : `; default ${usual}`}`
  }
  return list(
    paths['/api'].get.parameters.map(
      ({ name, description, schema }) =>
        `${quoted(name)} (${formOf(schema)}): ${withoutDot(description)}`,
    ),
  )
}

export const memberList = ({ components }: Document): string =>
  list(
    Object.entries(components.schemas.Proxy.properties).map(
      ([name, { description }]) => `${quoted(name)}: ${withoutDot(description)}`,
    ),
  )

/** The errors of the public listener, by their status. */
export const errorList = (): string =>
  list(
    Object.entries(ERRORS)
      .sort(([, one], [, other]) => one.status - other.status)
      .map(([code, { status, en }]) => `${status} ${quoted(code)}: ${withoutDot(en)}`),
  )
