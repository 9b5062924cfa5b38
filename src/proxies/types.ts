/** The types of an address: bits 0–3, then for each type the minutes since a source named it, in 11 bits. */
import { type ProxyType, TYPES } from './proxy.ts'

/** The bits of all types. */
export const ALL_TYPES = 15
/** The age after which a type is dropped (contract D2). */
const AGE_MAX = 24 * 60

const AGE_BITS = 11
const AGES = 2 ** AGE_BITS
/** The value of one minute in each age. Bitwise operators reach only 32 bits, so ages are read by division. */
const AGE_UNITS = TYPES.map((_, n) => 2 ** (TYPES.length + n * AGE_BITS))

/** The types of a set without ages, the best first (contract A4), for each combination of bits. */
const TYPE_SETS: readonly (readonly ProxyType[])[] = Array.from(
  { length: 1 + ALL_TYPES },
  (_, bits) => TYPES.filter((_, n) => bits & (1 << n)).reverse(),
)

/** The types of an address, the best first. */
export const typesOf = (types: number): readonly ProxyType[] => TYPE_SETS[types & ALL_TYPES] ?? []

export const typeBits = (types: readonly ProxyType[]): number =>
  types.reduce((bits, type) => bits | (1 << TYPES.indexOf(type)), 0)

/** The best of the types that are `wanted`, or else the best of all. */
export const bestOf = (types: number, wanted = ALL_TYPES): ProxyType =>
  typesOf(types & wanted)[0] ?? typesOf(types)[0] ?? 'http'

const ageOf = (types: number, n: number): number =>
  types & (1 << n) ? Math.floor(types / (AGE_UNITS[n] ?? 1)) % AGES : Infinity

/** Merges the types of two rows of one address; their order does not matter. `oneAt` and `otherAt`: their checks in Unix seconds. */
export function mergeTypes(one: number, oneAt: number, other: number, otherAt: number): number {
  const minutes = Math.floor(oneAt / 60) - Math.floor(otherAt / 60)
  const [oneLag, otherLag] = [Math.max(0, -minutes), Math.max(0, minutes)]
  let merged = 0
  for (let n = 0; n < TYPES.length; n += 1) {
    const age = Math.min(ageOf(one, n) + oneLag, ageOf(other, n) + otherLag)
    if (age <= AGE_MAX) merged += 2 ** n + age * (AGE_UNITS[n] ?? 1)
  }
  return merged
}
