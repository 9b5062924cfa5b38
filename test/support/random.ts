/** Random numbers that a seed repeats. */

/** Numbers from 0 to below 1 (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A series of its own for each name under a seed. */
export const randomOf = (seed: number, name: string): (() => number) =>
  createRandom(Number(Bun.hash.xxHash32(`${seed} ${name}`)))

/** An integer from `least` to `most`, both included. */
export const between = (random: () => number, least: number, most: number): number =>
  least + Math.floor(random() * (most - least + 1))

/** One of the items. */
export function pick<T>(random: () => number, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

/** The items in random order. */
export function shuffled<T>(random: () => number, items: readonly T[]): T[] {
  const left = [...items]
  return items.flatMap(() => left.splice(between(random, 0, left.length - 1), 1))
}
