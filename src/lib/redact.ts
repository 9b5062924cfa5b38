/**
 * What a message may repeat of a text that is not ours: no key, no password, and nothing that a terminal
 * obeys. Pure.
 */

/** An unknown name is shown up to this many characters, unless it is close to a known one. */
const NAME_SHOWN_MAX = 9

/**
 * An unknown name as a message may repeat it: quoted, after a space. One that contains or looks like a
 * key (`?key=K&K`, or a key split by a raw `&`) is shown in part or not at all (`''`).
 */
export function shownName(name: string, key: string, isNearlyKnown: boolean): string {
  const holdsKey = (key !== '' && name.includes(key)) || /pl_|temp_/.test(name)
  if (!/^[\w.-]{1,40}$/.test(name) || holdsKey) return ''
  const isComplete = isNearlyKnown || name.length <= NAME_SHOWN_MAX
  return ` '${isComplete ? name : `${name.slice(0, NAME_SHOWN_MAX)}…`}'`
}

/** A text without the user and password of a URL in it. */
export const withoutPassword = (text: string): string => text.replace(/:\/\/.*@/s, '://***@')

const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/**
 * A text on one line of a terminal: controls, line separators and marks that turn text around are escaped as
 * in JSON. In JSON text, they mean the same.
 */
export const printable = (text: string): string =>
  text.replace(UNPRINTABLE, found => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Whether a text has nothing that is escaped so; and a text without it. */
export const isPrintable = (text: string): boolean => text.search(UNPRINTABLE) < 0
export const withoutUnprintable = (text: string): string => text.replace(UNPRINTABLE, '')

export const printableLines = (text: string): string =>
  text.split(/\r?\n/).map(printable).join('\n')
