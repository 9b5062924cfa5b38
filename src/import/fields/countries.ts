/** Owns the names of countries, English and Russian, as other tools write them. Pure. */

/** Codes that stand for no country: user-assigned ones of ISO 3166, and those of a whole region. */
const NO_COUNTRY = new Set(['ZZ', 'XX', 'EU', 'AP', 'UN', 'EZ'])
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']

let codes: Map<string, string> | null = null

/** Codes by folded name, computed at the first call. */
function namesToCodes(): Map<string, string> {
  if (codes !== null) return codes
  codes = new Map()
  for (const language of ['en', 'ru']) {
    const names = new Intl.DisplayNames(language, { type: 'region', fallback: 'none' })
    for (const code of LETTERS.flatMap(first => LETTERS.map(second => first + second))) {
      // A code that was withdrawn has the name of the one that replaces it.
      const isCurrent =
        new Intl.Locale(`und-${code}`).maximize().region === code && !NO_COUNTRY.has(code)
      const name = isCurrent ? names.of(code) : undefined
      if (name !== undefined && !codes.has(name.toLowerCase())) codes.set(name.toLowerCase(), code)
    }
  }
  return codes
}

/** The code of a country from its code or name, `''` for none in particular, `null` if unknown. */
export function countryCode(text: string): string | null {
  const given = text.trim()
  if (/^[A-Za-z]{2}$/.test(given)) {
    const code = given.toUpperCase()
    return code === 'ZZ' || code === 'XX' ? '' : code
  }
  return namesToCodes().get(given.toLowerCase()) ?? null
}
