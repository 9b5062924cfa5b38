/**
 * The built-in sample list as the program holds it. `compressed` runs as a macro, while the program is
 * built or when the module that calls it is loaded by `bun run`: as plain text, the list would be in the
 * program twice, because bytecode repeats every string.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The sample as NDJSON, compressed with zstd, in base64. */
export function compressed(): string {
  const rows = readFileSync(join(import.meta.dir, '../../data/sample.ndjson'))
  return Bun.zstdCompressSync(rows, { level: 12 }).toString('base64')
}
