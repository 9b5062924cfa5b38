/** The OpenAPI 3.1 document of the service (contract F5), made from the tables of the API. */
import type { Lang } from '../../proxies/proxy.ts'
import type { StatsPart } from '../../proxies/stats.ts'
import { ERRORS, type ErrorCode, STATUS } from '../errors.ts'
import { describeParameters, type ParameterDoc } from '../query.ts'
import { FORMS, OUTPUT_KINDS } from '../render.ts'
import { parametersOf as statsParameters } from '../stats.ts'
import { answerExamples } from './examples.ts'
import { refTo, type Schema, schemasOf } from './schemas.ts'

export type DocumentOptions = {
  version: string
  provider: string
  errors: 'json' | 'text'
  stats: StatsPart | 'off'
  lang: Lang
}

type Named<T> = { readonly [name: string]: T }

/** `x-forms`: the forms of `get` that it applies to; all of them when it is left out. */
export type Parameter = {
  name: string
  description: string
  schema: Schema
  example: unknown
  'x-forms'?: readonly string[]
}
/** The names of examples are query strings. */
type Content = Named<{ schema: Schema; examples?: Named<{ value: unknown }> }>
export type Response = { description: string; headers?: Named<unknown>; content?: Content }
export type Operation = {
  summary: string
  description: string
  security: readonly unknown[]
  parameters?: readonly Parameter[]
  responses: Named<Response>
}
export type Document = {
  info: { title: string; version: string; summary: string; description: string }
  paths: Named<{ get: Operation }>
  components: {
    securitySchemes: unknown
    headers: Named<{ description: string }>
    schemas: Named<Schema>
  }
}

// ---------------------------------------------------------------------------------------------
// Parameters

function schemaOf(parameter: ParameterDoc): Schema {
  const { list, min, max, values, item, pattern, maxLength, default: byDefault } = parameter
  if (min !== undefined) {
    return { type: 'integer', format: 'int64', minimum: min, maximum: max, default: byDefault }
  }
  const text = values === undefined ? { pattern: item ? `^${item}$` : pattern } : { enum: values }
  return list
    ? { type: 'array', items: { type: 'string', ...text } }
    : { type: 'string', ...text, maxLength, default: byDefault }
}

const parametersOf = (provider: string, lang: Lang) =>
  describeParameters(provider).map(parameter => ({
    name: parameter.name,
    in: 'query',
    required: false,
    description: parameter[lang],
    ...(parameter.list && { style: 'form', explode: false }),
    schema: schemaOf(parameter),
    example: parameter.example,
    'x-forms': parameter.forms.length < OUTPUT_KINDS.length ? parameter.forms : undefined,
  }))

// ---------------------------------------------------------------------------------------------
// Responses

const HEADERS = {
  'X-Request-Id':
    'The id of the request. Quote it to the operator. | Номер запроса. Назовите его оператору.',
  'RateLimit-Policy':
    'The rate limits of the key: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers-11). | Лимиты запросов ключа: `q` запросов за `w` секунд (draft-ietf-httpapi-ratelimit-headers-11).',
  RateLimit:
    '`r` requests are left, and more in `t` seconds. | Осталось `r` запросов; через `t` секунд станет больше.',
  'Retry-After':
    'Retry after this number of seconds. In a 429, equal to `retry_after`. | Повторите через столько секунд. В ответе 429 равно `retry_after`.',
  Allow: 'The methods that the path accepts. | Методы, которые принимает путь.',
  'Content-Disposition':
    'With the `.file` formats: `attachment` and a file name. | С форматами `.file`: `attachment` и имя файла.',
  ETag: 'The version of the content, for `If-None-Match`. | Версия содержимого для `If-None-Match`.',
}

