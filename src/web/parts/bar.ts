/** The bar above page and reference, which is a component of the one and HTML of the other: its words, its themes. */
import type { Sentences } from './format.ts'

/** And those of programs, which both have too. */
export const BAR_WORDS = {
  pages: 'Pages | Страницы',
  query: 'Query | Запрос',
  reference: 'Reference | Справочник',
  myKey: 'My key | Мой ключ',
  contact: 'Contact | Связаться',
  getKey: 'Get a key | Получить ключ',
  language: 'Language | Язык',
  theme: 'Theme | Тема',
  auto: 'As the system | Как в системе',
  light: 'Light | Светлая',
  dark: 'Dark | Тёмная',
  code: 'The request as code | Запрос в виде кода',
  copy: 'Copy | Копировать',
  copied: 'Copied | Скопировано',
} as const satisfies Sentences

/** The themes that a visitor may choose, with their icons: lines, and what is filled. */
export const THEMES = [
  {
    name: 'auto',
    icon: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11z',
    half: 'M8 2.5a5.5 5.5 0 0 1 0 11z',
  },
  {
    name: 'light',
    icon: 'M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM8 1v1.4M8 13.6V15M1 8h1.4M13.6 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
    half: '',
  },
  { name: 'dark', icon: 'M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z', half: '' },
] as const
export type Theme = (typeof THEMES)[number]['name']
