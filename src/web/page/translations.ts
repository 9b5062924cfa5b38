/** The sentences of the page in English and Russian. */
import { createFormat, type Lang, type Sentences, sentencesIn } from '../parts/format.ts'
import { BAR_WORDS, KEY_WORDS } from '../parts/translations.ts'

const WORDS = {
  ...BAR_WORDS,
  ...KEY_WORDS,
  tagline: 'Find and fetch working proxies | Поиск и выдача рабочих прокси',
  skip: 'Skip to the request | К запросу',
  about:
    'Choose filters, check the examples, and copy the request. | Выберите фильтры, посмотрите примеры и скопируйте запрос.',
  headline:
    'working proxy, checked in the last ten minutes / working proxies, checked in the last ten minutes | рабочий прокси, проверенный за последние десять минут / рабочих прокси, проверенных за последние десять минут',
  matches: 'proxy matches / proxies match | прокси подходит / прокси подходят',
  rows: 'record / records | запись / записи / записей',
  countries: 'country / countries | страна / страны / стран',
  inList: '{total} in the list | {total} в списке',
  updated: 'updated at {time} | обновлено в {time}',
  stats_loading: 'Loading statistics… | Загружаем статистику…',
  stats_off: 'This server publishes no statistics. | Сервер не публикует статистику.',
  stats_totals: 'This server publishes only totals. | Сервер публикует только общие цифры.',
  stats_failed: 'Statistics are not available now. | Статистика сейчас недоступна.',
  isOld:
    'Statistics are not available now. The numbers are for your previous filters. | Статистика сейчас недоступна. Показаны числа для прежних фильтров.',
  byCountry: 'Countries | Страны',
  mapOf:
    'Map of countries. {top}. The list beside it has the same choices. | Карта стран. {top}. Тот же выбор есть в списке рядом.',
  countryMode: 'Include or exclude | Включить или исключить',
  include: 'only these | только эти',
  except: 'all but these | все, кроме',
  findCountry: 'Find a country | Найти страну',
  skipCountries: 'Skip the countries | Пропустить страны',
  noCountry: 'No country has this name. | Такой страны нет.',
  unknown: 'Unknown country | Страна неизвестна',
  type: 'Type | Тип',
  anon: 'Anonymity | Анонимность',
  elite: 'elite | элитный',
  eliteHint: 'not detectable | незаметный',
  anonymous: 'anonymous | анонимный',
  anonymousHint: 'hides you | адрес скрыт',
  transparent: 'transparent | прозрачный',
  transparentHint: 'reveals you | адрес виден',
  service: 'Works with | Сервисы',
  serviceHint: 'all selected | все выбранные',
  smtpHint: 'port 25 open | порт 25 открыт',
  googleHint: 'no captcha | без капчи',
  time: 'Checked within | Проверены за последние',
  ping: 'Ping | Пинг',
  pingLimit: 'at most, ms | не больше, мс',
  pingUnit: 'ms | мс',
  speed: 'Speed | Скорость',
  speedLimit: 'at least, bytes/s | не меньше, байт/с',
  speedUnit: 'bytes/s | байт/с',
  works: 'Successful checks | Успешные проверки',
  worksLimit: 'at least, % | не меньше, %',
  any: 'any | любые',
  atMost: 'up to {n} | до {n}',
  atLeast: 'at least {n} | от {n}',
  place: 'City, port, address | Город, порт, адрес',
  uncounted: 'counts ignore port and address | числа без учёта порта и адреса',
  city: 'City | Город',
  port: 'Port | Порт',
  ip: 'Address | Адрес',
  sort: 'Order | Порядок',
  sort_checked: 'freshest check first | сначала недавно проверенные',
  sort_ping: 'lowest ping first | сначала с низким пингом',
  sort_speed: 'highest speed first | сначала быстрые',
  sort_works: 'most reliable first | сначала надёжные',
  sort_random: 'random | случайный',
  clear: 'Clear all | Сбросить',
  remove: 'Remove {what} | Убрать: {what}',
  chosen: 'Chosen filters | Выбранные фильтры',
  request: 'Your request | Ваш запрос',
  requestUrl: 'URL of the request | URL запроса',
  get: 'Format | Формат',
  download: 'as a file | файлом',
  count: 'At most | Не больше',
  all: 'all | все',
  more: 'More options | Ещё настройки',
  help_unique: 'one proxy for each outgoing address | один прокси на исходящий адрес',
  help_type_prefix: 'socks5:// before each address | socks5:// перед каждым адресом',
  help_line: 'your own template for each line | свой шаблон строки',
  help_split_ip: 'the port as a separate field | порт отдельным полем',
  help_format: 'an object with addresses as keys | объект с ключами-адресами вместо массива',
  help_wrap: 'with the count and the filters | с числом записей и фильтрами',
  help_pretty: 'without line breaks | без переносов строк',
  lang: 'Language of city names | Язык названий городов',
  fields: 'Fields | Поля',
  keyField: 'Key | Ключ',
  keyHint:
    'Demo: two requests a minute, masked addresses. Your own key stays in this tab and is sent in a header. | Demo: два запроса в минуту, адреса скрыты. Ваш ключ остаётся в этой вкладке и передаётся в заголовке.',
  demoWorks:
    '{n} of {all}: the demo key returns only proxies that passed at least 90% of checks, and each masked address once. | {n} из {all}: ключ demo выдаёт только прокси, прошедшие не меньше 90 % проверок, и каждый скрытый адрес один раз.',
  demoMasks:
    '{n} of {all}: the demo key returns each masked address once, and only some of them. | {n} из {all}: ключ demo выдаёт каждый скрытый адрес один раз, и только часть из них.',
  keyInvalid:
    'A key has only Latin letters, digits and punctuation, without spaces. | В ключе только латинские буквы, цифры и знаки, без пробелов.',
  tryIt: 'Try it | Попробовать',
  again: 'Again in {time} | Снова через {time}',
  noAnswer: 'The server did not answer. | Сервер не ответил.',
  answer: 'The answer | Ответ',
  asTable: 'Table | Таблица',
  asText: 'Raw | Как есть',
  form: 'How the answer is shown | Как показан ответ',
  examples:
    'The freshest matching proxies, with masked addresses | Самые свежие из подходящих, адреса скрыты',
  noExamples: 'Press Try it to see the answer. | Нажмите «Попробовать», чтобы увидеть ответ.',
  isNone:
    'No proxy matches now. Remove a filter, or accept older checks. | Сейчас ничего не подходит. Уберите какой-нибудь фильтр или разрешите проверки постарше.',
  isEmptyList:
    'The list is empty: nothing has been imported yet. | Список пуст: в него ещё ничего не загружено.',
  head_ip: 'Address | Адрес',
  head_type: 'Type | Тип',
  head_country: 'Country | Страна',
  head_city: 'City | Город',
  head_ping: 'Ping | Пинг',
  head_works: 'Works | Успех',
  head_timecheck: 'Checked | Когда',
  isCut:
    'The answer is too long for this page. You see its beginning. | Ответ слишком длинный для этой страницы. Показано его начало.',
  firstRows: 'The first {n} | Первые {n}',
  keyTitle: 'Your key | Ваш ключ',
  keyIntro: 'Looking here does not count as a request. | Этот просмотр не считается запросом.',
  showKey: 'Show | Показать',
  plan: 'Plan | Тариф',
  expires: 'Expires | Действует до',
  never: 'never | бессрочно',
} as const satisfies Sentences

