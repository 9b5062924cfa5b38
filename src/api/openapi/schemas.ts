/**
 * The schemas of bodies in the OpenAPI document (spec 2.1 to 2.3, contract F3 and F4), from tables of
 * their members. Those of a record stand beside its members, in `api/render.ts`.
 */
import { serviceNames } from '../../proxies/proxy.ts'
import { ERRORS, STATUS } from '../errors.ts'
import { IPV4, membersOf } from '../render.ts'
import { type Both, refTo, type Say, type Schema } from './schema.ts'

export type StatsPart = 'full' | 'totals' | 'off'

/** What members are, by the word that the tables have for it. */
const KINDS: { readonly [kind: string]: Schema } = {
  text: { type: 'string' },
  texts: { type: 'array', items: { type: 'string' } },
  count: { type: 'integer', minimum: 0 },
  counts: { type: 'array', items: { type: 'integer', minimum: 0 } },
  numbers: { type: 'array', items: { type: 'number' } },
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
version: text | The version of the program. | Версия программы.
at: count | When this was counted, in Unix seconds: ages are ages then. | Когда посчитано, в секундах Unix: возрасты — на этот момент.
total: count | Proxies in the list. | Сколько прокси в списке.
hidden: count | Proxies that are in no cell of the cube, because fewer than five are alike. | Сколько прокси не вошло в ячейки: похожих меньше пяти.
dimensions: dimensions
cube: cube
histograms: histograms
cities: cities | The largest cities, at most fifty, none below five proxies. | Крупнейшие города, не больше пятидесяти, не меньше пяти прокси в каждом.`

const CUBE = `
Columns of one length, a cell in each row: positions in \`dimensions\`, how many proxies, and how many of them each service works with. | Столбцы одной длины, в строке одна ячейка: позиции в \`dimensions\`, сколько прокси и со сколькими из них работает каждый сервис.
type: counts | Positions in \`dimensions.type\`. | Позиции в \`dimensions.type\`.
anon: counts | Positions in \`dimensions.anon\`. | Позиции в \`dimensions.anon\`.
country: counts | Positions in \`dimensions.country\`. | Позиции в \`dimensions.country\`.
age: counts | Positions in \`dimensions.age\`. | Позиции в \`dimensions.age\`.
count: counts | Proxies of the cell, at least five. | Прокси в ячейке, не меньше пяти.`

/** The column of a service in the cube. */
const WORKING: Omit<Member, 'name'> = {
  kind: 'counts',
  text: 'With how many of them it works. | Со сколькими из них он работает.',
}

const DIMENSIONS = `
What positions in the columns of the cube stand for. | Что значат позиции в столбцах.
type: texts | The types. | Типы.
anon: texts | Anonymity levels; empty: unknown. | Уровни анонимности; пусто: неизвестно.
country: texts | Countries; \`--\` stands for several small ones, empty for unknown. | Страны; \`--\` — несколько малых вместе, пусто — неизвестно.
age: counts | Bounds of the age of the last check in seconds; a proxy is at the smallest that holds. | Границы возраста последней проверки в секундах; прокси стоит у наименьшей подходящей.
services: texts | The services. | Сервисы.`

const HISTOGRAMS = `
Of the whole list: \`ping\` in milliseconds, \`speed\` in bytes per second, \`works\` in percent. Unknown values are left out. | По всему списку: \`ping\` в миллисекундах, \`speed\` в байтах в секунду, \`works\` в процентах. Неизвестное не считается.
ping: Histogram
speed: Histogram
works: Histogram`

const HISTOGRAM = `
\`counts[i]\` proxies lie between \`edges[i]\` and \`edges[i + 1]\`. | \`counts[i]\` прокси лежат между \`edges[i]\` и \`edges[i + 1]\`.
edges: numbers | Bounds, from the lowest on: one more than counts. | Границы по возрастанию: на одну больше, чем количеств.
counts: counts | How many proxies lie between two of them. | Сколько прокси лежит между двумя соседними.`

const CITY = `
A city. | Город.
city: text
city_en: text
country: text
count: count`

type Member = { name: string; kind: string; isOptional?: boolean; text?: Both }

const ROW = /^([\w-]+)(\??): (\S+)(?: \| (.+))?$/gm

/** The members of a table. */
export const rowsOf = (table: string): Member[] =>
  Array.from(table.matchAll(ROW), ([, name = '', mark, kind = '', text]) => {
    const row = { name, kind, isOptional: mark === '?' }
    return text === undefined ? row : { ...row, text: text as Both } // as the tables have it
  })

/** The schema of a kind; `kinds` are those of one table. */
export const kindOf = (kind: string, kinds: typeof KINDS = {}): Schema =>
  kinds[kind] ?? KINDS[kind] ?? refTo(kind)

/** All schemas of the document. */
export function schemas(
  provider: string,
  errors: 'json' | 'text',
  stats: StatsPart,
  say: Say,
): { [name: string]: Schema } {
  /** The object of a table, with `more` members at its end. */
  function objectOf(table: string, kinds: typeof KINDS = {}, more: readonly Member[] = []): Schema {
    const [about] = table.trim().split('\n')
    const members = [...rowsOf(table), ...more]
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

  /** Statistics; `totals` are without cube and cities. */
  const statsSchemas = () => {
    const services = serviceNames(provider).map(name => ({ name, ...WORKING }))
    return {
      Stats: objectOf(stats === 'full' ? STATS : STATS.replace(/\n(?:cube|cities):.*/g, ''), {
        dimensions: objectOf(DIMENSIONS),
        cube: objectOf(CUBE, {}, services),
        histograms: objectOf(HISTOGRAMS),
        cities: { type: 'array', items: objectOf(CITY) },
      }),
      Histogram: objectOf(HISTOGRAM),
    }
  }

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
