/**
 * Lists whose rows have the number of the import that brought them, as their speed and in the name of
 * their city: parts of two imports show in any answer.
 */
import { rmSync } from 'node:fs'

/** The number of an import and this make the speed of its rows. */
export const FIRST_SPEED = 1_000

/** Writes a file of rows with these addresses; without `checkedAt` (Unix seconds) an import takes its own time. */
export async function writeTagged(
  file: string,
  addresses: Iterable<string>,
  tag: number,
  checkedAt?: number,
): Promise<void> {
  rmSync(file, { force: true }) // a writer does not shorten a file
  const writer = Bun.file(file).writer({ highWaterMark: 1 << 20 })
  let rows = 0
  for (const ip of addresses) {
    const city = `Город ${rows % 20} ${tag}`
    const row = { ip, type: 'http', works: '90', country: 'DE', city, speed: FIRST_SPEED + tag }
    writer.write(`${JSON.stringify({ ...row, checked_at: checkedAt })}\n`)
    rows += 1
    if (rows % 10_000 === 0) await writer.flush()
  }
  await writer.end()
}

/** The numbers of the imports that an answer in JSON has rows of, and how many rows of each. */
export function tagsIn(json: string): Map<number, number> {
  const tags = new Map<number, number>()
  for (const [, speed] of json.matchAll(/"speed": ?"?(\d+)/g)) {
    const tag = Number(speed) - FIRST_SPEED
    tags.set(tag, (tags.get(tag) ?? 0) + 1)
  }
  return tags
}