/** Errors in Russian: the messages of the API are English. */
const PROBLEMS: { readonly [code: string]: string } = {
  KEY_MISSING: 'Не указан ключ',
  INVALID_PARAMETER: 'Неверное значение в запросе',
  INVALID_KEY: 'Ключ неверен или больше не действует',
  TEMP_KEY_INVALID: 'Временный ключ неверен или больше не действует',
  PROXIES_NOT_FOUND: 'Ничего не нашлось',
  RATE_LIMIT_EXCEEDED: 'Слишком много запросов подряд',
  DAILY_LIMIT_REACHED: 'Запросы на сегодня закончились',
  SUBNET_LIMIT_REACHED: 'Исчерпан суточный лимит сетей',
  DEMO_LIMIT_REACHED: 'Исчерпан лимит ключа demo',
  TEMP_LIMIT_REACHED: 'Исчерпан лимит временного ключа',
  INTERNAL_ERROR: 'Внутренняя ошибка сервера',
  DB_EXECUTE_FAILED: 'Сервер занят, попробуйте чуть позже',
}

export type Say = ReturnType<typeof createSay>

export const createSay = (lang: Lang) => ({
  ...createFormat(lang),
  words: sentencesIn(lang, WORDS),
  /** What went wrong, with the message of the API. */
  problem({ code, message }: { code: string; message: string }): string {
    const sentence = lang === 'ru' && PROBLEMS[code]
    return sentence ? `${sentence}: ${message}` : message
  },
})
