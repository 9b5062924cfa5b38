/**
 * The OpenAPI 3.1 document of the service (contract F5), for one configuration and language: paths,
 * parameters from the tables that validate them, responses with their examples, header fields. A text
 * stands beside what it describes.
 */
import type { Lang, Text } from '../../proxies/proxy.ts'
import type { StatsPart } from '../../proxies/stats.ts'
import { ERRORS, type ErrorCode, type ErrorRule, STATUS } from '../errors.ts'
import { type Described, describeParameters } from '../query.ts'
import { FORMS, OUTPUT_KINDS } from '../render.ts'
import { parametersOf as statsParameters } from '../stats.ts'
import { answerExamples, EXAMPLE_TIME, KEY_EXAMPLE, statsExample } from './examples.ts'
import {
  type Both,
  type Document,
  type Example,
  type Parameter,
  type Response,
  refTo,
  type Say,
  type Schema,
} from './schema.ts'
import { kindOf, rowsOf, schemas } from './schemas.ts'

/** What of a server's configuration the document shows. */
export type DocumentOptions = {
  /** Of the program. */
  version: string
  /** The name of the provider's own service. */
  provider: string
  errors: 'json' | 'text'
  stats: StatsPart | 'off'
  lang: Lang
}

// ---------------------------------------------------------------------------------------------
// Parameters

/** A member of a record that shows nothing by itself: alone, `fields` of it is refused. */
const NEEDS_ANOTHER = 'port'

const textOf = ({ values, pattern, item }: Described, isItem: boolean): Schema => {
  if (values !== undefined) return { type: 'string', enum: values }
  return { type: 'string', pattern: isItem && item !== undefined ? `^${item}$` : (pattern ?? '') }
}

/** The schema of a parameter: it allows nothing that is refused. */
function schemaOf(parameter: Described): Schema {
  const { list, min, max, values } = parameter
  const byDefault = parameter.default === undefined ? {} : { default: parameter.default }
  if (min !== undefined && max !== undefined) {
    return { type: 'integer', format: 'int64', minimum: min, maximum: max, ...byDefault }
  }
  if (!list) return { ...textOf(parameter, false), ...byDefault }
  const items = textOf(parameter, true)
  if (!values?.includes(NEEDS_ANOTHER)) return { type: 'array', items }
  return { type: 'array', items, uniqueItems: true, not: { const: [NEEDS_ANOTHER] } }
}

/** The parameters of /api, in the order of the table. */
const parametersOf = (provider: string, say: Say): Parameter[] =>
  describeParameters(provider).map(parameter => ({
    name: parameter.name,
    in: 'query',
    required: false,
    description: say(parameter),
    ...(parameter.list && { style: 'form', explode: false }),
    schema: schemaOf(parameter),
    example: parameter.example,
    ...(parameter.forms.length < OUTPUT_KINDS.length && { 'x-forms': parameter.forms }),
  }))

// ---------------------------------------------------------------------------------------------
// Responses

type Statuses = { readonly [status: string]: Response }

/** The header fields of responses, as in the tables of `schemas.ts`. */
const HEADERS = rowsOf(`
X-Request-Id: text | Names the request for the operator of the service. | Называет запрос для оператора сервиса.
RateLimit-Policy: text | The rate limits of the key: \`q\` requests in \`w\` seconds (draft-ietf-httpapi-ratelimit-headers-10). | Пределы запросов ключа: \`q\` запросов за \`w\` секунд (draft-ietf-httpapi-ratelimit-headers-10).
RateLimit: text | What is left of them: \`r\` requests, and \`t\` seconds until there are more. | Что от них осталось: \`r\` запросов; больше станет через \`t\` секунд.
Retry-After: seconds | Seconds after which to try again; in a 429 the same as \`retry_after\`. | Через сколько секунд повторить; в 429 то же, что \`retry_after\`.
Content-Disposition: text | With the \`.file\` forms: \`attachment\`, and a file name. | С видами \`.file\`: \`attachment\` и имя файла.
ETag: text | Names the content, for \`If-None-Match\`. | Имя содержимого для \`If-None-Match\`.
Allow: text | The methods that there are. | Какие методы есть.`)

const headers = (...names: readonly string[]) =>
  Object.fromEntries(
    ['X-Request-Id', ...names].map(name => [name, { $ref: `#/components/headers/${name}` }]),
  )
const LIMITS = ['RateLimit-Policy', 'RateLimit']
const HEADERS_OF: { readonly [status: string]: readonly string[] } = {
  400: LIMITS,
  404: LIMITS,
  405: ['Allow'],
  429: [...LIMITS, 'Retry-After'],
  503: ['Retry-After'],
}

