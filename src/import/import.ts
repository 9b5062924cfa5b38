/**
 * Owns an import from end to end: files in, proxies and rejected rows out. The caller stores the
 * proxies, undoes that when an import fails, and shows progress and messages.
 */
import { CommandError, messageOf } from '../lib/errors.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import { knownColumns } from './columns.ts'
import { detectFormat, type Format, HEAD_LENGTH, readRows } from './formats/formats.ts'
import { type RawRow, type RowDefaults, readRow } from './row.ts'
import { type Chunks, UnusableFile } from './sink.ts'

/** A file, or any other source of bytes. `name` is for messages. */
export type Source = { name: string; bytes: AsyncIterable<Uint8Array> }

export type ImportOptions = {
  format: Format | 'auto'
  defaults: RowDefaults
  /** Whether the first bad row rejects everything. */
  strict: boolean
  /** Whether a file without rows is rejected, because it would empty the list; not JSON (`[]`). */
  refuseEmpty?: boolean
}

/** Where an import reports what happens. */
export type ImportObserver = {
  /** A row was accepted; `rows` (rejected ones included) and `bytes` are sums over all sources. */
  progress(rows: number, bytes: number): void
  rejected(file: string, line: number, field: string, reason: string): void
  /** A member that no record has was ignored; reported once per name. */
  ignored(file: string, line: number, member: string): void
}

/**
 * Text is read in chunks of this many bytes. What a chunk becomes (lines, cells, objects) then
 * stays in the cache of the processor: CSV in chunks of 512 KB takes 1.7 times as long.
 */
const CHUNK_BYTES = 16 * 1024

type Totals = { read: number; rejected: number }

/** The text of a source in chunks. @throws UnusableFile when it is not UTF-8. */
async function* textOf({ bytes }: Source, count: (bytes: number) => void): Chunks {
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
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        yield decode(chunk.subarray(at, at + CHUNK_BYTES))
      }
    }
  } catch (error) {
    if (error instanceof UnusableFile || error instanceof CommandError) throw error
    throw new UnusableFile(`cannot be read (${messageOf(error)})`)
  }
  yield decode()
}

/** Reads ahead far enough to detect the format; `all` is the complete text, head included. */
async function peek(chunks: Chunks) {
  const iterator = chunks[Symbol.asyncIterator]()
  let head = ''
  let isComplete = false
  while (head.length < HEAD_LENGTH && !isComplete) {
    const { value, done } = await iterator.next()
    if (done) isComplete = true
    else head += value
  }
  async function* all(): Chunks {
    yield head
    if (!isComplete) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { head, isComplete, all: all() }
}

/**
 * Reads all sources and passes every good row to `add`. Bad rows are reported and skipped.
 * @throws CommandError when a source is of no known format, when all of its rows are bad, or
 *   with `strict` at the first bad row. The caller then undoes what `add` did.
 */
export async function importSources(
  sources: readonly Source[],
  options: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: ImportObserver,
): Promise<Totals> {
  const known = knownColumns(options.defaults.provider)
  const ignored = new Set<string>()
  const totals: Totals = { read: 0, rejected: 0 }
  let bytes = 0

  function reject(file: string, line: number, field: string, reason: string): void {
    totals.read += 1
    totals.rejected += 1
    if (options.strict) throw new CommandError(`${file}:${line}: ${field} ${reason}`)
    observer.rejected(file, line, field, reason)
  }

  /** The members of the row before: rows mostly have the same, which need no look-up. */
  const members: string[] = []

  function noteUnknown(file: string, line: number, member: string): void {
    if (known.has(member) || ignored.has(member)) return
    ignored.add(member)
    observer.ignored(file, line, member)
  }

  function take(file: string, line: number, row: RawRow, listedAs?: string): void {
    let at = 0
    for (const member in row) {
      if (members[at] === member) at += 1
      else {
        members[at++] = member
        noteUnknown(file, line, member)
      }
    }
    const result = readRow(row, options.defaults, listedAs)
    if (!result.ok) return reject(file, line, result.field, result.reason)
    totals.read += 1
    add(result.proxy)
    observer.progress(totals.read, bytes)
  }

  for (const source of sources) {
    const before = { ...totals }
    let statesEmpty = false // JSON without records states that there are none
    const count = (more: number): void => {
      bytes += more
    }
    try {
      const { head, isComplete, all } = await peek(textOf(source, count))
      const format = options.format === 'auto' ? detectFormat(head, isComplete) : options.format
      statesEmpty = format === 'json'
      await readRows(format, all, {
        row: (line, row, listedAs) => take(source.name, line, row, listedAs),
        bad: (line, field, reason) => reject(source.name, line, field, reason),
      })
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error
      throw new CommandError(`${source.name}: ${error.message}; nothing was imported`)
    }
    const read = totals.read - before.read
    if (read === 0 && options.refuseEmpty && !statesEmpty) {
      throw new CommandError(`${source.name} is empty, and --replace would remove the whole list`)
    }
    if (read > 0 && totals.rejected - before.rejected === read) {
      throw new CommandError(`${source.name}: no row is usable; nothing was imported`)
    }
  }
  return totals
}
