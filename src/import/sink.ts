/** Owns what the readers of all formats share: where rows go, and giving a whole file up. */
import type { RawRow } from './row.ts'

/** Takes rows as they are found. Lines are counted from 1. */
export type RowSink = {
  row(line: number, row: RawRow, listedAs?: string): void
  bad(line: number, field: string, reason: string): void
}

/** The whole file cannot be what it should be; the message says why, without the file's name. */
export class UnusableFile extends Error {}

/** Longest line, and longest JSON record, in characters. */
export const RECORD_LENGTH_MAX = 1024 * 1024

export const isRecord = (value: unknown): value is RawRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value of a JSON text, `undefined` when it is not one. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
