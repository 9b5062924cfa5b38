/** Reads files into proxies, rejected rows and notes. The caller stores the proxies and shows messages. */
import { createReadStream, type Stats } from 'node:fs'
import { CommandError, chunksUntilAborted, nextTurn } from '../lib/errors.ts'
import { bytesOfFile } from '../lib/files.ts'
import { isInternal } from '../lib/ip.ts'
import { formatCount, several } from '../lib/plural.ts'
import { printable } from '../lib/redact.ts'
import type { IncomingProxy, ProxyType } from '../proxies/proxy.ts'
import type { ListSizes } from '../proxies/store.ts'
import { detectFormat, type Format, READERS } from './formats.ts'
import { createNames, type Mapping, mayBeKey } from './names.ts'
import { type Chunks, headOf, NoList, type RowSink, textOf, UnusableFile } from './reader.ts'
import { createTranslators, type Translator } from './record.ts'
import { type Defaults, readRow, rejectRow } from './row.ts'
import { typeOfWord } from './values.ts'

export type Source = {
  /** For messages, and for the type of its rows: `socks5.txt`. */
  name: string
  bytes: AsyncIterable<Uint8Array>
  /** What “2 minutes ago” is relative to, in Unix milliseconds; without it, the time of the import. */
  atMs?: number
  /** Whether it is a URL. Then private addresses are rejected. */
  isPublic?: boolean
  isOptional?: boolean
}

/** A file, pipe or device. A file that was replaced by a pipe is refused: the pipe could keep the list locked. */
export const sourceOfFile = (file: string, found: Stats): Source => ({
  name: file,
  bytes: found.isFile() ? bytesOfFile(file) : createReadStream(file),
  ...(found.isFile() ? { atMs: found.mtimeMs } : {}),
})

export type ImportOptions = {
  format: Format | 'auto'
  defaults: Omit<Defaults, 'atMs'>
  strict: boolean
  refuseEmpty?: boolean
  mapping?: Mapping | undefined
  bytesMax?: number
  /** Awaited between two chunks of a file, so that few rows wait in memory. */
  drained?: (() => Promise<void>) | undefined
  signal?: AbortSignal
}

export type ImportObserver = {
  /** Called after each accepted row. `rows` and `bytes` are sums over all sources, with rejected rows. */
  progress?(rows: number, bytes: number): void
  rejected?(file: string, line: number, field: string, reason: string): void
  empty?(file: string): void
  refused?(file: string, reason: string): void
}

/** A new list may not be smaller than this share of a list with at least this many rows. */
const GUARDED_ROWS_MIN = 100
const KEPT_SHARE_MIN = 1 / 2

/** The predicate of the error if a list must not be replaced; `null` if it may. */
export const shrinkProblem = ({ before, after }: ListSizes): string | null =>
  before >= GUARDED_ROWS_MIN && after < before * KEPT_SHARE_MIN
    ? `would shrink the list from ${formatCount(before)} rows to ${formatCount(after)}`
    : null

export type Totals = {
  read: number
  rejected: number
  /** Rows that their source marks as dead. */
  skipped: number
  /** Why rows are missing, in one sentence; `null` if none are. */
  missing: string | null
  /** Sentences on values that were not understood, and on types from file names. */
  notes: readonly string[]
  /** The names of unknown members, which are ignored. */
  ignored: readonly string[]
}

/** After this many characters, which takes about 20 ms, the event loop gets a turn. */
const TURN_LENGTH = 1024 * 1024

/** Passes a chunk on once earlier rows are stored. Gives turns to the event loop, so that signals arrive. */
async function* paced(chunks: Chunks, drained: () => Promise<void>, signal: AbortSignal): Chunks {
  let lengthOfTurn = 0
  for await (const chunk of chunks) {
    yield chunk
    await drained()
    lengthOfTurn += chunk.length
    if (lengthOfTurn < TURN_LENGTH) continue
    await nextTurn(signal)
    lengthOfTurn = 0
  }
  await nextTurn(signal)
}

