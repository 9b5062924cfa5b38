/** Removes keys, passwords and control characters from foreign texts in messages. Pure. */

/** Messages show this many characters of an unknown name, unless it is close to a known one. */
const NAME_SHOWN_MAX = 9

/** An unknown name, quoted for a message; shortened or left out if it may be a key. */
export function shownName(name: string, key: string, isNearlyKnown: boolean): string {
  const holdsKey = (key !== '' && name.includes(key)) || /pl_|temp_/.test(name)
  if (!/^[\w.-]{1,40}$/.test(name) || holdsKey) return ''
  const isComplete = isNearlyKnown || name.length <= NAME_SHOWN_MAX
  return ` '${isComplete ? name : `${name.slice(0, NAME_SHOWN_MAX)}…`}'`
}

/** Masks the user and password of a URL in a text. */
export const withoutPassword = (text: string): string => text.replace(/:\/\/.*@/s, '://***@')

const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** Escapes characters that change lines or the direction of text, as JSON does. */
export const printable = (text: string): string =>
  text.replace(UNPRINTABLE, found => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Whether a text needs no escapes; and a text without the characters that do. */
export const isPrintable = (text: string): boolean => text.search(UNPRINTABLE) < 0
export const withoutUnprintable = (text: string): string => text.replace(UNPRINTABLE, '')

export const printableLines = (text: string): string =>
  text.split(/\r?\n/).map(printable).join('\n')
