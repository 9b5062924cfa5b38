/**
 * The fuzzer's keys, all the ways a request may carry one, and how a reflected key is
 * recognised: keys consist of five letters that form such a sequence nowhere else.
 */
import { addKeys } from '../../../support/fixtures.ts'
import { between, pick, randomOf } from '../../../support/random.ts'

const LETTERS = [...'QXZJV']
/** Ten characters of a key, in any case. */
const REFLECTION = /[qxzjv]{10}/i

/** Keys by their limits; `free` ones have none. */
export type Keys = { [kind in 'free' | 'limited' | 'temp' | 'unknown']: readonly string[] }
export type Kind = keyof Keys | 'demo' | 'none'

const DAY_MS = 86_400_000

/** The keys of a run. */
export function keysOf(seed: number): Keys {
  const random = randomOf(seed, 'keys')
  const letters = (length: number): string =>
    Array.from({ length }, () => pick(random, LETTERS)).join('')
  return {
    free: [
      `pl_${letters(32)}`,
      letters(10),
      letters(200),
      `${letters(11)}"${letters(11)}\\&+%41=${letters(11)}?#/${letters(11)}é;${letters(11)}`,
    ],
    limited: [`pl_${letters(32)}`, `pl_${letters(32)}`],
    temp: Array.from({ length: 20 }, () => `temp_${letters(32)}`),
    unknown: [`pl_${letters(32)}`, `temp_${letters(32)}`, letters(40), letters(1000), '__proto__'],
  }
}

/** Adds the plans and all keys but the unknown ones to a data directory. */
export function addFuzzKeys(data: string, keys: Keys, nowMs: number): void {
  const plans = { free: 'unlimited', limited: 'classic', temp: null }
  const added = (['free', 'limited', 'temp'] as const).flatMap(kind =>
    keys[kind].map(key => {
      const expiresAt = kind === 'temp' ? nowMs + DAY_MS : null
      return { key, label: kind, plan: plans[kind], expiresAt }
    }),
  )
  addKeys(data, { unlimited: {} }, added, nowMs)
}

/** Text with its escapes of URLs and JSON undone once. */
const unescaped = (text: string): string =>
  text.replace(/%([0-9a-f]{2})|\\u00([0-9a-f]{2})/gi, (_, url, json) =>
    String.fromCharCode(Number.parseInt(url ?? json, 16)),
  )

/** Whether the text holds ten characters of a key, plain or escaped. */
export const isReflected = (text: string): boolean =>
  REFLECTION.test(text) || (/%|\\u/.test(text) && REFLECTION.test(unescaped(text)))

const byteEscape = (byte: number): string => `%${byte.toString(16).padStart(2, '0')}`
/** Every byte of the text percent-encoded. */
export const escapedWhole = (text: string): string =>
  [...Buffer.from(text)].map(byteEscape).join('')

/** The credentials of a request: pieces of its query, and header fields. */
type Credential = { pieces: readonly string[]; headers: readonly string[] }

/** A key given in an allowed way. */
export function allowed(random: () => number, key: string): Credential {
  const plain = encodeURIComponent(key)
  const bearer = `Authorization: Bearer ${Buffer.from(key).toString('latin1')}`
  const ways: readonly Credential[] = [
    { pieces: [`key=${plain}`], headers: [] },
    { pieces: [`key=${plain}`], headers: [] },
    { pieces: [`%6b%65%79=${plain}`], headers: [] },
    { pieces: [`key=${escapedWhole(key)}`], headers: [] },
    { pieces: [], headers: [bearer] },
    { pieces: [], headers: [bearer.replace('Bearer ', 'bearer   ')] },
    { pieces: [`key=${plain}`], headers: [bearer] },
    { pieces: [`key=${plain}`], headers: ['Authorization: Basic eDp5'] },
  ]
  return pick(random, ways)
}

/** A key in a wrong place, or one of several. */
export function misplaced(random: () => number, key: string, other: string): Credential {
  const plain = encodeURIComponent(key)
  const [head, tail] = [key.slice(0, key.length >> 1), key.slice(key.length >> 1)]
  const bearer = `Authorization: Bearer ${Buffer.from(key).toString('latin1')}`
  const at = between(random, 0, 9)
  const ways: readonly Credential[] = [
    { pieces: [`key=${plain}`, `key=${plain}`], headers: [] },
    { pieces: [`key=${plain}`, 'key='], headers: [] },
    { pieces: ['key='], headers: [bearer] },
    { pieces: [`key=${plain}`, `key=${encodeURIComponent(other)}`], headers: [] },
    { pieces: [`key=${encodeURIComponent(other)}`], headers: [bearer] },
    { pieces: [`key=${plain}`, `${plain}=1`], headers: [] },
    { pieces: [`key=${plain}`, escapedWhole(key)], headers: [] },
    { pieces: [`key=${plain}`, `${plain.slice(at)}=1`], headers: [] },
    { pieces: [`key=${plain}`, `${encodeURIComponent(other)}=1`], headers: [] },
    { pieces: [`${plain}=${plain}`], headers: [bearer] },
    { pieces: [`KEY=${plain}`], headers: [] },
    { pieces: [`key[]=${plain}`], headers: [] },
    { pieces: [`key==${plain}`], headers: [] },
    { pieces: [`key=%20${plain}+`], headers: [] },
    { pieces: [`key=${plain}%00`], headers: [] },
    { pieces: [`key=${plain}?key=${plain}`], headers: [] },
    { pieces: [`key=${plain}#${plain}`], headers: [] },
    { pieces: [`key=${plain};type=http`], headers: [] },
    { pieces: [`?key=${plain}`], headers: [] },
    { pieces: [`type=${plain}`, `key=${plain}`], headers: [] },
    { pieces: [`get=${plain}`, `fields=${plain}`], headers: [bearer] },
    { pieces: [`key=${encodeURIComponent(head)}`, `${encodeURIComponent(tail)}=1`], headers: [] },
    { pieces: ['key=demo', `${plain}=1`], headers: [] },
    { pieces: ['key=demo', `city=${plain}`], headers: [`X-Api-Key: ${plain}`] },
    { pieces: [], headers: [bearer, bearer] },
    { pieces: [], headers: [`${bearer}, ${bearer.slice(15)}`] },
    { pieces: [], headers: [bearer.replace('Bearer ', 'Bearer')] },
    { pieces: [], headers: [bearer.replace('Bearer', 'Token')] },
    { pieces: [], headers: [`${bearer} x`] },
    { pieces: [], headers: [`Cookie: key=${plain}`, `Referer: http://a/?key=${plain}`] },
    {
      pieces: [],
      headers: [
        `User-Agent: ${plain}`,
        `X-Request-Id: ${plain}`,
        `X-${plain.replace(/\W/g, '')}: 1`,
      ],
    },
  ]
  return pick(random, ways)
}
