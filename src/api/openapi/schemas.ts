/**
 * The schemas of bodies in the OpenAPI document (spec 2.1 to 2.3, contract F3 and F4), from tables of
 * their members. Those of a record stand beside its members, in `api/render.ts`.
 */
import type { StatsPart } from '../../proxies/stats.ts'
import { ERRORS, STATUS } from '../errors.ts'
import { IPV4, membersOf } from '../render.ts'
import { type Both, refTo, type Say, type Schema } from './schema.ts'

/** What members are, by the word that the tables have for it. */
const KINDS: { readonly [kind: string]: Schema } = {
  text: { type: 'string' },
  count: { type: 'integer', minimum: 0 },
  counts: { type: 'array', items: { type: 'integer', minimum: 0 } },
  numbers: { type: 'array', items: { type: 'number' } },
  facet: { type: 'object', additionalProperties: { type: 'integer', minimum: 0 } },
  examples: { type: 'array', items: refTo('Proxy') },
  seconds: { type: 'integer', minimum: 1 },
  instant: { type: 'string', format: 'date-time' },
  'instant-or-null': { type: ['string', 'null'], format: 'date-time' },
  hours: {
    ...{ type: 'array', items: { type: 'integer', minimum: 0 } },
    minItems: 24,
    maxItems: 24,
  },
  filters: { type: 'object', additionalProperties: { type: ['string', 'integer'] } },
  data: { oneOf: [{ type: 'array', items: refTo('Proxy') }, refTo('ByAddress')] },
  limits: { type: 'array', items: refTo('Limit') },
  ...{ ok: { const: 'ok' }, error: { const: 'error' }, active: { const: 'active' } },
}

// A table has a line for the object, then one for each member: name (with `?`, it may be missing),
// kind, and what it says in English and Russian, if that needs words.

const ENVELOPE = `
The answer with \`wrap=1\`. | Ответ с \`wrap=1\`.
status: ok | Always \`ok\`. | Всегда \`ok\`.
count: count | How many records \`data\` has. | Сколько записей в \`data\`.
timestamp: instant | When the answer was made. | Когда сделан ответ.
filters: filters | The filters in effect, spelled so that they can be sent back as a query. Never the key. | Действующие фильтры в том виде, в котором их можно послать снова. Ключа здесь нет.
data: data | The records, as \`format\` says. | Записи, как сказано в \`format\`.`

const ERROR = `
The body of every error. | Тело каждой ошибки.
status: error | Always \`error\`. | Всегда \`error\`.
code: ErrorCode | What went wrong, for programs. | Что случилось, для программ.
message: text | What went wrong, for people. | Что случилось, для людей.
timestamp: instant | When the answer was made. | Когда сделан ответ.
retry_after?: seconds | Seconds after which the same request is admitted; in every 429. | Через сколько секунд тот же запрос будет принят; есть в каждом 429.
daily_limit?: count | Requests of the plan a day, with DAILY_LIMIT_REACHED. | Запросов в сутки по тарифу, с DAILY_LIMIT_REACHED.
used_subnets?: count | Networks used on this day before the request, with SUBNET_LIMIT_REACHED. | Сколько сетей было использовано за сутки до запроса, с SUBNET_LIMIT_REACHED.`

const KEY = `
A key, its limits and its use of today. | Ключ, его пределы и использование за сегодня.
id: text | The public name of the key: not secret, and of no use as a key. | Открытое имя ключа: не секрет и ключом не служит.
label: text | What the operator calls it. | Как его называет оператор.
plan: text | Its plan. | Его тариф.
state: active | \`active\`: it is accepted now. | \`active\`: сейчас он принимается.
expires: instant-or-null | When the key ends, \`null\` for never. A key that was replaced by a new one ends with its overlap. | Когда ключ перестанет действовать; \`null\` — никогда. Ключ, заменённый новым, действует до конца перехода.
limits: limits | The limits that apply to this key and client now; unlimited ones are left out. | Пределы, которые сейчас действуют для этого ключа и клиента; безлимитных здесь нет.
today: today`

const TODAY = `
The use of the key since midnight UTC; \`null\` for \`demo\`, which many share. | Использование ключа с полуночи UTC; \`null\` для \`demo\`, которым пользуются многие.
requests: count | Requests admitted. | Принятые запросы.
records: count | Records in the answers. | Записи в ответах.
refused: count | Requests refused because of a limit (429). | Отказы из-за предела (429).
hours: hours | Requests by hour of UTC, from 00 to 23. | Запросы по часам UTC, от 00 до 23.`

const LIMIT = `
A limit. | Предел.
name: text | \`burst\`, \`daily\`, \`subnets\` or \`clients\`; of \`demo\`: \`demo\`; of a temporary key: \`key\` and \`address\`. | \`burst\`, \`daily\`, \`subnets\` или \`clients\`; у \`demo\`: \`demo\`; у временного ключа: \`key\` и \`address\`.
quota: count | How much the limit allows. | Сколько разрешает предел.
window: seconds | In how many seconds. | За сколько секунд.
left: count | How much is left. | Сколько осталось.
reset: count | Seconds until more is left. | Через сколько секунд станет больше.`

const STATS = `
Counts of the list. | Подсчёты по списку.
at: count | When this was counted, in Unix seconds: ages are ages then. | Когда посчитано, в секундах Unix: возрасты — на этот момент.
version: text | Changes whenever the list does. | Меняется вместе со списком.
total: count | Proxies in the list. | Сколько прокси в списке.
matching: count | Proxies that pass the filters: as many as \`/api\` answers with them. | Сколько прокси проходит фильтры: столько же ответит \`/api\`.`

