/** The schemas of the OpenAPI document (spec 2.1 to 2.3, contract F3 and F4). */
import type { Lang } from '../../proxies/proxy.ts'
import type { StatsPart } from '../../proxies/stats.ts'
import { ERRORS, STATUS } from '../errors.ts'
import { IPV4, membersOf } from '../render.ts'
import { errorExample, KEY_EXAMPLE } from './examples.ts'

/** A JSON Schema (draft 2020-12), with the keywords that the reference page reads. */
export type Schema = Readonly<{
  $ref?: string
  type?: string | readonly string[]
  description?: string
  enum?: readonly unknown[]
  const?: unknown
  minimum?: number
  maximum?: number | undefined
  items?: Schema
  default?: unknown
  properties?: { readonly [name: string]: Schema }
  oneOf?: readonly Schema[]
  examples?: readonly unknown[]
  'x-enumDescriptions'?: { readonly [value: string]: string }
  'x-enumStatuses'?: { readonly [value: string]: number }
  [keyword: string]: unknown
}>

export const refTo = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

const COUNT: Schema = { type: 'integer', minimum: 0 }
/** The types of the table; a type that is not here is the name of a schema. */
const TYPES: { readonly [type: string]: Schema } = {
  string: { type: 'string' },
  count: COUNT,
  number: { type: 'number' },
  instant: { type: 'string', format: 'date-time' },
  null: { type: 'null' },
  counts: { type: 'object', additionalProperties: COUNT },
  filters: { type: 'object', additionalProperties: { type: ['string', 'integer'] } },
  ...{ ok: { const: 'ok' }, error: { const: 'error' }, active: { const: 'active' } },
}

function schemaOf(type: string): Schema {
  if (type.includes('|')) return { oneOf: type.split('|').map(schemaOf) }
  if (type.endsWith('[]')) return { type: 'array', items: schemaOf(type.slice(0, -2)) }
  return TYPES[type] ?? refTo(type)
}

// A block for each object: its name, then its members. `?` marks a member that may be missing.

const OBJECTS = `
Envelope: The answer with \`wrap=1\`. | Ответ с \`wrap=1\`.
status: ok | Always \`ok\`. | Всегда \`ok\`.
count: count | The number of records in \`data\`. | Сколько записей в \`data\`.
timestamp: instant | The time of the answer. | Когда сделан ответ.
filters: filters | The filters in effect. They can be sent back as a query, and never hold the key. | Действующие фильтры в том виде, в котором их можно послать снова. Ключа здесь нет.
data: Proxy[]|ByAddress | The records, in the shape that \`format\` names. | Записи, как сказано в \`format\`.

Error: The body of every error. | Тело каждой ошибки.
status: error | Always \`error\`. | Всегда \`error\`.
code: ErrorCode | The reason, for programs. | Что случилось, для программ.
message: string | The reason, for people. | Что случилось, для людей.
timestamp: instant | The time of the answer. | Когда сделан ответ.
retry_after?: count | Seconds until the same request is admitted; in every 429. | Через сколько секунд тот же запрос будет принят; есть в каждом 429.
daily_limit?: count | Requests of the plan a day, with DAILY_LIMIT_REACHED. | Запросов в сутки по тарифу, с DAILY_LIMIT_REACHED.
used_subnets?: count | Networks used on this day before the request, with SUBNET_LIMIT_REACHED. | Сколько сетей было использовано за сутки до запроса, с SUBNET_LIMIT_REACHED.

Key: A key, its limits and its use of today. | Ключ, его лимиты и использование за сегодня.
id: string | The public name of the key. It is not secret, and does not work as a key. | Открытое имя ключа: не секрет и ключом не служит.
label: string | The operator's name for it. | Как его называет оператор.
plan: string | Its plan. | Его тариф.
state: active | \`active\`: it is accepted now. | \`active\`: сейчас он принимается.
expires: instant|null | When the key expires; \`null\` for never. A key that was replaced expires at the end of its overlap. | Когда ключ перестанет действовать; \`null\` — никогда. Ключ, заменённый новым, действует до конца перехода.
limits: Limit[] | The limits of this key and client. Unlimited ones are left out. | Лимиты, которые сейчас действуют для этого ключа и клиента; безлимитных здесь нет.
today: Today|null | The use since midnight UTC; \`null\` for \`demo\`, which many clients share. | Использование с полуночи UTC; \`null\` для \`demo\`, которым пользуются многие.

Limit: A limit. | Лимит.
name: string | \`burst\`, \`daily\`, \`subnets\` or \`clients\`; for \`demo\`: \`demo\`; for a temporary key: \`key\` and \`address\`. | \`burst\`, \`daily\`, \`subnets\` или \`clients\`; у \`demo\`: \`demo\`; у временного ключа: \`key\` и \`address\`.
quota: count | The number that the limit allows. | Сколько разрешает лимит.
window: count | The length of its window, in seconds. | За сколько секунд.
left: count | How much is left. | Сколько осталось.
reset: count | Seconds until more is left. | Через сколько секунд станет больше.

Today: The use of a key since midnight UTC. | Использование ключа с полуночи UTC.
requests: count | Requests admitted. | Принятые запросы.
records: count | Records in the answers. | Записи в ответах.
refused: count | Requests refused because of a limit (429). | Отказы из-за лимита (429).
hours: count[] | Requests by hour of UTC, from 00 to 23. | Запросы по часам UTC, от 00 до 23.`

