/** Owns what the reference says of the service, its paths and its answers. */
import type { Text } from './parameters.ts'

export const DOCUMENT_TEXTS = {
  summary: [
    'Lists of proxy servers that match a filter, right now.',
    'Списки прокси-серверов, которые сейчас подходят под фильтр.',
  ],
  about: [
    'Send the key in the header `Authorization: Bearer KEY`, never in a URL: URLs end up in logs and histories. ' +
      'The key `demo` is for trying an integration: it masks addresses, sets `works=90` where `works` is not given, and has few requests. ' +
      'HEAD does and costs what GET does, without the body. ' +
      'A request that a limit refuses does not count. A request line with its headers is at most 8 KiB.',
    'Ключ передаётся в заголовке `Authorization: Bearer KEY` и никогда в URL: адреса попадают в журналы и истории. ' +
      'Ключ `demo` — для проверки интеграции: он маскирует адреса, ставит `works=90`, если `works` не задан, и даёт мало запросов. ' +
      'HEAD делает и стоит то же, что GET, но без тела. ' +
      'Запрос, отклонённый из-за предела, не засчитывается. Строка запроса с заголовками — не больше 8 КиБ.',
  ],
  errorsJson: [
    'Errors are JSON, whatever `get` says. A server with `--errors text` sends `text/plain` instead: `Error:` and the message.',
    'Ошибки приходят в JSON, что бы ни было в `get`. Сервер с `--errors text` шлёт `text/plain`: `Error:` и сообщение.',
  ],
  errorsText: [
    'Errors of this server are `text/plain`: `Error:` and the message; the status and the headers say the rest.',
    'Ошибки этого сервера — `text/plain`: `Error:` и сообщение; остальное говорят статус и заголовки.',
  ],
  'tag.list': ['The list of proxies.', 'Список прокси.'],
  'tag.key': ['The key of who asks.', 'Ключ того, кто спрашивает.'],
  'tag.operation': ['Whether the service works.', 'Работает ли сервис.'],
  'api.summary': ['Proxies that match', 'Прокси, которые подходят'],
  'api.description': [
    'A proxy must pass all filters; an unknown value passes none, except `cm=except`. ' +
      'The freshest check comes first, then the lowest ping, then the address. ' +
      'Lists are comma-separated; case does not matter. An empty value is the same as leaving the parameter out; unknown names and bad values are refused. ' +
      'Parameters of another form are ignored. With `demo`, `works` is 90 where it is not given, at most 50 records come at first, and the last two octets of addresses are 0.',
    'Прокси должен пройти все фильтры; неизвестное значение не проходит ни один, кроме `cm=except`. ' +
      'Первыми идут самые свежие проверки, затем меньший ping, затем адрес. ' +
      'Списки пишутся через запятую; регистр не важен. Пустое значение — то же, что без параметра; неизвестные имена и неверные значения отклоняются. ' +
      'Параметры другого вида ответа не учитываются. С `demo` `works` равен 90, если не задан, записей сначала не больше 50, а два последних октета адресов — 0.',
  ],
  'api.ok': [
    'The proxies, in the form that `get` names. A record has the members in the order of `Proxy`; `fields` chooses among them.',
    'Прокси в виде, который называет `get`. Поля записи идут в порядке схемы `Proxy`; `fields` выбирает из них.',
  ],
  'key.summary': ['What is left of your key', 'Что осталось у вашего ключа'],
  'key.description': [
    'Limits, plan, expiry and the use of today. Asking counts for nothing. The key comes in the header only; the path has no parameters.',
    'Пределы, тариф, срок и использование за сегодня. Вопрос ничего не стоит. Ключ — только в заголовке; параметров нет.',
  ],
  'key.ok': ['The key.', 'Ключ.'],
  'stats.summary': ['What the list holds', 'Что есть в списке'],
  'stats.description': [
    'Counts of the whole list, without a key: no address, port or network. At most one new state every 15 seconds.',
    'Подсчёты по всему списку, без ключа: без адресов, портов и сетей. Новое состояние не чаще раза в 15 секунд.',
  ],
  'stats.ok': ['The counts.', 'Подсчёты.'],
  'stats.same': ['The client has them already.', 'Они у клиента уже есть.'],
  'health.summary': ['Whether the process runs', 'Работает ли процесс'],
  'health.description': ['Needs no key.', 'Ключ не нужен.'],
  'health.ok': ['It runs.', 'Работает.'],
  'ready.summary': ['Whether requests can be answered', 'Может ли сервис отвечать'],
  'ready.description': [
    'Ready means: the list can be read and use can be written. Needs no key.',
    'Готов — значит список читается, а использование записывается. Ключ не нужен.',
  ],
  'ready.ok': ['It is ready.', 'Готов.'],
  'schema.Proxy': [
    'A proxy. `fields` may leave members out; their order stays.',
    'Прокси. `fields` может убрать поля; порядок остаётся.',
  ],
  'schema.Envelope': ['The answer with `wrap=1`.', 'Ответ с `wrap=1`.'],
  'schema.ByAddress': [
    'The answer with `format=object`: records by `ip:port`.',
    'Ответ с `format=object`: записи по `ip:port`.',
  ],
  'schema.Error': ['The body of every error.', 'Тело каждой ошибки.'],
  'schema.Key': [
    'A key, its limits and its use of today.',
    'Ключ, его пределы и использование за сегодня.',
  ],
  'schema.Limit': ['A limit.', 'Предел.'],
  'schema.Stats': ['Counts of the list.', 'Подсчёты по списку.'],
  'schema.City': ['A city.', 'Город.'],
  'schema.Histogram': [
    '`counts[i]` proxies lie between `edges[i]` and `edges[i + 1]`.',
    '`counts[i]` прокси лежат между `edges[i]` и `edges[i + 1]`.',
  ],
} as const satisfies { [name: string]: Text }
