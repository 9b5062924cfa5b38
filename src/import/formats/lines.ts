/** Owns splitting chunks of text into lines, for the formats with one row per line. */
import { type Chunks, RECORD_LENGTH_MAX, UnusableFile } from '../sink.ts'

/**
 * Calls `take` with every line and its number, counted from 1. The last line needs no newline.
 * @throws UnusableFile when a line is longer than `RECORD_LENGTH_MAX`.
 */
export async function eachLine(
  chunks: Chunks,
  take: (line: string, number: number) => void,
): Promise<void> {
  let rest = ''
  let number = 0
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line, ++number)
    if (rest.length > RECORD_LENGTH_MAX) throw new UnusableFile(`line ${number + 1} is too long`)
  }
  if (rest !== '') take(rest, ++number)
}