const headers = (...names: (keyof typeof HEADERS)[]) =>
  Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${name}` }]))
const LIMITS = ['X-Request-Id', 'RateLimit-Policy', 'RateLimit'] as const

/** The header fields of errors with a status; others have `LIMITS`. */
const OF_ERROR: { readonly [status: number]: readonly (keyof typeof HEADERS)[] } = {
  403: ['X-Request-Id'],
  405: ['X-Request-Id', 'Allow'],
  429: [...LIMITS, 'Retry-After'],
  503: [...LIMITS, 'Retry-After'],
}

function errorResponses(codes: readonly ErrorCode[], { errors, lang }: DocumentOptions) {
  const byStatus = Map.groupBy(codes, code => STATUS[code])
  const responses = [...byStatus].map(([status, codes]) => {
    const schema = { allOf: [refTo('Error'), { properties: { code: { enum: codes } } }] }
    return [
      status,
      {
        description: codes.map(code => `${code}: ${ERRORS[code][lang]}`).join('\n\n'),
        headers: headers(...(OF_ERROR[status] ?? LIMITS)),
        content:
          errors === 'json'
            ? { 'application/json': { schema } }
            : { 'text/plain': { schema: refTo('Error') } },
      },
    ]
  })
  return Object.fromEntries(responses)
}

export const mediaTypeOf = (kind: keyof typeof FORMS): string =>
  FORMS[kind].contentType.split(';')[0] ?? ''

/** The content of /api: a media type for each form. */
function answersOf({ provider, lang }: DocumentOptions) {
  const array: Schema = { type: 'array', items: refTo('Proxy') }
  const json: Schema = { oneOf: [array, refTo('ByAddress'), refTo('Envelope')] }
  const examples = answerExamples(provider)
  const content = OUTPUT_KINDS.map(kind => {
    const body: Schema = kind === 'json' ? json : { type: 'string' }
    const schema = { description: FORMS[kind][lang], ...body }
    return [mediaTypeOf(kind), { schema, examples: examples[kind] }]
  })
  return Object.fromEntries(content)
}

// ---------------------------------------------------------------------------------------------
// The document. Its texts read `English | Russian`.

const OF_ANY_PATH = ['METHOD_NOT_ALLOWED', 'INTERNAL_ERROR', 'DB_EXECUTE_FAILED'] as const
const OF_KEY = ['KEY_MISSING', 'INVALID_PARAMETER', 'INVALID_KEY', 'TEMP_KEY_INVALID'] as const
/** All codes except NOT_FOUND, which other paths have. */
const OF_LIST = (Object.keys(ERRORS) as ErrorCode[]).filter(code => code !== 'NOT_FOUND') // its own names

const LIST_TEXT = {
  en:
    'A proxy must pass all filters. An unknown value passes only `cm=except`. ' +
    'The freshest check comes first, then the lowest ping, then the address. ' +
    'Lists are comma-separated. Case matters except in lists and flags. An empty value is the same as no parameter. Unknown names and bad values are refused. ' +
    'Parameters of another format are ignored. With `demo`, `works` is 90 unless given, `count` is at most 50 by default, and the last two octets of addresses are 0.',
  ru:
    'Прокси должен пройти все фильтры. Неизвестное значение проходит только `cm=except`. ' +
    'Первыми идут самые свежие проверки, затем меньший ping, затем адрес. ' +
    'Списки пишутся через запятую. Регистр важен везде, кроме списков и флагов. Пустое значение — то же, что без параметра. Неизвестные имена и неверные значения отклоняются. ' +
    'Параметры другого формата не учитываются. С `demo` `works` равен 90, если не задан, `count` по умолчанию не больше 50, а два последних октета адресов — 0.',
}

const STATS_TEXT = {
  full: 'Exact counts for all filters except `ip` and `port`, without a key. At most 30 requests in 10 seconds from one client address. | Точные числа для всех фильтров, кроме `ip` и `port`, без ключа. С одного адреса клиента — не больше 30 запросов за 10 секунд.',
  totals:
    'Totals of the list, without a key and without parameters. At most 30 requests in 10 seconds from one client address. | Общие числа по списку, без ключа и параметров. С одного адреса клиента — не больше 30 запросов за 10 секунд.',
}

function pathsOf(options: DocumentOptions) {
  const { provider, stats, lang } = options
  const parameters = parametersOf(provider, lang)
  const bearer = [{ bearer: [] }]
  const json = (name: string) => ({ 'application/json': { schema: refTo(name) } })
  const listProxies = {
    operationId: 'listProxies',
    tags: ['list'],
    summary: 'Matching proxies | Подходящие прокси',
    description: LIST_TEXT[lang],
    security: bearer,
    parameters,
    responses: {
      200: {
        description:
          'The proxies in the format that `get` names. Members of a record are in the order of `Proxy`; `fields` selects some of them. | Прокси в формате, который задаёт `get`. Поля записи идут в порядке схемы `Proxy`; `fields` выбирает некоторые из них.',
        headers: headers(...LIMITS, 'Content-Disposition', 'ETag'),
        content: answersOf(options),
      },
      304: {
        description: 'The client has this answer already. | Этот ответ у клиента уже есть.',
        headers: headers(...LIMITS, 'ETag'),
      },
      ...errorResponses(OF_LIST, options),
    },
  }
  const showKey = {
    operationId: 'showKey',
    tags: ['key'],
    summary: 'Your key and its limits | Ваш ключ и его лимиты',
    description:
      'Limits, plan, expiry and use today. The request does not count. The key must be in the header. The path takes no parameters. | Лимиты, тариф, срок и использование за сегодня. Запрос не засчитывается. Ключ передаётся только в заголовке, параметров нет.',
    security: bearer,
    responses: {
      200: {
        description: 'The key. | Ключ.',
        headers: headers(...LIMITS),
        content: json('Key'),
      },
      ...errorResponses([...OF_KEY, ...OF_ANY_PATH], options),
    },
  }
  const countProxies = stats !== 'off' && {
    operationId: 'countProxies',
    tags: ['list'],
    summary: 'Statistics of the list | Статистика списка',
    description: STATS_TEXT[stats],
    security: [],
    parameters: parameters.filter(({ name }) => statsParameters(stats).includes(name)),
    responses: {
      200: {
        description: 'The counts. | Числа.',
        headers: headers('X-Request-Id', 'ETag'),
        content: json('Stats'),
      },
      304: {
        description: 'The client has them already. | Они у клиента уже есть.',
        headers: headers('X-Request-Id', 'ETag'),
      },
      ...errorResponses(['INVALID_PARAMETER', 'RATE_LIMIT_EXCEEDED', ...OF_ANY_PATH], options),
    },
  }
  return {
    '/api': { get: listProxies },
    '/key': { get: showKey },
    ...(countProxies && { '/stats': { get: countProxies } }),
  }
}

const ABOUT = {
  en:
    'Send the key in the header `Authorization: Bearer KEY`, never in a URL: URLs end up in logs and histories. ' +
    'The key `demo` is for tests: it masks addresses, sets `works=90` unless you set `works`, and allows few requests. ' +
    'HEAD counts as GET does and returns no body. ' +
    'Refused requests do not count. A request line with its headers has at most 8 KiB.',
  ru:
    'Ключ передаётся в заголовке `Authorization: Bearer KEY` и никогда в URL: адреса попадают в журналы и истории. ' +
    'Ключ `demo` — для проверки: он скрывает адреса, ставит `works=90`, если вы не задали `works`, и разрешает мало запросов. ' +
    'HEAD засчитывается как GET и возвращает то же без тела. ' +
    'Отклонённые запросы не засчитываются. Строка запроса с заголовками — не больше 8 КиБ.',
}
const ABOUT_ERRORS = {
  json: {
    en: 'Errors are JSON for every value of `get`. A server with `--errors text` sends `text/plain` instead: `Error:` and the message.',
    ru: 'Ошибки приходят в JSON при любом `get`. Сервер с `--errors text` отправляет `text/plain`: `Error:` и сообщение.',
  },
  text: {
    en: 'Errors of this server are `text/plain`: `Error:` and the message. Status and headers are as documented.',
    ru: 'Ошибки этого сервера — `text/plain`: `Error:` и сообщение. Статус и заголовки — как описано.',
  },
}

/** Chooses the language of the texts, while JSON is parsed. */
const inLanguage = (lang: Lang) => (name: string, value: unknown) => {
  if (typeof value !== 'string' || !/^(?:summary|description)$/.test(name)) return value
  const [en, ru = en] = value.split(' | ')
  return lang === 'en' ? en : ru
}

export function createDocument(options: DocumentOptions): Document {
  const { version, provider, errors, stats, lang } = options
  const document = {
    openapi: '3.1.1',
    info: {
      title: 'proxylist',
      version,
      summary:
        'Lists of proxy servers that match a filter, right now. | Списки прокси-серверов, которые сейчас подходят под фильтр.',
      description: `${ABOUT[lang]}\n\n${ABOUT_ERRORS[errors][lang]}`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [
      { name: 'list', description: 'The list of proxies. | Список прокси.' },
      { name: 'key', description: 'Your key. | Ваш ключ.' },
    ],
    paths: pathsOf(options),
    components: {
      // In the header only: a generated client then keeps the key out of URLs.
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      headers: Object.fromEntries(
        Object.entries(HEADERS).map(([name, description]) => [
          name,
          { description, schema: { type: name === 'Retry-After' ? 'integer' : 'string' } },
        ]),
      ),
      schemas: schemasOf(provider, errors, stats, lang),
    },
  }
  return JSON.parse(JSON.stringify(document), inLanguage(lang))
}
