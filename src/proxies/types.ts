/**
 * The types of an address as one integer. Bit n: it has `TYPES[n]`. Above these four bits, 11 bits for each type hold
 * its age: the minutes from when a source last named it to the newest check of the address. Mostly all ages are 0.
 */
import { type ProxyType, TYPES } from './proxy.ts'

/** The bits of all types. */
export const ALL_TYPES = 15
/** A type that no source has named for so many minutes before the newest check is dropped (contract D2). */
const AGE_MAX = 24 * 60

const AGE_BITS = 11
const AGES = 2 ** AGE_BITS
/** The place of each age. Bitwise operators of JavaScript reach 32 bits, so ages are read by division. */
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

/** The types of two rows of one address, whose checks are in Unix seconds. The order of the rows makes no difference. */
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