const STATS_FULL = `
facets: facets
histograms: histograms
cities: cities | The largest cities, at most fifty, whatever \`city\` is. | Крупнейшие города, не больше пятидесяти, при любом \`city\`.
examples: examples | The freshest proxies that match, at most twenty, masked as with \`demo\`. | Самые свежие подходящие прокси, не больше двадцати, с адресами как у \`demo\`.`

const FACETS = `
Proxies by value, of those that pass every filter but that of this name: what choosing the value instead would find. Values without proxies may be missing; empty is unknown. | Прокси по значениям среди тех, что проходят все фильтры, кроме одноимённого: сколько нашлось бы, если выбрать это значение. Значений без прокси может не быть; пустое — неизвестно.
type: facet
anon: facet
country: facet
service: facet | Of those that pass all filters: with how many it works as well. | Среди прошедших все фильтры: со сколькими он тоже работает.
age: facet | Checked at most so many seconds ago; empty: at any time. | Проверены не больше стольких секунд назад; пустое — когда угодно.`

const HISTOGRAMS = `
Of those that pass every filter but that of this name: \`ping\` in milliseconds, \`speed\` in bytes per second, \`works\` in percent. | Среди тех, что проходят все фильтры, кроме одноимённого: \`ping\` в миллисекундах, \`speed\` в байтах в секунду, \`works\` в процентах.
ping: Histogram
speed: Histogram
works: Histogram`

const HISTOGRAM = `
\`counts[i]\` proxies lie between \`edges[i]\` and \`edges[i + 1]\`, those beyond in the first and the last. | \`counts[i]\` прокси лежат между \`edges[i]\` и \`edges[i + 1]\`, остальные — в крайних.
edges: numbers | Bounds, from the lowest on: one more than counts. | Границы по возрастанию: на одну больше, чем количеств.
counts: counts | How many proxies lie between two of them. | Сколько прокси лежит между двумя соседними.
unknown: count | Of how many it is not known. | У скольких это неизвестно.`

const CITY = `
A city. | Город.
city: text
city_en: text
country: text
count: count`

type Member = { name: string; kind: string; isOptional?: boolean; text?: Both }

const ROW = /^([\w-]+)(\??): (\S+)(?: \| (.+))?$/gm

export const rowsOf = (table: string): Member[] =>
  Array.from(table.matchAll(ROW), ([, name = '', mark, kind = '', text]) => {
    const row = { name, kind, isOptional: mark === '?' }
    return text === undefined ? row : { ...row, text: text as Both } // as the tables have it
  })

/** The schema of a kind; `kinds` are those of one table. */
export const kindOf = (kind: string, kinds: typeof KINDS = {}): Schema =>
  kinds[kind] ?? KINDS[kind] ?? refTo(kind)

export function schemas(
  provider: string,
  errors: 'json' | 'text',
  stats: StatsPart | 'off',
  say: Say,
): { [name: string]: Schema } {
  function objectOf(table: string, kinds: typeof KINDS = {}): Schema {
    const [about] = table.trim().split('\n')
    const members = rowsOf(table)
    const properties = members.map(({ name, kind, text }) => {
      const schema = kindOf(kind, kinds)
      return [name, text === undefined ? schema : { description: say(text), ...schema }]
    })
    return {
      description: say(about as Both), // likewise
      type: 'object',
      required: members.filter(({ isOptional }) => !isOptional).map(({ name }) => name),
      properties: Object.fromEntries(properties),
    }
  }

  const statsSchemas = () => ({
    Stats: objectOf(stats === 'full' ? STATS + STATS_FULL : STATS, {
      facets: objectOf(FACETS),
      histograms: objectOf(HISTOGRAMS),
      cities: { type: 'array', items: objectOf(CITY) },
    }),
    ...(stats === 'full' && { Histogram: objectOf(HISTOGRAM) }),
  })

  return {
    // All members that there may be, none of them always, because of `fields`.
    Proxy: {
      description: say(
        'A proxy. `fields` may leave members out; their order stays. | Прокси. `fields` может убрать поля; порядок остаётся.',
      ),
      type: 'object',
      properties: Object.fromEntries(
        membersOf(provider).map(({ name, schema, en, ru }) => [
          name,
          { description: say({ en, ru }), ...schema },
        ]),
      ),
      additionalProperties: false,
    },
    ByAddress: {
      description: say(
        'The answer with `format=object`: records by `ip:port`. | Ответ с `format=object`: записи по `ip:port`.',
      ),
      type: 'object',
      propertyNames: { pattern: `^${IPV4}:[0-9]{1,5}$` },
      additionalProperties: refTo('Proxy'),
    },
    Envelope: objectOf(ENVELOPE),
    Key: objectOf(KEY, { today: { ...objectOf(TODAY), type: ['object', 'null'] } }),
    Limit: objectOf(LIMIT),
    ...(stats !== 'off' && statsSchemas()),
    ErrorCode: {
      type: 'string',
      enum: Object.keys(ERRORS),
      'x-enumDescriptions': Object.fromEntries(
        Object.entries(ERRORS).map(([code, when]) => [code, say(when)]),
      ),
      'x-enumStatuses': STATUS,
    },
    Error: errors === 'json' ? objectOf(ERROR) : { type: 'string', pattern: '^Error: ' },
  }
}