const IGNORED_MAX = 1000
/** The maximum length of a name or value in a message. */
const SHOWN_MAX = 40
const COUNTED_MAX = 1000
const REASONS_SHOWN = 3
/** The key `demo` replaces the last two numbers of an address by this. */
const MASKED = '.0.0'
const PRIVATE = 'is a private or loopback address, which a list on the internet cannot offer'

type Counts = Map<string, number>

function count(counts: Counts, text: string, rows = 1, overflow = 'other reasons'): void {
  const key = counts.has(text) || counts.size < COUNTED_MAX ? text : overflow
  counts.set(key, (counts.get(key) ?? 0) + rows)
}
const mostFirst = (counts: Counts): [text: string, rows: number][] =>
  [...counts].toSorted(([, a], [, b]) => b - a)

/** Why rows are missing: `12 of 5,000 rows are missing (9: is marked as dead by its source; 3: type is required)`. */
function missingSentence(read: number, missing: number, reasons: Counts): string | null {
  if (missing === 0) return null
  const shown = mostFirst(reasons).slice(0, REASONS_SHOWN)
  const rest = shown.reduce((left, [, rows]) => left - rows, missing)
  if (rest > 0) shown.push(['other reasons', rest])
  const parts = shown.map(([reason, rows]) => `${formatCount(rows)}: ${reason}`)
  const verb = missing === 1 ? 'is' : 'are'
  return `${formatCount(missing)} of ${several(read, 'row')} ${verb} missing (${parts.join('; ')})`
}

