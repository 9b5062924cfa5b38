/**
 * The manual as the program holds it. Runs as a macro, see `commands/help.ts`: as plain text, the manual
 * would be in the program twice, because bytecode repeats every string.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = join(import.meta.dir, '../../data/manual')

/** All topics by name, `{"feeds": "# Feeds\n…"}`, as JSON compressed with zstd, in base64. */
export function compressedManual(): string {
  const files = readdirSync(FOLDER).filter(file => file.endsWith('.md'))
  const topics = files
    .sort()
    .map(file => [file.slice(0, -'.md'.length), readFileSync(join(FOLDER, file), 'utf8')])
  const json = JSON.stringify(Object.fromEntries(topics))
  return Buffer.from(Bun.zstdCompressSync(json, { level: 12 })).toString('base64')
}
