/** Owns when each error is sent, as the reference says it. */
import type { ErrorCode } from '../../errors.ts'
import type { Text } from './parameters.ts'

export const ERROR_TEXTS: { readonly [code in ErrorCode]: Text } = {
  KEY_MISSING: ['No key was sent, or an empty one.', 'Ключ не передан или пуст.'],
  INVALID_PARAMETER: [
    'A parameter is unknown, repeated or has a bad value; the message names it and says what it accepts. It costs no quota.',
    'Параметр неизвестен, повторён или имеет неверное значение; сообщение называет его и что он принимает. Квота не тратится.',
  ],
  INVALID_KEY: [
    'The key is unknown, revoked or expired, or its plan is off.',
    'Ключ неизвестен, отозван или истёк, или его тариф выключен.',
  ],
  TEMP_KEY_INVALID: ['The same, for a temporary key.', 'То же для временного ключа.'],
  PROXIES_NOT_FOUND: [
    'No proxy matches; the message says why where that is one thing. It counts as a request.',
    'Ничего не подошло; если причина одна, сообщение её называет. Засчитывается как запрос.',
  ],
  NOT_FOUND: ['Nothing is served at this path.', 'По этому пути ничего нет.'],
  METHOD_NOT_ALLOWED: ['The method is neither GET nor HEAD.', 'Метод — не GET и не HEAD.'],
  RATE_LIMIT_EXCEEDED: [
    'The burst limit of the plan is reached, or too many long answers of this key are under way.',
    'Достигнут предел частоты тарифа или у ключа слишком много длинных ответов сразу.',
  ],
  DAILY_LIMIT_REACHED: [
    'The requests of the plan for this UTC day are used up; `daily_limit` says how many there are.',
    'Запросы тарифа на эти сутки (UTC) закончились; `daily_limit` — сколько их всего.',
  ],
  SUBNET_LIMIT_REACHED: [
    'The answer would exceed the /16 networks that the plan allows a day, or the key was used from too many; `used_subnets` says how many are used. Narrow the filter or lower `count`.',
    'Ответ превысил бы число сетей /16 тарифа на сутки, или ключом пользовались из слишком многих; `used_subnets` — сколько использовано. Сузьте фильтр или уменьшите `count`.',
  ],
  DEMO_LIMIT_REACHED: [
    'More requests with `demo` from one address than it allows: at first 2 a minute.',
    'С одного адреса больше запросов с ключом `demo`, чем разрешено: сначала 2 в минуту.',
  ],
  TEMP_LIMIT_REACHED: [
    'More requests with this temporary key, or from this address, than allowed: at first 2 an hour.',
    'Больше запросов с этим временным ключом или с этого адреса, чем разрешено: сначала 2 в час.',
  ],
  INTERNAL_ERROR: [
    'An error of the service. `X-Request-Id` names the request for its operator. The request is given back.',
    'Ошибка сервиса. `X-Request-Id` называет запрос для его оператора. Запрос возвращается в квоту.',
  ],
  DB_EXECUTE_FAILED: [
    'A database failed or is busy; try again shortly. The request is given back.',
    'База данных не отвечает или занята; повторите чуть позже. Запрос возвращается в квоту.',
  ],
}

/** What the members of an error body are. */
export const ERROR_MEMBER_TEXTS = {
  status: ['Always `error`.', 'Всегда `error`.'],
  code: ['What went wrong, for programs.', 'Что случилось, для программ.'],
  message: ['What went wrong, for people.', 'Что случилось, для людей.'],
  timestamp: ['When the answer was made.', 'Когда сделан ответ.'],
  retry_after: [
    'Seconds after which the same request is admitted; in every 429.',
    'Через сколько секунд тот же запрос будет принят; есть в каждом 429.',
  ],
  daily_limit: [
    'Requests of the plan a day, with DAILY_LIMIT_REACHED.',
    'Запросов в сутки по тарифу, с DAILY_LIMIT_REACHED.',
  ],
  used_subnets: [
    'Networks used on this day before the request, with SUBNET_LIMIT_REACHED.',
    'Сколько сетей было использовано за сутки до запроса, с SUBNET_LIMIT_REACHED.',
  ],
} as const satisfies { [name: string]: Text }
