/** Parses pairs of names and values: query strings (URL Standard, form-urlencoded), and lists in options. Pure. */

/** One `name=value` of a query string; `null` if the bytes, raw or percent-encoded, are not UTF-8. */
export type Pair = { name: string | null; value: string | null }

const decode = (text: string): string | null => {
  if (!/[%+\ufffd]/.test(text)) return text // the usual case, ten times as fast
  try {
    const decoded = decodeURIComponent(text.replaceAll('+', ' '))
    return decoded.includes('\ufffd') ? null : decoded // Bun's replacement for invalid UTF-8
  } catch {
    return null
  }
}

/** The query string of a URL or path, after the first `?`. */
export function queryStringOf(url: string): string {
  const mark = url.indexOf('?')
  return mark < 0 ? '' : url.slice(mark + 1)
}

/** The path of a URL, not decoded; `''` if there is none. Never throws, even if the `Host` was invalid. */
export function pathOf(url: string): string {
  const afterHost = url.replace(/^[a-z]+:\/\/[^/?#]*/i, '')
  return afterHost.replace(/[?#].*$/s, '')
}

/** Splits a query string (without its `?`) into decoded pairs, in order. Never throws. */
export function splitQueryString(text: string): readonly Pair[] {
  return text
    .split('&')
    .filter(part => part !== '')
    .map(part => {
      const equals = part.indexOf('=')
      const [name, value] =
        equals < 0 ? [part, ''] : [part.slice(0, equals), part.slice(equals + 1)]
      return { name: decode(name), value: decode(value) }
    })
}

/** `NAME=VALUE`, one per line or separated by commas. Values have no comma or white space. */
const PAIR = /\s*([^=\n]*[^=\s])\s*=\s*([^=,\s]+) *(?:[,\n]|$)/gy

/** The values of these pairs in lower case, by name; `null` for any other text. */
export function parsePairs(text: string): ReadonlyMap<string, string> | null {
  const pairs = [...text.matchAll(PAIR)]
  const read = pairs.reduce((length, [pair]) => length + pair.length, 0)
  if (read < text.length) return null
  return new Map(pairs.map(([, name = '', value = '']) => [name, value.toLowerCase()]))
}
