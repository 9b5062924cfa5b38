/** Owns what the reference says of the envelope, of a key's report, of statistics and of header fields. */
import type { Text } from './parameters.ts'

export const ENVELOPE_TEXTS = {
  status: ['Always `ok`.', 'Всегда `ok`.'],
  count: ['How many records `data` has.', 'Сколько записей в `data`.'],
  timestamp: ['When the answer was made.', 'Когда сделан ответ.'],
  filters: [
    'The filters in effect, spelled so that they can be sent back as a query. Never the key.',
    'Действующие фильтры в том виде, в котором их можно послать снова. Ключа здесь нет.',
  ],
  data: ['The records, as `format` says.', 'Записи, как сказано в `format`.'],
} as const satisfies { [name: string]: Text }

export const KEY_TEXTS = {
  id: [
    'The public name of the key: not secret, and of no use as a key.',
    'Открытое имя ключа: не секрет и ключом не служит.',
  ],
  label: ['What the operator calls it.', 'Как его называет оператор.'],
  plan: ['Its plan.', 'Его тариф.'],
  state: ['`active`: it is accepted now.', '`active`: сейчас он принимается.'],
  expires: [
    'When the key ends, `null` for never. A key that was replaced by a new one ends with its overlap.',
    'Когда ключ перестанет действовать; `null` — никогда. Ключ, заменённый новым, действует до конца перехода.',
  ],
  limits: [
    'The limits that apply to this key and client now; unlimited ones are left out.',
    'Пределы, которые сейчас действуют для этого ключа и клиента; безлимитных здесь нет.',
  ],
  today: [
    'The use of the key since midnight UTC; `null` for `demo`, which many share.',
    'Использование ключа с полуночи UTC; `null` для `demo`, которым пользуются многие.',
  ],
} as const satisfies { [name: string]: Text }

export const LIMIT_TEXTS = {
  name: [
    '`burst`, `daily`, `subnets` or `clients`; of `demo`: `demo`; of a temporary key: `key` and `address`.',
    '`burst`, `daily`, `subnets` или `clients`; у `demo`: `demo`; у временного ключа: `key` и `address`.',
  ],
  quota: ['How much the limit allows.', 'Сколько разрешает предел.'],
  window: ['In how many seconds.', 'За сколько секунд.'],
  left: ['How much is left.', 'Сколько осталось.'],
  reset: ['Seconds until more is left.', 'Через сколько секунд станет больше.'],
} as const satisfies { [name: string]: Text }

export const TODAY_TEXTS = {
  requests: ['Requests admitted.', 'Принятые запросы.'],
  records: ['Records in the answers.', 'Записи в ответах.'],
  refused: ['Requests refused because of a limit (429).', 'Отказы из-за предела (429).'],
  hours: ['Requests by hour of UTC, from 00 to 23.', 'Запросы по часам UTC, от 00 до 23.'],
} as const satisfies { [name: string]: Text }

export const STATS_TEXTS = {
  version: ['The version of the program.', 'Версия программы.'],
  at: [
    'When this was counted, in Unix seconds: ages are ages then.',
    'Когда посчитано, в секундах Unix: возрасты — на этот момент.',
  ],
  total: ['Proxies in the list.', 'Сколько прокси в списке.'],
  hidden: [
    'Proxies that are in no cell of the cube, because fewer than five are alike.',
    'Сколько прокси не вошло в ячейки: похожих меньше пяти.',
  ],
  dimensions: [
    'What positions in the columns of the cube stand for.',
    'Что значат позиции в столбцах.',
  ],
  cube: [
    'Columns of one length, a cell in each row: positions in `dimensions`, how many proxies, and how many of them each service works with.',
    'Столбцы одной длины, в строке одна ячейка: позиции в `dimensions`, сколько прокси и со сколькими из них работает каждый сервис.',
  ],
  histograms: [
    'Of the whole list: `ping` in milliseconds, `speed` in bytes per second, `works` in percent. Unknown values are left out.',
    'По всему списку: `ping` в миллисекундах, `speed` в байтах в секунду, `works` в процентах. Неизвестное не считается.',
  ],
  cities: [
    'The largest cities, at most fifty, none below five proxies.',
    'Крупнейшие города, не больше пятидесяти, не меньше пяти прокси в каждом.',
  ],
  'dimensions.type': ['The types.', 'Типы.'],
  'dimensions.anon': [
    'Anonymity levels; empty: unknown.',
    'Уровни анонимности; пусто: неизвестно.',
  ],
  'dimensions.country': [
    'Countries; `--` stands for several small ones, empty for unknown.',
    'Страны; `--` — несколько малых вместе, пусто — неизвестно.',
  ],
  'dimensions.age': [
    'Bounds of the age of the last check in seconds; a proxy is at the smallest that holds.',
    'Границы возраста последней проверки в секундах; прокси стоит у наименьшей подходящей.',
  ],
  'dimensions.services': ['The services.', 'Сервисы.'],
} as const satisfies { [name: string]: Text }

export const CUBE_TEXTS = {
  type: ['Positions in `dimensions.type`.', 'Позиции в `dimensions.type`.'],
  anon: ['Positions in `dimensions.anon`.', 'Позиции в `dimensions.anon`.'],
  country: ['Positions in `dimensions.country`.', 'Позиции в `dimensions.country`.'],
  age: ['Positions in `dimensions.age`.', 'Позиции в `dimensions.age`.'],
  count: ['Proxies of the cell, at least five.', 'Прокси в ячейке, не меньше пяти.'],
  service: ['With how many of them it works.', 'Со сколькими из них он работает.'],
} as const satisfies { [name: string]: Text }

export const HISTOGRAM_TEXTS = {
  edges: [
    'Bounds, from the lowest on: one more than counts.',
    'Границы по возрастанию: на одну больше, чем количеств.',
  ],
  counts: [
    'How many proxies lie between two of them.',
    'Сколько прокси лежит между двумя соседними.',
  ],
} as const satisfies { [name: string]: Text }

export const HEADER_TEXTS = {
  'X-Request-Id': [
    'Names the request for the operator of the service.',
    'Называет запрос для оператора сервиса.',
  ],
  'RateLimit-Policy': [
    'The limits of the key: `q` how much, `w` in how many seconds (draft-ietf-httpapi-ratelimit-headers-10).',
    'Пределы ключа: `q` — сколько, `w` — за сколько секунд (draft-ietf-httpapi-ratelimit-headers-10).',
  ],
  RateLimit: [
    'What is left of them: `r` how much, `t` seconds until there is more.',
    'Что от них осталось: `r` — сколько, `t` — через сколько секунд станет больше.',
  ],
  'Retry-After': [
    'Seconds after which to try again; in a 429 the same as `retry_after`.',
    'Через сколько секунд повторить; в 429 то же, что `retry_after`.',
  ],
  'Content-Disposition': [
    'With the `.file` forms: `attachment`, and a file name.',
    'С видами `.file`: `attachment` и имя файла.',
  ],
  ETag: ['Names the content, for `If-None-Match`.', 'Имя содержимого для `If-None-Match`.'],
  Allow: ['The methods that there are.', 'Какие методы есть.'],
} as const satisfies { [name: string]: Text }
