/**
 * The schemas of bodies in the OpenAPI document (spec 2.1 to 2.3, contract F3 and F4), and what each
 * member is. Those of a record stand beside its members, in `api/render.ts`.
 */
import { serviceNames, type Text } from '../../proxies/proxy.ts'
import { ERRORS, STATUS } from '../errors.ts'
import { IPV4, membersOf } from '../render.ts'
import { refTo, type Say, type Schema } from './schema.ts'

export type StatsPart = 'full' | 'totals' | 'off'

const TEXT: Schema = { type: 'string' }
const COUNT: Schema = { type: 'integer', minimum: 0 }
const INSTANT: Schema = { type: 'string', format: 'date-time' }
const COUNTS: Schema = { type: 'array', items: COUNT }
const NUMBERS: Schema = { type: 'array', items: { type: 'number' } }
const TEXTS: Schema = { type: 'array', items: TEXT }

/** The members of an object; most have a text that says what they are. */
type Members = { readonly [name: string]: Schema & Partial<Text> }

/** All schemas of the document. */
export function schemas(
  provider: string,
  errors: 'json' | 'text',
  stats: StatsPart,
  say: Say,
): { [name: string]: Schema } {
  const described = (members: Members): { [name: string]: Schema } =>
    Object.fromEntries(
      Object.entries(members).map(([name, { en, ru, ...schema }]) => [
        name,
        en === undefined || ru === undefined ? schema : { description: say({ en, ru }), ...schema },
      ]),
    )
  /** An object that has all of these members, and perhaps others. */
  const whole = (text: Text, members: Members, others: Members = {}): Schema => ({
    description: say(text),
    type: 'object',
    required: Object.keys(members),
    properties: described({ ...members, ...others }),
  })

  /** All members that there may be, none of them always, because of `fields`. */
  const record: Schema = {
    description: say({
      en: 'A proxy. `fields` may leave members out; their order stays.',
      ru: 'Прокси. `fields` может убрать поля; порядок остаётся.',
    }),
    type: 'object',
    properties: described(
      Object.fromEntries(
        membersOf(provider).map(({ name, schema, en, ru }) => [name, { ...schema, en, ru }]),
      ),
    ),
    additionalProperties: false,
  }

  const envelope = whole(
    { en: 'The answer with `wrap=1`.', ru: 'Ответ с `wrap=1`.' },
    {
      status: { const: 'ok', en: 'Always `ok`.', ru: 'Всегда `ok`.' },
      count: { ...COUNT, en: 'How many records `data` has.', ru: 'Сколько записей в `data`.' },
      timestamp: { ...INSTANT, en: 'When the answer was made.', ru: 'Когда сделан ответ.' },
      filters: {
        type: 'object',
        additionalProperties: { type: ['string', 'integer'] },
        en: 'The filters in effect, spelled so that they can be sent back as a query. Never the key.',
        ru: 'Действующие фильтры в том виде, в котором их можно послать снова. Ключа здесь нет.',
      },
      data: {
        oneOf: [{ type: 'array', items: refTo('Proxy') }, refTo('ByAddress')],
        en: 'The records, as `format` says.',
        ru: 'Записи, как сказано в `format`.',
      },
    },
  )

  const error = whole(
    { en: 'The body of every error.', ru: 'Тело каждой ошибки.' },
    {
      status: { const: 'error', en: 'Always `error`.', ru: 'Всегда `error`.' },
      code: {
        ...refTo('ErrorCode'),
        en: 'What went wrong, for programs.',
        ru: 'Что случилось, для программ.',
      },
      message: { ...TEXT, en: 'What went wrong, for people.', ru: 'Что случилось, для людей.' },
      timestamp: { ...INSTANT, en: 'When the answer was made.', ru: 'Когда сделан ответ.' },
    },
    {
      retry_after: {
        ...{ type: 'integer', minimum: 1 },
        en: 'Seconds after which the same request is admitted; in every 429.',
        ru: 'Через сколько секунд тот же запрос будет принят; есть в каждом 429.',
      },
      daily_limit: {
        ...COUNT,
        en: 'Requests of the plan a day, with DAILY_LIMIT_REACHED.',
        ru: 'Запросов в сутки по тарифу, с DAILY_LIMIT_REACHED.',
      },
      used_subnets: {
        ...COUNT,
        en: 'Networks used on this day before the request, with SUBNET_LIMIT_REACHED.',
        ru: 'Сколько сетей было использовано за сутки до запроса, с SUBNET_LIMIT_REACHED.',
      },
    },
  )

  const key = whole(
    {
      en: 'A key, its limits and its use of today.',
      ru: 'Ключ, его пределы и использование за сегодня.',
    },
    {
      id: {
        ...TEXT,
        en: 'The public name of the key: not secret, and of no use as a key.',
        ru: 'Открытое имя ключа: не секрет и ключом не служит.',
      },
      label: { ...TEXT, en: 'What the operator calls it.', ru: 'Как его называет оператор.' },
      plan: { ...TEXT, en: 'Its plan.', ru: 'Его тариф.' },
      state: {
        const: 'active',
        en: '`active`: it is accepted now.',
        ru: '`active`: сейчас он принимается.',
      },
      expires: {
        ...{ type: ['string', 'null'], format: 'date-time' },
        en: 'When the key ends, `null` for never. A key that was replaced by a new one ends with its overlap.',
        ru: 'Когда ключ перестанет действовать; `null` — никогда. Ключ, заменённый новым, действует до конца перехода.',
      },
      limits: {
        ...{ type: 'array', items: refTo('Limit') },
        en: 'The limits that apply to this key and client now; unlimited ones are left out.',
        ru: 'Пределы, которые сейчас действуют для этого ключа и клиента; безлимитных здесь нет.',
      },
      today: {
        ...whole(
          {
            en: 'The use of the key since midnight UTC; `null` for `demo`, which many share.',
            ru: 'Использование ключа с полуночи UTC; `null` для `demo`, которым пользуются многие.',
          },
          {
            requests: { ...COUNT, en: 'Requests admitted.', ru: 'Принятые запросы.' },
            records: { ...COUNT, en: 'Records in the answers.', ru: 'Записи в ответах.' },
            refused: {
              ...COUNT,
              en: 'Requests refused because of a limit (429).',
              ru: 'Отказы из-за предела (429).',
            },
            hours: {
              ...{ ...COUNTS, minItems: 24, maxItems: 24 },
              en: 'Requests by hour of UTC, from 00 to 23.',
              ru: 'Запросы по часам UTC, от 00 до 23.',
            },
          },
        ),
        type: ['object', 'null'],
      },
    },
  )
  const limit = whole(
    { en: 'A limit.', ru: 'Предел.' },
    {
      name: {
        ...TEXT,
        en: '`burst`, `daily`, `subnets` or `clients`; of `demo`: `demo`; of a temporary key: `key` and `address`.',
        ru: '`burst`, `daily`, `subnets` или `clients`; у `demo`: `demo`; у временного ключа: `key` и `address`.',
      },
      quota: { ...COUNT, en: 'How much the limit allows.', ru: 'Сколько разрешает предел.' },
      window: { type: 'integer', minimum: 1, en: 'In how many seconds.', ru: 'За сколько секунд.' },
      left: { ...COUNT, en: 'How much is left.', ru: 'Сколько осталось.' },
      reset: {
        ...COUNT,
        en: 'Seconds until more is left.',
        ru: 'Через сколько секунд станет больше.',
      },
    },
  )

  return {
    Proxy: record,
    ByAddress: {
      description: say({
        en: 'The answer with `format=object`: records by `ip:port`.',
        ru: 'Ответ с `format=object`: записи по `ip:port`.',
      }),
      type: 'object',
      propertyNames: { pattern: `^${IPV4}:[0-9]{1,5}$` },
      additionalProperties: refTo('Proxy'),
    },
    Envelope: envelope,
    Key: key,
    Limit: limit,
    ...(stats !== 'off' && statsSchemas(stats)),
    ErrorCode: {
      type: 'string',
      enum: Object.keys(ERRORS),
      'x-enumDescriptions': Object.fromEntries(
        Object.entries(ERRORS).map(([code, when]) => [code, say(when)]),
      ),
      'x-enumStatuses': STATUS,
    },
    Error: errors === 'json' ? error : { type: 'string', pattern: '^Error: ' },
  }

  /** The schemas of statistics; `totals` are without cube and cities. */
  function statsSchemas(part: 'full' | 'totals') {
    const ofServices = Object.fromEntries(
      serviceNames(provider).map(name => [
        name,
        {
          ...COUNTS,
          en: 'With how many of them it works.',
          ru: 'Со сколькими из них он работает.',
        },
      ]),
    )
    const cube = whole(
      {
        en: 'Columns of one length, a cell in each row: positions in `dimensions`, how many proxies, and how many of them each service works with.',
        ru: 'Столбцы одной длины, в строке одна ячейка: позиции в `dimensions`, сколько прокси и со сколькими из них работает каждый сервис.',
      },
      {
        type: {
          ...COUNTS,
          en: 'Positions in `dimensions.type`.',
          ru: 'Позиции в `dimensions.type`.',
        },
        anon: {
          ...COUNTS,
          en: 'Positions in `dimensions.anon`.',
          ru: 'Позиции в `dimensions.anon`.',
        },
        country: {
          ...COUNTS,
          en: 'Positions in `dimensions.country`.',
          ru: 'Позиции в `dimensions.country`.',
        },
        age: { ...COUNTS, en: 'Positions in `dimensions.age`.', ru: 'Позиции в `dimensions.age`.' },
        count: {
          ...COUNTS,
          en: 'Proxies of the cell, at least five.',
          ru: 'Прокси в ячейке, не меньше пяти.',
        },
        ...ofServices,
      },
    )
    const dimensions = whole(
      {
        en: 'What positions in the columns of the cube stand for.',
        ru: 'Что значат позиции в столбцах.',
      },
      {
        type: { ...TEXTS, en: 'The types.', ru: 'Типы.' },
        anon: {
          ...TEXTS,
          en: 'Anonymity levels; empty: unknown.',
          ru: 'Уровни анонимности; пусто: неизвестно.',
        },
        country: {
          ...TEXTS,
          en: 'Countries; `--` stands for several small ones, empty for unknown.',
          ru: 'Страны; `--` — несколько малых вместе, пусто — неизвестно.',
        },
        age: {
          ...COUNTS,
          en: 'Bounds of the age of the last check in seconds; a proxy is at the smallest that holds.',
          ru: 'Границы возраста последней проверки в секундах; прокси стоит у наименьшей подходящей.',
        },
        services: { ...TEXTS, en: 'The services.', ru: 'Сервисы.' },
      },
    )
    const city = { city: TEXT, city_en: TEXT, country: TEXT, count: COUNT }
    const cities = {
      ...{ type: 'array', items: whole({ en: 'A city.', ru: 'Город.' }, city) },
      en: 'The largest cities, at most fifty, none below five proxies.',
      ru: 'Крупнейшие города, не больше пятидесяти, не меньше пяти прокси в каждом.',
    }
    const histogram = refTo('Histogram')
    return {
      Stats: whole(
        { en: 'Counts of the list.', ru: 'Подсчёты по списку.' },
        {
          version: { ...TEXT, en: 'The version of the program.', ru: 'Версия программы.' },
          at: {
            ...COUNT,
            en: 'When this was counted, in Unix seconds: ages are ages then.',
            ru: 'Когда посчитано, в секундах Unix: возрасты — на этот момент.',
          },
          total: { ...COUNT, en: 'Proxies in the list.', ru: 'Сколько прокси в списке.' },
          hidden: {
            ...COUNT,
            en: 'Proxies that are in no cell of the cube, because fewer than five are alike.',
            ru: 'Сколько прокси не вошло в ячейки: похожих меньше пяти.',
          },
          dimensions,
          ...(part === 'full' && { cube }),
          histograms: whole(
            {
              en: 'Of the whole list: `ping` in milliseconds, `speed` in bytes per second, `works` in percent. Unknown values are left out.',
              ru: 'По всему списку: `ping` в миллисекундах, `speed` в байтах в секунду, `works` в процентах. Неизвестное не считается.',
            },
            { ping: histogram, speed: histogram, works: histogram },
          ),
          ...(part === 'full' && { cities }),
        },
      ),
      Histogram: whole(
        {
          en: '`counts[i]` proxies lie between `edges[i]` and `edges[i + 1]`.',
          ru: '`counts[i]` прокси лежат между `edges[i]` и `edges[i + 1]`.',
        },
        {
          edges: {
            ...NUMBERS,
            en: 'Bounds, from the lowest on: one more than counts.',
            ru: 'Границы по возрастанию: на одну больше, чем количеств.',
          },
          counts: {
            ...COUNTS,
            en: 'How many proxies lie between two of them.',
            ru: 'Сколько прокси лежит между двумя соседними.',
          },
        },
      ),
    }
  }
}
