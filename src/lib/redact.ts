/** Hiding what may be a key or a password in what a message repeats. Pure. */

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
