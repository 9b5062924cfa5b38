/** Owns what the reference says of parameters, of the forms of answers and of the members of records. */

/** A text in English and in Russian. */
export type Text = readonly [en: string, ru: string]

/** What each parameter of /api means. */
export const PARAMETER_TEXTS = {
  type: ['Proxies of any of these types.', 'Прокси любого из этих типов.'],
  anon: ['Proxies of any of these anonymity levels.', 'Прокси любого из этих уровней анонимности.'],
  ping: [
    'The slowest response time, in milliseconds. In a record, `ping` is in seconds.',
    'Наибольшее время отклика в миллисекундах. В записи `ping` указан в секундах.',
  ],
  speed: ['The lowest speed, in bytes per second.', 'Наименьшая скорость в байтах в секунду.'],
  time: [
    'The age of the oldest last check, in seconds.',
    'Наибольший возраст последней проверки в секундах.',
  ],
  works: [
    'The lowest share of successful checks, in percent. The key `demo` sets 90 where it is not given.',
    'Наименьшая доля успешных проверок в процентах. Ключ `demo` ставит 90, если параметра нет.',
  ],
  country: [
    'Countries to include, or to except (ISO 3166-1 alpha-2, any case).',
    'Страны: только эти или все, кроме этих (ISO 3166-1 alpha-2, регистр не важен).',
  ],
  country_mode: [
    '`include`: only these countries. `except`: all but these; proxies of unknown country stay.',
    '`include`: только эти страны. `except`: все, кроме этих; прокси без страны остаются.',
  ],
  cm: [
    'Short for `country_mode`. Give one of them, or the same value.',
    'Короткое имя `country_mode`. Нужен один из них или одно значение в обоих.',
  ],
  city: [
    'Russian or English names, in any case; accents make no difference. With `lang=en`, the names that `lang=en` shows.',
    'Русские или английские названия в любом регистре; диакритика и ё не важны. С `lang=en` — те названия, что показывает `lang=en`.',
  ],
  port: ['The exact port.', 'Точный порт.'],
  ip: ['The exact address of a proxy, with its port.', 'Точный адрес прокси вместе с портом.'],
  service: [
    'Services that must all work. `smtp`: port 25 is open. `google`: no captcha.',
    'Сервисы, которые должны работать все. `smtp`: порт 25 открыт. `google`: без капчи.',
  ],
  sort: [
    'What comes first: the freshest check, the lowest ping, the highest speed or share of successful checks. `random` draws other proxies for each request.',
    'Что идёт первым: самая свежая проверка, наименьший ping, наибольшая скорость или доля успешных проверок. `random` выбирает новые прокси для каждого запроса.',
  ],
  count: [
    'The most records; cut after sorting. `0` is the same as leaving it out: as many as the key allows.',
    'Сколько записей не больше; лишние отсекаются после сортировки. `0` — то же, что без параметра: сколько разрешено ключу.',
  ],
  lang: ['The language of city names.', 'Язык названий городов.'],
  get: [
    'The form of the answer. `.file` makes it a download of the same content.',
    'Вид ответа. С `.file` то же самое приходит файлом для скачивания.',
  ],
  type_prefix: [
    '`1`: each line reads `type://ip:port`.',
    '`1`: каждая строка имеет вид `type://ip:port`.',
  ],
  fields: [
    'The members to show; their order is fixed. `port` is shown with `split_ip=1` only.',
    'Какие поля показать; их порядок неизменен. `port` виден только при `split_ip=1`.',
  ],
  split_ip: [
    '`1`: `ip` is the address alone, and `port` is a member of its own.',
    '`1`: в `ip` только адрес, порт — в отдельном поле `port`.',
  ],
  format: [
    '`array`: a list of records. `object`: records by their address.',
    '`array`: список записей. `object`: записи по их адресам.',
  ],
  wrap: [
    '`1`: an envelope with `status`, `count`, `timestamp`, `filters`, and the records as `data`.',
    '`1`: конверт с полями `status`, `count`, `timestamp`, `filters` и записями в `data`.',
  ],
  pretty: [
    '`1`: indented by two spaces. `0`: no white space.',
    '`1`: с отступами в два пробела. `0`: без пробелов.',
  ],
} as const satisfies { [name: string]: Text }

/** What each form of `get` is. */
export const FORM_TEXTS = {
  txt: ['A line `ip:port` for each proxy.', 'Строка `ip:port` для каждого прокси.'],
  json: [
    'An array of records; an object with `format=object`; an envelope with `wrap=1`.',
    'Массив записей; объект с `format=object`; конверт с `wrap=1`.',
  ],
  csv: [
    'A header line, then a line for each record (RFC 4180, lines end with CR LF); unknown values are empty.',
    'Строка заголовка и по строке на запись (RFC 4180, строки кончаются CR LF); неизвестное пусто.',
  ],
  ndjson: ['A line of JSON for each record.', 'Строка JSON для каждой записи.'],
} as const satisfies { [form: string]: Text }

/** What each member of a record is; `provider`: the provider's own service, whatever its name. */
export const MEMBER_TEXTS = {
  ip: [
    'Address and port, `a.b.c.d:port`; with `split_ip=1` the address alone. With `demo`, the last two octets are 0.',
    'Адрес и порт, `a.b.c.d:port`; с `split_ip=1` только адрес. С ключом `demo` два последних октета — 0.',
  ],
  port: ['The port, as text; only with `split_ip=1`.', 'Порт, текстом; только с `split_ip=1`.'],
  ip_out: ['The outgoing address, empty when unknown.', 'Исходящий адрес; пусто, если неизвестен.'],
  type: ['The type of the proxy.', 'Тип прокси.'],
  anon: [
    'The anonymity level, empty when unknown.',
    'Уровень анонимности; пусто, если неизвестен.',
  ],
  speed: ['Bytes per second, `null` when unknown.', 'Байты в секунду; `null`, если неизвестно.'],
  ping: [
    'The response time in seconds, with up to three decimals; `null` when unknown.',
    'Время отклика в секундах, до трёх знаков после запятой; `null`, если неизвестно.',
  ],
  timecheck: [
    'The last check, `YYYY-MM-DD HH:MM:SS` at UTC+2.',
    'Последняя проверка, `YYYY-MM-DD HH:MM:SS` по UTC+2.',
  ],
  country: [
    'The country, two letters in upper case; empty when unknown.',
    'Страна, две заглавные буквы; пусто, если неизвестна.',
  ],
  city: [
    'The city in the language of `lang`; empty when unknown.',
    'Город на языке `lang`; пусто, если неизвестен.',
  ],
  works: [
    'The share of successful checks as text, 0 to 100 percent; empty when unknown.',
    'Доля успешных проверок текстом, от 0 до 100 процентов; пусто, если неизвестна.',
  ],
  smtp: ['Whether port 25 is open.', 'Открыт ли порт 25.'],
  telegram: ['Whether Telegram works.', 'Работает ли Telegram.'],
  avito: ['Whether Avito works.', 'Работает ли Avito.'],
  google: ['Whether Google shows no captcha.', 'Отвечает ли Google без капчи.'],
  provider: [
    'Whether the provider’s own service works.',
    'Работает ли собственный сервис поставщика.',
  ],
} as const satisfies { [name: string]: Text }