const STATS = `

Stats: Counts of the list. | Подсчёты по списку.
at: count | The time of the count, in Unix seconds. Ages are ages at this time. | Когда посчитано, в секундах Unix: возрасты — на этот момент.
version: string | Changes whenever the list does. | Меняется вместе со списком.
total: count | Proxies in the list. | Сколько прокси в списке.
matching: count | Proxies that pass the filters. \`/api\` answers as many. | Сколько прокси проходит фильтры: столько же ответит \`/api\`.`

const STATS_FULL = `
facets: Facets | Counts by value. | Подсчёты по значениям.
histograms: Histograms | Counts by range of numbers. | Подсчёты по промежуткам чисел.
cities: City[] | The largest cities, at most fifty; \`city\` does not filter them. | Крупнейшие города, не больше пятидесяти, при любом \`city\`.
examples: Proxy[] | The freshest proxies that match, at most twenty, masked as with \`demo\`. | Самые свежие подходящие прокси, не больше двадцати, с адресами как у \`demo\`.

Facets: Proxies by value. Each facet applies all filters except its own: it counts what another value would find. Values without proxies may be missing; empty is unknown. | Прокси по значениям среди тех, что проходят все фильтры, кроме одноимённого: сколько нашлось бы, если выбрать это значение. Значений без прокси может не быть; пустое — неизвестно.
type: counts | By type. | По типам.
anon: counts | By anonymity level. | По уровням анонимности.
country: counts | By country. | По странам.
service: counts | Proxies that pass all filters and work with this service too. | Среди прошедших все фильтры: со сколькими он тоже работает.
age: counts | Checked at most this many seconds ago; empty: at any time. | Проверены не больше стольких секунд назад; пустое — когда угодно.

Histograms: Each applies all filters except its own. | Среди тех, что проходят все фильтры, кроме одноимённого.
ping: Histogram | In milliseconds. | В миллисекундах.
speed: Histogram | In bytes per second. | В байтах в секунду.
works: Histogram | In percent. | В процентах.

Histogram: \`counts[i]\` proxies lie between \`edges[i]\` and \`edges[i + 1]\`. The first and the last count include the values beyond. | \`counts[i]\` прокси лежат между \`edges[i]\` и \`edges[i + 1]\`, остальные — в крайних.
edges: number[] | Bounds in ascending order: one more than counts. | Границы по возрастанию: на одну больше, чем количеств.
counts: count[] | The number of proxies between two bounds. | Сколько прокси лежит между двумя соседними.
unknown: count | Proxies without a value. | У скольких это неизвестно.

City: A city. | Город.
city: string | Its default name. | Его название.
city_en: string | Its English name, empty when there is none. | Его английское название; пусто, если его нет.
country: string | Two letters in upper case, empty when unknown. | Две заглавные буквы; пусто, если неизвестна.
count: count | Proxies in it. | Сколько в нём прокси.`

const LINE = /^([\w-]+)(\??): (?:([^ ]+) \| )?(.+)$/

function objectOf(block: string): [name: string, schema: Schema] {
  const [[name = '', , , description = ''] = [], ...members] = block
    .split('\n')
    .map(line => LINE.exec(line)?.slice(1) ?? [])
  const properties = members.map(([name = '', , type = '', description = '']) => [
    name,
    { description, ...schemaOf(type) },
  ])
  const required = members.filter(([, mark]) => mark === '').map(([name]) => name)
  return [
    name,
    { description, type: 'object', required, properties: Object.fromEntries(properties) },
  ]
}

export function schemasOf(
  provider: string,
  errors: 'json' | 'text',
  stats: StatsPart | 'off',
  lang: Lang,
): { [name: string]: Schema } {
  const table = OBJECTS + { full: STATS + STATS_FULL, totals: STATS, off: '' }[stats]
  const { Error: error, ...objects } = Object.fromEntries(table.trim().split('\n\n').map(objectOf))
  const members = membersOf(provider).map(({ name, schema, [lang]: description }) => [
    name,
    { description, ...schema },
  ])
  return {
    // No member is required, because `fields` chooses them.
    Proxy: {
      description:
        'A proxy. `fields` may leave members out; their order stays. | Прокси. `fields` может убрать поля; порядок остаётся.',
      type: 'object',
      properties: Object.fromEntries(members),
      additionalProperties: false,
    },
    ByAddress: {
      description:
        'The answer with `format=object`: records by `ip:port`. | Ответ с `format=object`: записи по `ip:port`.',
      type: 'object',
      propertyNames: { pattern: `^${IPV4}:[0-9]{1,5}$` },
      additionalProperties: refTo('Proxy'),
    },
    ...objects,
    Key: { ...objects.Key, examples: [KEY_EXAMPLE] },
    ErrorCode: {
      type: 'string',
      enum: Object.keys(ERRORS),
      'x-enumDescriptions': Object.fromEntries(
        Object.entries(ERRORS).map(([code, text]) => [code, text[lang]]),
      ),
      'x-enumStatuses': STATUS,
    },
    Error: {
      ...(errors === 'json' ? error : { type: 'string', pattern: '^Error: ' }),
      examples: [errorExample(errors)],
    },
  }
}