/** The type in the name of a file or its folder, as in `socks5.txt` and `socks4/data.txt`. */
function typeOfName(name: string): ProxyType | undefined {
  const path = name.replace(/^\w+:\/\/[^/]*/, '').replace(/[?#].*/s, '')
  for (const part of path.split(/[/\\]/).slice(-2).reverse()) {
    const words = part.split(/[^\p{L}\p{N}]+/u).map(typeOfWord)
    const types = new Set(words.filter(type => type !== undefined))
    if (types.size === 1) return [...types][0]
  }
  return undefined
}

/** Sentences for the operator, with the number of their rows. */
function createNotes(strict: boolean) {
  const counts: Counts = new Map()
  return {
    add: (sentence: string): void => count(counts, sentence),
    /** Notes a value that is not understood. A strict import rejects its row. */
    addUnread(field: string, value: unknown, accepts: string): void {
      const text = typeof value === 'object' ? '' : printable(String(value).slice(0, SHOWN_MAX))
      const shown = text === '' || mayBeKey(text) ? 'a value' : `'${text}'`
      const reason = `${shown} is not understood: it must be ${accepts}`
      if (strict) rejectRow(field, reason)
      const name = printable(field.slice(0, SHOWN_MAX))
      count(counts, `${name} ${reason}`, 1, `${name}: other values are not understood`)
    },
    sentences: (): string[] =>
      mostFirst(counts).map(([note, rows]) => `${note} (${several(rows, 'row')})`),
  }
}

/** Passes every good row to `add`. After an error, the caller must undo that. @throws CommandError */
export async function importSources(
  sources: readonly Source[],
  options: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: ImportObserver,
): Promise<Totals> {
  const { defaults: given, strict } = options
  const { signal = new AbortController().signal, drained = async () => {} } = options
  const names = createNames(given.provider, options.mapping)
  const translatorOf = createTranslators(names)
  const ignored = new Set<string>()
  const notes = createNotes(strict)
  const reasons: Counts = new Map()
  const totals = { read: 0, rejected: 0, skipped: 0 }
  let bytes = 0

  async function* counted(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const chunk of chunksUntilAborted(source, signal)) {
      bytes += chunk.length
      yield chunk
    }
  }

  /** Passes the rows of a source on. Returns why its other rows are missing. */
  async function readRows({ name, bytes: content, atMs, isPublic }: Source): Promise<Counts> {
    const missing: Counts = new Map()
    const typeFromName = given.type === undefined ? typeOfName(name) : undefined
    const defaults: Defaults = {
      ...given,
      type: given.type ?? typeFromName,
      atMs: Math.min(atMs ?? given.nowMs, given.nowMs),
    }
    let isMasked: boolean | null = null // no row yet
    const typeNote = `the type ${typeFromName} is taken from the name ${name}`
    let translator: Translator | null = null

    function miss(kind: 'rejected' | 'skipped', reason: string): void {
      totals.read += 1
      totals[kind] += 1
      count(missing, reason)
    }

    function reject(line: number, givenField: string, reason: string): void {
      const field = printable(givenField.slice(0, SHOWN_MAX)) // the file may have made it up
      miss('rejected', `${field} ${reason}`)
      if (strict) throw new CommandError(`${name}:${line}: ${field} ${reason}`)
      observer.rejected?.(name, line, field, reason)
    }

    function accept(line: number, proxy: IncomingProxy, isTypeAssumed: boolean): void {
      if (isPublic && isInternal(proxy.ip)) return reject(line, 'ip', PRIVATE)
      if (isTypeAssumed && typeFromName !== undefined) notes.add(typeNote)
      totals.read += 1
      isMasked = isMasked !== false && proxy.ip.endsWith(MASKED)
      add(proxy)
      observer.progress?.(totals.read, bytes)
    }

    const sink: RowSink = {
      row(line, row, context) {
        const current = translatorOf(row)
        if (current !== translator && ignored.size < IGNORED_MAX) {
          for (const member of current.unknown) ignored.add(member)
        }
        translator = current
        const result = readRow(row, defaults, context, current.translate, notes.addUnread)
        if (result.kind === 'good') accept(line, result.proxy, result.isTypeAssumed)
        else if (result.kind === 'skipped') miss('skipped', result.reason)
        else reject(line, result.field, result.reason)
      },
      bad: reject,
    }
    const text = textOf(counted(content), options.bytesMax)
    const { head, isComplete, all } = await headOf(text)
    const { format: asked } = options
    const format = asked === 'auto' ? detectFormat(head, isComplete, names) : asked
    await READERS[format](paced(all, drained, signal), sink, names)
    await drained()
    if (isMasked) {
      throw new CommandError(
        `${name}: every address ends in ${MASKED}, so they are masked, as the key demo shows them; ` +
          'download the list with your own key; nothing was imported',
      )
    }
    return missing
  }

  async function readSource(source: Source): Promise<void> {
    const { name } = source
    const before = totals.read
    const missing = await readRows(source)
    const read = totals.read - before
    const lost = missing.values().reduce((sum, rows) => sum + rows, 0)
    const [reason = '', rows = 0] = mostFirst(missing)[0] ?? []
    if (read > 0 && lost === read) {
      const share = `${formatCount(rows)} of ${formatCount(read)}`
      throw new CommandError(
        `${name}: no row is usable, ${share} because ${reason}; nothing was imported`,
      )
    }
    for (const [text, rows] of missing) count(reasons, text, rows)
    if (read > 0) return
    if (options.refuseEmpty) {
      throw new CommandError(
        `${name} has no rows and would empty the list; nothing was imported ` +
          '(--allow-empty permits it)',
      )
    }
    observer.empty?.(name)
  }

  for (const source of sources) {
    try {
      await readSource(source)
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error
      const { name, isOptional } = source
      if (!isOptional || !(error instanceof NoList))
        throw new CommandError(`${name}: ${error.message}; nothing was imported`)
      observer.refused?.(name, error.message)
    }
  }
  if (totals.read > 0) names.requireUsed()
  const lost = totals.rejected + totals.skipped
  const missing = missingSentence(totals.read, lost, reasons)
  return { ...totals, missing, notes: notes.sentences(), ignored: [...ignored] }
}