/** What /api may refuse: everything but a path that there is not. */
const OF_LIST = (Object.keys(ERRORS) as ErrorCode[]).filter(code => code !== 'NOT_FOUND') // its own names
/** Refusals before the key is known, and failures, which any path may have. */
const OF_KEY = ['KEY_MISSING', 'INVALID_PARAMETER', 'INVALID_KEY', 'TEMP_KEY_INVALID'] as const
const OF_SERVICE = ['METHOD_NOT_ALLOWED', 'INTERNAL_ERROR', 'DB_EXECUTE_FAILED'] as const

/** Returns a function that makes the error responses of a path, by status. Only /api has examples. */
function createErrors(errors: 'json' | 'text', say: Say) {
  function exampleOf(code: ErrorCode): Example {
    const { message, context }: ErrorRule = ERRORS[code]
    const body = { status: 'error', code, message, timestamp: EXAMPLE_TIME, ...context }
    return { summary: code, value: errors === 'text' ? `Error: ${message}` : body }
  }

  function responseOf(status: string, codes: readonly ErrorCode[], hasExamples: boolean): Response {
    const ofCodes: Schema = { allOf: [refTo('Error'), { properties: { code: { enum: codes } } }] }
    const examples = Object.fromEntries(codes.map(code => [code, exampleOf(code)]))
    return {
      description: codes.map(code => `${code}: ${say(ERRORS[code])}`).join('\n\n'),
      headers: headers(...(HEADERS_OF[status] ?? [])),
      content: {
        [errors === 'json' ? 'application/json' : 'text/plain']: {
          schema: errors === 'json' ? ofCodes : refTo('Error'),
          ...(hasExamples && { examples }),
        },
      },
    }
  }

  return (codes: readonly ErrorCode[], hasExamples = false): Statuses =>
    Object.fromEntries(
      [...Map.groupBy(codes, code => String(STATUS[code]))].map(([status, its]) => [
        status,
        responseOf(status, its, hasExamples),
      ]),
    )
}

/** The 200 of /api: a media type for each form. */
function answersOf(provider: string, say: Say): Response {
  const array: Schema = { type: 'array', items: refTo('Proxy') }
  const json: Schema = { oneOf: [array, refTo('ByAddress'), refTo('Envelope')] }
  const examples = answerExamples(provider)
  return {
    description: say(
      'The proxies, in the form that `get` names. A record has the members in the order of `Proxy`; `fields` chooses among them. | Прокси в виде, который называет `get`. Поля записи идут в порядке схемы `Proxy`; `fields` выбирает из них.',
    ),
    headers: headers(...LIMITS, 'Content-Disposition'),
    content: Object.fromEntries(
      OUTPUT_KINDS.map(kind => {
        const body = kind === 'json' ? json : { type: 'string' }
        const schema = { description: say(FORMS[kind]), ...body }
        return [mediaTypeOf(kind), { schema, examples: examples[kind] }]
      }),
    ),
  }
}

export const mediaTypeOf = (kind: keyof typeof FORMS): string =>
  FORMS[kind].contentType.split(';')[0] ?? ''

// ---------------------------------------------------------------------------------------------
// The document

const BEARER = [{ bearer: [] }]

function pathsOf({ provider, stats, errors }: DocumentOptions, say: Say): Document['paths'] {
  const errorsOf = createErrors(errors, say)
  const parameters = parametersOf(provider, say)
  /** A JSON body with one example. */
  const json = (schema: string, summary: string, value: unknown) => ({
    'application/json': { schema: refTo(schema), examples: { [summary]: { summary, value } } },
  })
  const countProxies = (part: StatsPart) => ({
    operationId: 'countProxies',
    tags: ['list'],
    summary: say('What the list holds | Что есть в списке'),
    description: say(STATS_TEXT[part]),
    security: [],
    parameters: parameters.filter(({ name }) => statsParameters(part).includes(name)),
    responses: {
      200: {
        description: say('The counts. | Подсчёты.'),
        headers: headers('ETag'),
        content: json('Stats', 'statistics', statsExample(provider, part)),
      },
      304: {
        description: say('The client has them already. | Они у клиента уже есть.'),
        headers: headers('ETag'),
      },
      ...errorsOf(['INVALID_PARAMETER', 'RATE_LIMIT_EXCEEDED', ...OF_SERVICE]),
    },
  })
  return {
    '/api': {
      get: {
        operationId: 'listProxies',
        tags: ['list'],
        summary: say('Proxies that match | Прокси, которые подходят'),
        description: say(LIST_TEXT),
        security: BEARER,
        parameters,
        responses: {
          200: answersOf(provider, say),
          ...errorsOf(OF_LIST, true),
        },
      },
    },
    '/key': {
      get: {
        operationId: 'showKey',
        tags: ['key'],
        summary: say('What is left of your key | Что осталось у вашего ключа'),
        description: say(
          'Limits, plan, expiry and the use of today. Asking counts for nothing. The key comes in the header only; the path has no parameters. | Пределы, тариф, срок и использование за сегодня. Вопрос ничего не стоит. Ключ — только в заголовке; параметров нет.',
        ),
        security: BEARER,
        responses: {
          200: {
            description: say('The key. | Ключ.'),
            headers: headers(...LIMITS),
            content: json('Key', 'plan standard', KEY_EXAMPLE),
          },
          ...errorsOf([...OF_KEY, ...OF_SERVICE]),
        },
      },
    },
    ...(stats !== 'off' && { '/stats': { get: countProxies(stats) } }),
  }
}

