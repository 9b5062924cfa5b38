/** The clocks and the storage of the browser. */
import { LANGS, type Lang } from './format.ts'

/** Milliseconds since the page was opened; never steps back. */
export const nowMs = (): number => performance.now()

/** Unix milliseconds by the browser's clock. */
export const unixMs = (): number => Date.now()

/** The first language of the browser that the pages have, as the server reads Accept-Language. */
export const browserLang = (): Lang =>
  navigator.languages.flatMap(tag => LANGS.filter(lang => tag.startsWith(lang)))[0] ?? 'en'

/** A remembered value; `null` also where the browser allows no storage. Never holds a key. */
export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value)
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
}
