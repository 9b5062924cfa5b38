/** What a part of a torture run gets, and what it gives: a finding for each promise. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** What was measured for one promise. */
export type Finding = {
  promise: string
  /** A count or a measurement, with its unit. */
  figure: string
  /** What the figure must satisfy. */
  bound: string
  holds: boolean
}

/** What every part gets. */
export type Run = {
  /** The compiled program. */
  binary: string
  /** Every random number derives from this: the same seed repeats a run. */
  seed: number
  /** Share of the usual amount of work, above 0; a full run is 1. */
  scale: number
  /** A new directory, removed at the end of the part. */
  directory: (name: string) => string
  /** Prints a line of progress. */
  say: (text: string) => void
}

export type Part = (run: Run) => Promise<Finding[]>

/** How often to do something of which a full run does `full`: at least once. */
export const scaled = (full: number, { scale }: Pick<Run, 'scale'>): number =>
  Math.max(1, Math.round(full * scale))

/** How many problems are named, and how many characters of each. */
const NAMED = 3
const NAMED_LENGTH = 100

/** How many problems there were, and the first of them. */
export function summaryOf(problems: readonly string[]): string {
  if (problems.length === 0) return '0'
  const named = problems.slice(0, NAMED).map(text => text.slice(0, NAMED_LENGTH))
  return `${problems.length} (${named.join('; ')})`
}

/** A function that makes a new directory under `root` at each call. */
export function directoriesUnder(root: string): (name: string) => string {
  let made = 0
  return name => {
    made += 1
    const dir = join(root, `${made}-${name}`)
    mkdirSync(dir)
    return dir
  }
}
