/** A file with the counts that only the server knows. `doctor` reads it. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The file in the data directory. It may hold labels of keys. */
export const ATTENTION_FILE = 'attention.json'

/** Sentences about requests, and when they were written. */
export type CountedAttention = { atMs: number; found: readonly string[] }

/** Replaces the file in one step. `adopt` gives it to the user of the service. */
export function writeAttentionFile(
  dir: string,
  counted: CountedAttention,
  adopt: (file: string) => void,
): void {
  const file = join(dir, ATTENTION_FILE)
  try {
    writeFileSync(`${file}.new`, JSON.stringify(counted), { mode: 0o600 })
    adopt(`${file}.new`)
    renameSync(`${file}.new`, file)
  } catch {
    // The console and the metrics have the same sentences; a full disk is reported by them.
  }
}

/** `null` when no server has written one, or it cannot be read. */
export function readAttentionFile(dir: string): CountedAttention | null {
  try {
    return JSON.parse(readFileSync(join(dir, ATTENTION_FILE), 'utf8'))
  } catch {
    return null
  }
}
