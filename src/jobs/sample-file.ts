/**
 * A macro that compresses the built-in sample list when the program is built. Bytecode repeats every string, so plain
 * text would be in the program twice.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The sample as NDJSON, compressed with zstd, in base64. */
export function compressed(): string {
  const rows = readFileSync(join(import.meta.dir, '../../data/sample.ndjson'))
  return Bun.zstdCompressSync(rows, { level: 12 }).toString('base64')
}
