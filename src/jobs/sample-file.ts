/**
 * The built-in sample list, compressed by a macro when the program is built. As plain text, the program would
 * contain it twice, because bytecode repeats every string.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The sample as NDJSON, compressed with zstd, in base64. */
export function compressed(): string {
  const rows = readFileSync(join(import.meta.dir, '../../data/sample.ndjson'))
  return Bun.zstdCompressSync(rows, { level: 12 }).toString('base64')
}
