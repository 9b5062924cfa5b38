/** Random changes of bytes: flip, insert, delete, repeat, splice. Strings are Latin-1. */
import { between, pick } from '../../../support/random.ts'

type Change = (random: () => number, text: string, other: string) => string

const position = (random: () => number, text: string): number => between(random, 0, text.length)
const byte = (random: () => number): string => String.fromCharCode(between(random, 0, 255))
/** Bytes with a meaning in HTTP, URLs or UTF-8. */
const SPECIAL = [...'%&=?#;:/\\ \r\n\t\0"\'+,.@[]{}\x7f\x80\xc0\xed\xf4\xff']

const CHANGES: readonly Change[] = [
  (random, text) => {
    const at = between(random, 0, Math.max(0, text.length - 1))
    const flipped = text.charCodeAt(at) ^ (1 << between(random, 0, 7))
    return text.slice(0, at) + String.fromCharCode(flipped & 255) + text.slice(at + 1)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + byte(random) + text.slice(at)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + pick(random, SPECIAL) + text.slice(at)
  },
  (random, text) => {
    const at = position(random, text)
    return text.slice(0, at) + text.slice(at + between(random, 1, 8))
  },
  (random, text) => {
    const at = position(random, text)
    const piece = text.slice(at, at + between(random, 1, 20))
    return text.slice(0, at) + piece.repeat(between(random, 1, 4)) + text.slice(at)
  },
  (random, text, other) => {
    const from = position(random, other)
    return text.slice(0, position(random, text)) + other.slice(from, from + 200)
  },
]

/** The text after a few changes; spliced pieces come from `other`. */
export function mutate(random: () => number, text: string, other: string): string {
  let changed = text
  const times = between(random, 1, 1 + between(random, 0, 5))
  for (let n = 0; n < times; n += 1) changed = pick(random, CHANGES)(random, changed, other)
  return changed
}
