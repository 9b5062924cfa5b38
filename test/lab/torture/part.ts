/** Owns what a part of a torture run is given and what it gives: findings, one for each promise. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** What was seen of one promise. */
export type Finding = {
  promise: string
  /** What was counted or measured, with its unit. */
  figure: string
  /** What the figure must be. */
  bound: string
  holds: boolean
}

/** What every part is given. */
export type Run = {
  /** The compiled program. */
  binary: string
  /** Everything random comes from this, so that a run can be repeated. */
  seed: number
  /** Share of the usual amount of work, above 0; a full run is 1. */
  scale: number
  /** A fresh directory of this run, removed at its end. */
  directory: (name: string) => string
  /** A line of progress for who watches. */
  say: (text: string) => void
}

export type Part = (run: Run) => Promise<Finding[]>

/** How often to do something of which a full run does `full`: at least once. */
export const scaled = (full: number, { scale }: Run): number =>
  Math.max(1, Math.round(full * scale))

/** Directories under `root`, each made anew. */
export function directoriesUnder(root: string): (name: string) => string {
  let made = 0
  return name => {
    made += 1
    const dir = join(root, `${made}-${name}`)
    mkdirSync(dir)
    return dir
  }
}

/** Numbers from 0 to below 1 that depend on the seed and the name alone (mulberry32). */
export function randomOf(seed: number, name: string): () => number {
  let state = Number(Bun.hash.xxHash32(`${seed} ${name}`))
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A whole number from `least` to `most`, both included. */
export const between = (random: () => number, least: number, most: number): number =>
  least + Math.floor(random() * (most - least + 1))

/** One of the items. */
export function pick<T>(random: () => number, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}
