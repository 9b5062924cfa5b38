/**
 * What a visitor chose, as the parameters of the API, and its query string in both directions,
 * so that the address of the page can be shared. Pure: knows neither the document nor words.
 */

/** The values that closed parameters take, in the order in which they are shown. */
export const TYPES = ['http', 'https', 'socks4', 'socks5'] as const
export const ANONS = ['elite', 'anonymous', 'transparent'] as const
export const SORTS = ['checked', 'ping', 'speed', 'works', 'random'] as const
export const FORMS = ['json', 'txt', 'csv', 'ndjson'] as const
/** The names of services, the last one the provider's own. */
export const servicesOf = (own = 'the service') => ['smtp', 'telegram', 'avito', 'google', own]
/** Members of a record besides the services. */
export const MEMBERS = [
  ...['ip', 'port', 'ip_out', 'type', 'anon', 'speed', 'ping', 'timecheck'],
  ...['country', 'city', 'works'],
] as const

export const AGES = [60, 300, 600, 3600, 86_400, 604_800] as const
export const DEFAULT_AGE_SECONDS = 600

type Rule = { isList: boolean; accepts(text: string): boolean }

const listOf = (pattern: RegExp): Rule => ({ isList: true, accepts: item => pattern.test(item) })
const integer = (min: number, max: number): Rule => ({
  isList: false,
  accepts: text => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max,
})
const oneOf = (...values: readonly string[]): Rule => ({
  isList: false,
  accepts: text => values.includes(text),
})
const NAME = /^[^,\u0000-\u001f\u007f]{1,200}$/
export const INTEGER_MAX = 999_999_999_999_999