const STATS_TEXT: { readonly [part in StatsPart]: Both } = {
  full: 'Exact counts for any filters, without a key; an address or a port is no filter here. At most 30 queries in 10 seconds of one client address. | Точные подсчёты для любых фильтров, без ключа; адрес и порт здесь не фильтры. С одного адреса клиента не больше 30 запросов за 10 секунд.',
  totals:
    'Totals of the list, without a key and without parameters. At most 30 queries in 10 seconds of one client address. | Итоги по списку, без ключа и параметров. С одного адреса клиента не больше 30 запросов за 10 секунд.',
}

const LIST_TEXT: Text = {
  en:
    'A proxy must pass all filters; an unknown value passes none, except `cm=except`. ' +
    'The freshest check comes first, then the lowest ping, then the address. ' +
    'Lists are comma-separated; case matters, except in them and in flags. An empty value is the same as leaving the parameter out; unknown names and bad values are refused. ' +
    'Parameters of another form are ignored. With `demo`, `works` is 90 where it is not given, at most 50 records come at first, and the last two octets of addresses are 0.',
  ru:
    'Прокси должен пройти все фильтры; неизвестное значение не проходит ни один, кроме `cm=except`. ' +
    'Первыми идут самые свежие проверки, затем меньший ping, затем адрес. ' +
    'Списки пишутся через запятую; регистр важен везде, кроме них и флагов. Пустое значение — то же, что без параметра; неизвестные имена и неверные значения отклоняются. ' +
    'Параметры другого вида ответа не учитываются. С `demo` `works` равен 90, если не задан, записей сначала не больше 50, а два последних октета адресов — 0.',
}

export function createDocument(options: DocumentOptions): Document {
  const { version, provider, errors, stats, lang } = options
  const say: Say = text =>
    typeof text === 'string' ? (text.split(' | ')[lang === 'en' ? 0 : 1] ?? '') : text[lang]
  const about = say({
    en:
      'Send the key in the header `Authorization: Bearer KEY`, never in a URL: URLs end up in logs and histories. ' +
      'The key `demo` is for trying an integration: it masks addresses, sets `works=90` where `works` is not given, and has few requests. ' +
      'HEAD does and costs what GET does, without the body. ' +
      'A request that a limit refuses does not count. A request line with its headers is at most 8 KiB.',
    ru:
      'Ключ передаётся в заголовке `Authorization: Bearer KEY` и никогда в URL: адреса попадают в журналы и истории. ' +
      'Ключ `demo` — для проверки интеграции: он маскирует адреса, ставит `works=90`, если `works` не задан, и даёт мало запросов. ' +
      'HEAD делает и стоит то же, что GET, но без тела. ' +
      'Запрос, отклонённый из-за предела, не засчитывается. Строка запроса с заголовками — не больше 8 КиБ.',
  })
  const aboutErrors = say(
    errors === 'json'
      ? 'Errors are JSON, whatever `get` says. A server with `--errors text` sends `text/plain` instead: `Error:` and the message. | Ошибки приходят в JSON, что бы ни было в `get`. Сервер с `--errors text` шлёт `text/plain`: `Error:` и сообщение.'
      : 'Errors of this server are `text/plain`: `Error:` and the message; the status and the headers say the rest. | Ошибки этого сервера — `text/plain`: `Error:` и сообщение; остальное говорят статус и заголовки.',
  )
  return {
    openapi: '3.1.1',
    info: {
      title: 'proxylist',
      version,
      summary: say(
        'Lists of proxy servers that match a filter, right now. | Списки прокси-серверов, которые сейчас подходят под фильтр.',
      ),
      description: `${about}\n\n${aboutErrors}`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [
      { name: 'list', description: say('The list of proxies. | Список прокси.') },
      {
        name: 'key',
        description: say('The key of who asks. | Ключ того, кто спрашивает.'),
      },
    ],
    paths: pathsOf(options, say),
    components: {
      // In the header only: a generated client then keeps the key out of URLs.
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      headers: Object.fromEntries(
        HEADERS.map(({ name, kind, text = ' | ' }) => [
          name,
          { description: say(text), schema: kindOf(kind) },
        ]),
      ),
      schemas: schemas(provider, errors, stats, say),
    },
  }
}
