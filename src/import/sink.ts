/**
 * Owns what the readers of all formats share: where rows go, how JSON records are recognised, and
 * the error for a file that cannot be used. Knows no format.
 */
import type { Names } from './fields/columns.ts'
import type { RawRow } from './fields/values.ts'

export { isRecord } from './fields/values.ts'

/** Receives rows in file order. Lines are counted from 1. */
export type RowSink = {
  /** A row; `listedAs` is its key when it is a value of a JSON object. */
  row(line: number, row: RawRow, listedAs?: string): void
  /** A record that cannot be used, and why. */
  bad(line: number, field: string, reason: string): void
}

/** A file as decoded chunks, which may end anywhere. */
export type Chunks = AsyncIterable<string>

/** Finds the rows of one format. @throws UnusableFile when the text is not of that format. */
export type Reader = (chunks: Chunks, sink: RowSink, names: Names) => Promise<void>

/** The file as a whole cannot be used. The message says why, without the file's name. */
export class UnusableFile extends Error {}

/**
 * A name of a file in a message: its first characters, in quotes. Control characters are replaced: they
 * would reach the terminal, and PostgreSQL, which keeps the failures of feeds, refuses NUL.
 */
export const quotedName = (name: string): string =>
  `'${name.slice(0, 40).replace(/\p{Cc}/gu, '\ufffd')}'`

/** Longest line, and longest JSON record, in characters. */
export const RECORD_LENGTH_MAX = 1024 * 1024

/** The value of a JSON document, or `undefined` when it is not valid JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