const OCTET = '(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])'
/** `a.b.c.d:port`, in canonical decimals. */
const ADDRESS = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}:([1-9]\\d{0,4})$`)

/** A template with address and port, whose braces hold only known names. */
const LINE = /^(?=.*\{ip\})(?=.*\{port\})(?:[ -z|~]|\{(?:type|scheme|ip|port|country)\})+$/

/** The parameters, in the order of the documentation, and what each accepts. */
const RULES = {
  type: { ...oneOf(...TYPES), isList: true },
  anon: { ...oneOf(...ANONS), isList: true },
  ping: integer(0, INTEGER_MAX),
  speed: integer(0, INTEGER_MAX),
  time: integer(0, INTEGER_MAX),
  works: integer(0, 100),
  country: listOf(/^[a-z]{2}$/),
  country_mode: oneOf('include', 'except'),
  city: listOf(NAME),
  port: integer(1, 65_535),
  ip: { isList: false, accepts: text => Number(ADDRESS.exec(text)?.[1]) <= 65_535 },
  service: listOf(NAME),
  sort: oneOf(...SORTS),
  unique: oneOf('1'),
  count: integer(1, INTEGER_MAX),
  lang: oneOf('ru', 'en'),
  get: oneOf(...FORMS, ...FORMS.map(form => `${form}.file`)),
  type_prefix: oneOf('1'),
  line: { isList: false, accepts: text => text.length <= 100 && LINE.test(text) },
  fields: listOf(NAME),
  split_ip: oneOf('1'),
  format: oneOf('array', 'object'),
  wrap: oneOf('1'),
  pretty: oneOf('0', '1'),
} as const satisfies { [name: string]: Rule }

export type Name = keyof typeof RULES

/** A text for each parameter, `''` when it is not given. What is typed may be invalid. */
export type Choice = { readonly [N in Name]: string }

export type Param = readonly [name: string, value: string]

const NAMES = Object.keys(RULES) as Name[]
const EMPTY = Object.fromEntries(NAMES.map(name => [name, ''])) as Choice

/** What a visitor begins with: the whole list, as JSON. */
export const START: Choice = { ...EMPTY, get: 'json' }

/** Values that say what leaving the parameter out says. */
const DEFAULTS: Partial<Choice> = {
  ...{ time: String(DEFAULT_AGE_SECONDS), country_mode: 'include', sort: 'checked' },
  ...{ get: 'txt', format: 'array', pretty: '1' },
}

export type Form = (typeof FORMS)[number]
/** The form of a choice: `json` of `json.file`. */
export const formOf = ({ get }: Choice): Form =>
  FORMS.find(form => form === get.replace(/\.file$/, '')) ?? 'txt'

/** Parameters that apply to some forms only; the API ignores them with others. */
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

/** A value as the API accepts it; `''` when nothing of it is acceptable. */
function accepted(name: Name, value: string): string {
  const { isList, accepts } = RULES[name]
  if (isList) return [...new Set(itemsOf(value).filter(accepts))].join()
  return accepts(value.trim()) ? value.trim() : ''
}

/** Whether what is typed for a parameter is left out because the API would refuse it. */
export const isInvalid = (name: Name, value: string): boolean =>
  value.trim() !== '' &&
  (accepted(name, value) === '' ||
    (RULES[name].isList && itemsOf(value).some(item => accepted(name, item) === '')))

/** Items that the service knows, under its names; an underscore may stand for a space. */
const known = (value: string, names: readonly string[]): string =>
  names
    .filter(name => itemsOf(value).some(i => i === name || i.replaceAll('_', ' ') === name))
    .join()

/** The value of a parameter in the request; `''` when it is left out. */
function sent(name: Name, choice: Choice, services: readonly string[]): string {
  const value = accepted(name, choice[name])
  if (value === '' || value === DEFAULTS[name] || !applies(name, formOf(choice))) return ''
  if (name === 'type_prefix' && accepted('line', choice.line) !== '') return ''
  if (name === 'country_mode') return accepted('country', choice.country) === '' ? '' : value
  if (name === 'service') return known(value, services)
  if (name !== 'fields') return value
  const members = [...MEMBERS, ...services].filter(m => m !== 'port' || choice.split_ip === '1')
  const fields = known(value, [...members, 'types']) // shown only when chosen
  return fields === members.join() ? '' : fields
}

/** The parameters of the request, in the order of the documentation; `services` are those that there are. */
export const paramsOf = (choice: Choice, services: readonly string[]): Param[] =>
  NAMES.map(name => [name, sent(name, choice, services)] as const).filter(([, v]) => v !== '')

const escaped = (value: string): string =>
  encodeURIComponent(value.toWellFormed()).replaceAll('%2C', ',').replaceAll("'", '%27')

export const queryString = (params: readonly Param[]): string =>
  params.map(([name, value]) => `${name}=${escaped(value)}`).join('&')

/** The parameters of a query string; what is not valid UTF-8 is a name without a value. */
function pairsOf(query: string): Param[] {
  return query.split('&').flatMap(pair => {
    const [name = '', ...value] = pair.replaceAll('+', ' ').split('=')
    try {
      return [[decodeURIComponent(name), decodeURIComponent(value.join('='))] as const]
    } catch {
      return [[pair, ''] as const] // no name of a parameter
    }
  })
}

const isName = (name: string): name is Name => Object.hasOwn(RULES, name)
const FOLDED = new Set<Name>(['type', 'anon', 'country', 'service', 'fields'])

/**
 * The choice that a query string holds, such as that of an address that was sent. Parts that are
 * unknown or invalid are ignored; when nothing is left, it is `START`. Never throws.
 */
export function readChoice(query: string): Choice {
  const found: { [N in Name]?: string } = {}
  for (const [given, value] of pairsOf(query)) {
    const name = given === 'cm' ? 'country_mode' : given
    if (!isName(name)) continue
    const text = accepted(name, FOLDED.has(name) ? value.toLowerCase() : value)
    if (text === '') continue
    const before = RULES[name].isList ? (found[name] ?? '') : ''
    found[name] = accepted(name, before === '' ? text : `${before},${text}`)
  }
  return Object.keys(found).length === 0 ? START : { ...EMPTY, get: 'txt', ...found }
}

/** A parameter that has no such name; what may be a key is not repeated. */
const unknownIn = (name: string, value: string): string =>
  value === '' || /key/i.test(name) ? name : `${name}=${value}`

/** What of a query string is ignored, to be said. */
export function ignoredIn(query: string, services: readonly string[]): string[] {
  const isWrong = (name: Name, item: string): boolean =>
    accepted(name, item) === '' || (name === 'service' && known(item, services) === '')
  const ignored = pairsOf(query).map(([given, value]) => {
    const name = given === 'cm' ? 'country_mode' : given
    if (!isName(name)) return unknownIn(given, value)
    const text = FOLDED.has(name) ? value.toLowerCase() : value
    const items = RULES[name].isList ? itemsOf(text) : [text.trim()]
    const wrong = items.filter(item => item !== '' && isWrong(name, item)).join()
    return wrong === '' ? '' : `${given}=${wrong}`
  })
  return ignored.filter(text => text !== '').map(text => text.slice(0, 80))
}
