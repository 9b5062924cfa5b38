/**
 * Owns an import from end to end: files in, proxies and refusals out, in one step or not at all.
 * What becomes of a proxy is the `target`'s affair; progress and messages are the caller's.
 */
import { CommandError, messageOf } from '../lib/errors.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import { detectFormat, type Format, HEAD_LENGTH, readRows } from './formats/formats.ts'
import { knownMembers, type RawRow, type RowDefaults, readRow } from './row.ts'
import { UnusableFile } from './sink.ts'

/** A file, or anything else that gives bytes. `name` is for messages. */
export type Source = { name: string; bytes: AsyncIterable<Uint8Array> }

export type ImportOptions = {
  format: Format | 'auto'
  defaults: RowDefaults
  /** Whether the first bad row refuses everything. */
  strict: boolean
  /** Whether a file without anything in it is refused: it would empty the list. */
  refuseEmpty?: boolean
}

/** Where an import tells what happens. */
export type ImportObserver = {
  /** A row was read, of `bytes` bytes read so far in all sources. */
  progress(rows: number, bytes: number): void
  rejected(file: string, line: number, field: string, reason: string): void
  /** A member no record has was passed over; told once a name. */
  ignored(file: string, line: number, member: string): void
}

type Totals = { read: number; rejected: number }

/** The text of a source, piece by piece. @throws UnusableFile when it is not UTF-8. */
async function* textOf({ bytes }: Source, count: (bytes: number) => void): AsyncIterable<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const decode = (chunk?: Uint8Array): string => {
    try {
      return chunk ? decoder.decode(chunk, { stream: true }) : decoder.decode()
    } catch {
      throw new UnusableFile('is not UTF-8 text')
    }
  }
  try {
    for await (const chunk of bytes) {
      count(chunk.length)
      yield decode(chunk)
    }
  } catch (error) {
    if (error instanceof UnusableFile || error instanceof CommandError) throw error
    throw new UnusableFile(`cannot be read (${messageOf(error)})`)
  }
  yield decode()
}

/** Reads far enough ahead to tell the format, and gives the text whole again. */
async function peek(text: AsyncIterable<string>) {
  const iterator = text[Symbol.asyncIterator]()
  let head = ''
  let isWhole = false
  while (head.length < HEAD_LENGTH && !isWhole) {
    const { value, done } = await iterator.next()
    if (done) isWhole = true
    else head += value
  }
  async function* again(): AsyncIterable<string> {
    yield head
    if (!isWhole) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { head, isWhole, text: again() }
}

/**
 * Reads all sources and hands every good row to `add`. Bad rows are told and passed over.
 * @throws CommandError when a source is of no known format, when all of its rows are bad, or
 *   with `strict` at the first bad row. The caller then undoes what `add` did.
 */
export async function importSources(
  sources: readonly Source[],
  options: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: ImportObserver,
): Promise<Totals> {
  const known = knownMembers(options.defaults.provider)
  const ignored = new Set<string>()
  const totals: Totals = { read: 0, rejected: 0 }
  let bytes = 0

  function refuse(file: string, line: number, field: string, reason: string): void {
    totals.read += 1
    totals.rejected += 1
    if (options.strict) throw new CommandError(`${file}:${line}: ${field} ${reason}`)
    observer.rejected(file, line, field, reason)
  }

  function take(file: string, line: number, row: RawRow, listedAs?: string): void {
    for (const member in row) {
      if (known.has(member) || ignored.has(member)) continue
      ignored.add(member)
      observer.ignored(file, line, member)
    }
    const result = readRow(row, options.defaults, listedAs)
    if (!result.ok) return refuse(file, line, result.field, result.reason)
    totals.read += 1
    add(result.proxy)
    observer.progress(totals.read, bytes)
  }

  for (const source of sources) {
    const before = { ...totals }
    let saysEmpty = false // a JSON document that holds no record says so
    const count = (more: number): void => {
      bytes += more
    }
    try {
      const { head, isWhole, text } = await peek(textOf(source, count))
      const format = options.format === 'auto' ? detectFormat(head, isWhole) : options.format
      saysEmpty = format === 'json'
      await readRows(format, text, {
        row: (line, row, listedAs) => take(source.name, line, row, listedAs),
        bad: (line, field, reason) => refuse(source.name, line, field, reason),
      })
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error
      throw new CommandError(`${source.name}: ${error.message}; nothing was imported`)
    }
    const read = totals.read - before.read
    if (read === 0 && options.refuseEmpty && !saysEmpty) {
      throw new CommandError(`${source.name} is empty, and --replace would remove the whole list`)
    }
    if (read > 0 && totals.rejected - before.rejected === read) {
      throw new CommandError(`${source.name}: no row is usable; nothing was imported`)
    }
  }
  return totals
}
