/** Speaking: every sentence of the page in both languages, together with the numbers and names of each. */
import { BAR_WORDS } from '../parts/bar.ts'
import {
  createFormat,
  type Format,
  type Lang,
  type Sentences,
  sentencesIn,
} from '../parts/format.ts'
import { KEY_WORDS } from '../parts/key-report.ts'

const WORDS = {
  ...BAR_WORDS,
  ...KEY_WORDS,
  tagline: 'Which proxies match, right now | Какие прокси подходят прямо сейчас',
  skip: 'To the request | К запросу',
  about:
    'A live list of proxies: choose, look, and take them with one request. | Живой список прокси: выберите и получите одним запросом.',
  headline:
    'working proxy, checked in the last ten minutes / working proxies, checked in the last ten minutes | рабочий прокси, проверенный за последние десять минут / рабочих прокси, проверенных за последние десять минут',
  matches: 'proxy matches / proxies match | прокси подходит / прокси подходят',
  rows: 'row / rows | строка / строки / строк',
  countries: 'country / countries | страна / страны / стран',
  inList: '{total} in the list | {total} в списке',
  updated: 'as of {time} | на {time}',
  loading: 'Counting the list… | Считаем список…',
  isOff: 'This service shows no statistics. | Сервис не показывает статистику.',
  isTotals: 'Counts by filter are not public here. | Числа по фильтрам здесь не показываются.',
  isFailed: 'The statistics cannot be loaded now. | Статистику сейчас не загрузить.',
  isOld:
    'The statistics cannot be loaded now: numbers are of an earlier choice. | Статистику сейчас не загрузить: числа — от прежнего выбора.',
  byCountry: 'Countries | Страны',
  mapOf:
    'Map of countries. {top}. The list beside it has the same choices. | Карта стран. {top}. В списке рядом тот же выбор.',
  countryMode: 'Country mode | Режим стран',
  include: 'only these | только эти',
  except: 'all but these | все, кроме',
  findCountry: 'Find a country | Найти страну',
  skipCountries: 'Skip the countries | Пропустить страны',
  noCountry: 'No country has this name | Такой страны нет',
  unknown: 'Unknown place | Место неизвестно',
  type: 'Type | Тип',
  anon: 'Anonymity | Анонимность',
  elite: 'elite | элитный',
  eliteHint: 'no trace | незаметный',
  anonymous: 'anonymous | анонимный',
  anonymousHint: 'hides you | скрывает вас',
  transparent: 'transparent | прозрачный',
  transparentHint: 'shows you | показывает вас',
  service: 'Works with | Сервисы',
  serviceHint: 'all that are chosen | все выбранные',
  smtpHint: 'port 25 open | порт 25 открыт',
  googleHint: 'no captcha | без капчи',
  time: 'Checked within | Проверен за последние',
  ping: 'Ping | Отклик',
  pingLimit: 'at most, ms | не больше, мс',
  pingUnit: 'ms | мс',
  speed: 'Speed | Скорость',
  speedLimit: 'at least, bytes/s | не меньше, байт/с',
  speedUnit: 'bytes/s | байт/с',
  works: 'Successful checks | Удачные проверки',
  worksLimit: 'at least, % | не меньше, %',
  any: 'any | любые',
  atMost: 'up to {n} | до {n}',
  atLeast: 'from {n} | от {n}',
  place: 'City, port, address | Город, порт, адрес',
  uncounted: 'numbers are without port and address | числа без учёта порта и адреса',
  city: 'City | Город',
  cityInvalid:
    'Names separated by commas, each up to 200 characters | Названия через запятую, каждое не длиннее 200 знаков',
  port: 'Port | Порт',
  portInvalid: 'A port is a number from 1 to 65535 | Порт — число от 1 до 65535',
  ip: 'Address | Адрес',
  ipInvalid: 'An address looks like 203.0.113.10:1080 | Адрес выглядит так: 203.0.113.10:1080',
  numberInvalid: 'A whole number from {min} to {max} | Целое число от {min} до {max}',
  sort: 'First | Сначала',
  sort_checked: 'freshest check | недавно проверенные',
  sort_ping: 'lowest ping | с малым откликом',
  sort_speed: 'highest speed | быстрые',
  sort_works: 'most successful checks | надёжные',
  sort_random: 'other ones each time | каждый раз другие',
  clear: 'Clear all | Сбросить',
  remove: 'Remove {what} | Убрать: {what}',
  chosen: 'What is chosen | Что выбрано',
  ignored: 'ignored: {what} | не учтено: {what}',
  not: 'not {what} | кроме: {what}',
  request: 'Your request | Ваш запрос',
  requestUrl: 'URL of the request | URL запроса',
  get: 'Form | Форма',
  download: 'as a file | файлом',
  count: 'At most | Не больше',
  all: 'all | все',
  lang: 'City names | Города',
  fields: 'Fields | Поля',
  keyField: 'Key | Ключ',
  keyHint:
    'The key demo answers twice a minute, with masked addresses. A key of your own stays in this tab and is sent in a header. | Ключ demo отвечает дважды в минуту, адреса скрыты. Ваш ключ остаётся в этой вкладке и уходит в заголовке.',
  demoWorks:
    'Unless you choose a share of checks, demo asks for works=90. | Если не выбрать долю проверок, demo берёт works=90.',
  keyInvalid:
    'A key has Latin letters, digits and signs only, without spaces. | В ключе только латинские буквы, цифры и знаки, без пробелов.',
  tryIt: 'Try it | Проверить',
  stop: 'Stop | Остановить',
  again: 'Again in {time} | Снова через {time}',
  noAnswer: 'The service did not answer. | Сервис не ответил.',
  answer: 'The answer | Ответ',
  asTable: 'Table | Таблица',
  asText: 'Raw | Как есть',
  form: 'How the answer is shown | Как показан ответ',
  examples: 'The freshest that match, addresses masked | Самые свежие из подходящих, адреса скрыты',
  noExamples: 'Press Try it: the answer appears here. | Нажмите «Проверить»: ответ появится здесь.',
  isNone:
    'No proxy matches now. Take a filter away, or accept older checks. | Сейчас ничего не подходит. Уберите какой-нибудь фильтр или разрешите проверки постарше.',
  isEmptyList:
    'The list is empty: nothing has been imported yet. | Список пуст: в него ещё ничего не загружено.',
  head_ip: 'Address | Адрес',
  head_type: 'Type | Тип',
  head_country: 'Country | Страна',
  head_city: 'City | Город',
  head_ping: 'Ping | Отклик',
  head_works: 'Works | Успех',
  head_timecheck: 'Checked | Когда',
  save: 'Save as | Сохранить',
  isCut:
    'The answer is longer; only its beginning was read. | Ответ длиннее; прочитано только начало.',
  firstRows: 'The first {n} of them | Первые {n} из них',
  hint_INVALID_KEY:
    'Compare the key with the one you were given. | Сравните ключ с тем, что вам дали.',
  hint_INVALID_PARAMETER: 'The message names the parameter. | В сообщении назван параметр.',
  hint_PROXIES_NOT_FOUND:
    'Take a filter away, or accept older checks. | Уберите какой-нибудь фильтр или разрешите проверки постарше.',
  hint_DAILY_LIMIT_REACHED: 'The day ends at midnight UTC. | День кончается в полночь по UTC.',
  hint_SUBNET_LIMIT_REACHED: 'Ask for fewer proxies. | Просите меньше прокси.',
  hint_DEMO_LIMIT_REACHED: 'A key of your own allows more. | Свой ключ разрешает больше.',
  keyTitle: 'Your key | Ваш ключ',
  keyIntro:
    'Looking costs nothing: it is not counted. | Посмотреть можно сколько угодно: это не считается.',
  showKey: 'Show | Показать',
  plan: 'Plan | Тариф',
  expires: 'Expires | Действует до',
  never: 'never | бессрочно',
} as const satisfies Sentences

export type Say = Format & {
  words: { readonly [name in keyof typeof WORDS]: string }
  /** A word for a name that came from the service; the name itself where there is none. */
  named(prefix: 'hint_' | 'sort_' | 'head_', name: string): string | null
}

export function createSay(lang: Lang): Say {
  const words = sentencesIn(lang, WORDS)
  const speech = createFormat(lang)
  const isWord = (name: string): name is keyof typeof WORDS => Object.hasOwn(words, name)
  return {
    ...speech,
    words,
    named(prefix, name) {
      const id = prefix + name
      return isWord(id) ? words[id] : null
    },
  }
}
