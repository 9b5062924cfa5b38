/**
 * Parsing pairs of names and values: query strings (URL Standard,
 * application/x-www-form-urlencoded), and lists as options have them. Pure.
 */

/** One `name=value` of a query string; `null` where its bytes, sent as such or percent-encoded, are not UTF-8. */
export type Pair = { name: string | null; value: string | null }

const decode = (text: string): string | null => {
  if (!/[%+\ufffd]/.test(text)) return text // as most are: ten times as fast
  try {
    const decoded = decodeURIComponent(text.replaceAll('+', ' '))
    return decoded.includes('\ufffd') ? null : decoded // what Bun makes of bytes that are not UTF-8
  } catch {
    return null
  }
}

/** The query string of a request target or URL, from the first `?` (it may be a bare path). */
export function queryStringOf(url: string): string {
  const mark = url.indexOf('?')
  return mark < 0 ? '' : url.slice(mark + 1)
}

/**
 * The path of a URL as it was sent, without decoding; `''` when there is none. Never throws, which
 * `new URL` does: Bun copies `Host` into the URL of a request as it comes.
 */
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

/** `NAME=VALUE`, one a line or separated by commas; no value has a comma or white space. */
const PAIR = /\s*([^=\n]*[^=\s])\s*=\s*([^=,\s]+) *(?:[,\n]|$)/gy

/** The values of such pairs by name, in lower case; `null` when the text is anything else. */
export function parsePairs(text: string): ReadonlyMap<string, string> | null {
  const pairs = [...text.matchAll(PAIR)]
  const read = pairs.reduce((length, [pair]) => length + pair.length, 0)
  if (read < text.length) return null
  return new Map(pairs.map(([, name = '', value = '']) => [name, value.toLowerCase()]))
}
