/** What a reader finds in a text, for the tests. */
import { createNames } from '../../../src/import/columns.ts'
import { type Format, READERS } from '../../../src/import/formats.ts'
import type { RawRow } from '../../../src/import/row.ts'

/** The names of columns without any of the operator's. */
export const NAMES = createNames('the service')

/** A row, or a bad row with its reason, as a reader passes it on. */
export type Found =
  | { kind: 'row'; line: number; row: RawRow; listedAs?: string | undefined }
  | { kind: 'bad'; line: number; bad: string; reason: string }

export async function* chunksOf(chunks: readonly string[]): AsyncIterable<string> {
  yield* chunks
}

/** All that the reader of a format finds in these chunks. */
export async function found(format: Format, ...chunks: string[]): Promise<Found[]> {
  const all: Found[] = []
  await READERS[format](
    chunksOf(chunks),
    {
      row: (line, row, listedAs) =>
        all.push({ kind: 'row', line, row, ...(listedAs === undefined ? {} : { listedAs }) }),
      bad: (line, bad, reason) => all.push({ kind: 'bad', line, bad, reason }),
    },
    NAMES,
  )
  return all
}
