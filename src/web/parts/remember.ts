/**
 * What a browser remembers of its visitor: how pages look and their language, and nothing
 * else. Keys and choices are never remembered here.
 */
export type Remembered = 'theme' | 'lang' | 'code'

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
