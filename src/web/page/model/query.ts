/**
 * The choice of a visitor as parameters of the API, as a query string, and read back from the hash of the
 * page. The server validates values: the page shows its message.
 */

/** The values of closed parameters, in the order in which they are shown. */
export const TYPES = ['http', 'https', 'socks4', 'socks5'] as const
export const ANONS = ['elite', 'anonymous', 'transparent'] as const
export const SORTS = ['checked', 'ping', 'speed', 'works', 'random'] as const
export const FORMS = ['json', 'txt', 'csv', 'ndjson'] as const
/** The names of services; the last one is the provider's own. */
export const servicesOf = (own = 'the service') => ['smtp', 'telegram', 'avito', 'google', own]
/** Members of a record besides the services. */
export const MEMBERS = [
  ...['ip', 'port', 'ip_out', 'type', 'types', 'anon', 'speed', 'ping', 'timecheck'],
  ...['country', 'city', 'works'],
] as const

export const AGES = [60, 300, 600, 3600, 86_400, 604_800] as const
export const DEFAULT_AGE_SECONDS = 600

/** The parameters, in the order of the documentation. */
const NAMES = [
  ...(['type', 'anon', 'ping', 'speed', 'time', 'works', 'country', 'country_mode'] as const),
  ...(['city', 'port', 'ip', 'service', 'sort', 'unique', 'count', 'lang', 'get'] as const),
  ...(['type_prefix', 'line', 'fields', 'split_ip', 'format', 'wrap', 'pretty'] as const),
]
export type Name = (typeof NAMES)[number]

const LISTS: readonly Name[] = ['type', 'anon', 'country', 'city', 'service', 'fields']
export const isList = (name: Name): boolean => LISTS.includes(name)

/** A text for each parameter, `''` when it is not given. */
export type Choice = { readonly [N in Name]: string }

export type Param = readonly [name: Name, value: string]

const EMPTY = Object.fromEntries(NAMES.map(name => [name, ''])) as Choice

/** The choice on the first visit: the whole list, as JSON. */
export const START: Choice = { ...EMPTY, get: 'json' }

/** Values that mean the same as leaving the parameter out. */
const DEFAULTS: Partial<Choice> = {
  ...{ time: String(DEFAULT_AGE_SECONDS), country_mode: 'include', sort: 'checked' },
  ...{ get: 'txt', format: 'array', pretty: '1' },
}

export type Form = (typeof FORMS)[number]
/** The form of a choice: `json` of `json.file`. */
export const formOf = ({ get }: Choice): Form =>
  FORMS.find(form => form === get.replace(/\.file$/, '')) ?? 'txt'

/** Parameters that the API ignores with other forms. */
const FORMS_OF: { readonly [N in Name]?: readonly Form[] } = {
  type_prefix: ['txt'],
  line: ['txt'],
  fields: ['json', 'csv', 'ndjson'],
  split_ip: ['json', 'csv', 'ndjson'],
  format: ['json'],
  wrap: ['json'],
  pretty: ['json'],
}
export const applies = (name: Name, form: Form): boolean => FORMS_OF[name]?.includes(form) ?? true

export const itemsOf = (value: string): string[] =>
  value
    .split(',')
    .map(item => item.trim())
    .filter(item => item !== '')

/** A list without an item that it has, or with one that it lacks. */
export function toggled(value: string, item: string): string {
  const items = itemsOf(value)
  return (items.includes(item) ? items.filter(i => i !== item) : [...items, item]).join()
}

/** The value of a parameter in the request; `''` when it is left out. */
function valueOf(name: Name, choice: Choice): string {
  const value = isList(name) ? itemsOf(choice[name]).join() : choice[name].trim()
  const isIdle =
    (name === 'type_prefix' && choice.line.trim() !== '') ||
    (name === 'country_mode' && choice.country === '')
  return isIdle || value === DEFAULTS[name] || !applies(name, formOf(choice)) ? '' : value
}

/** The parameters of the request, in the order of the documentation. */
export const paramsOf = (choice: Choice): Param[] =>
  NAMES.map(name => [name, valueOf(name, choice)] as const).filter(([, value]) => value !== '')

const escaped = (value: string): string =>
  encodeURIComponent(value.toWellFormed()).replaceAll('%2C', ',').replaceAll("'", '%27')

export const queryString = (params: readonly Param[]): string =>
  params.map(([name, value]) => `${name}=${escaped(value)}`).join('&')

/** The choice that a query string holds. Unknown names are ignored; when no name is known, it is `START`. */
export function readChoice(query: string): Choice {
  const given = new URLSearchParams(query)
  const found: { [N in Name]?: string } = {}
  for (const name of NAMES) {
    const short = name === 'country_mode' ? given.getAll('cm') : []
    const values = [...given.getAll(name), ...short].filter(value => value !== '')
    if (values.length === 0) continue
    const value = isList(name) ? values.join() : (values[0] ?? '')
    found[name] = name === 'city' || name === 'line' ? value : value.toLowerCase()
  }
  return Object.keys(found).length === 0 ? START : { ...EMPTY, get: 'txt', ...found }
}
