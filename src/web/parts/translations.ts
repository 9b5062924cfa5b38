/** Sentences of the bar above the page and the reference, and of their code samples. */
import type { Sentences } from './format.ts'

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
