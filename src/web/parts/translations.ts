/** Sentences of several pages. */
import type { Sentences } from './format.ts'

/** Of the bar above the page and the reference, and of their code samples. */
export const BAR_WORDS = {
  pages: 'Pages | Страницы',
  query: 'Query | Запрос',
  reference: 'Reference | Справочник',
  myKey: 'My key | Мой ключ',
  contact: 'Contact | Связаться',
  getKey: 'Get a key | Получить ключ',
  language: 'Language | Язык',
  code: 'The request as code | Запрос в виде кода',
  copy: 'Copy | Копировать',
  copied: 'Copied | Скопировано',
} as const satisfies Sentences

/** About a key. */
export const KEY_WORDS = {
  left: '{left} left of {quota} | осталось {left} из {quota}',
  reset: 'resets in {time} | сброс через {time}',
  limit_burst: 'burst | частота',
  limit_daily: 'today | сегодня',
  limit_subnets: 'proxy networks today | сетей прокси сегодня',
  limit_clients: 'caller networks today | ваших сетей сегодня',
  limit_demo: 'demo | demo',
  limit_key: 'this key | этот ключ',
  limit_address: 'your address | ваш адрес',
  state_active: 'active | действует',
  state_off: 'plan is off | тариф выключен',
  state_revoked: 'revoked | отозван',
  state_expired: 'expired | истёк',
  limits: 'Limits | Лимиты',
  noLimits: 'This key has no limits. | У этого ключа нет лимитов.',
  byHour: 'Requests by hour | Запросы по часам',
  today: 'Today | Сегодня',
  requests: 'requests | запросов',
  records: 'records | записей',
  refused: 'refused | отказов',
} as const satisfies Sentences
