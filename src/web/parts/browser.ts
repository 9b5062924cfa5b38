/** What pages read and keep of the browser: its clocks, and how its visitor wants pages to look. */
import { LANGS, type Lang } from './format.ts'

/** Milliseconds since the page began; never steps back. */
export const nowMs = (): number => performance.now()

/** The current instant in Unix milliseconds, as far as the browser's clock is right. */
export const unixMs = (): number => Date.now()

/** The first language of the browser that pages have, as the service finds it by Accept-Language. */
export const browserLang = (): Lang =>
  navigator.languages.flatMap(tag => LANGS.filter(lang => tag.startsWith(lang)))[0] ?? 'en'

/** All that is remembered: never a key, never a choice. `service`: its address, as an operator tells it. */
export type Remembered = 'theme' | 'lang' | 'code' | 'service' | 'first-day' | 'zone'

/** What was remembered under a name; `null` also where the browser allows no storage. */
export function remembered(name: Remembered): string | null {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

export function remember(name: Remembered, value: string): void {
  try {
    localStorage.setItem(name, value)
  } catch {
    // A browser without storage asks again next time.
  }
}
