/**
 * An import from end to end: files in, proxies and rejected rows out. The caller stores the
 * proxies, undoes that when an import fails, and shows progress and messages.
 */
import { createReadStream, type Stats } from 'node:fs'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, chunksUntilAborted, nextTurn } from '../lib/errors.ts'
import { bytesOfFile } from '../lib/files.ts'
import { isInternal } from '../lib/ip.ts'
import { formatCount, several } from '../lib/plural.ts'
import { printable } from '../lib/redact.ts'
import type { IncomingProxy, ProxyType } from '../proxies/proxy.ts'
import type { ListSizes } from '../proxies/store.ts'
import { detectFormat, type Format, READERS } from './formats.ts'
import { createNames, type Mapping, mayBeKey, type Names } from './names.ts'
import {
  type Chunks,
  NoList,
  peek,
  type RowSink,
  textOf,
  UnusableFile,
  withLineFeeds,
} from './reader.ts'
import { createTranslator, type Translator } from './record.ts'
import { type Context, type Defaults, type RawRow, readRow, rejectRow } from './row.ts'
import { withAddressNotes } from './text.ts'
import { typeOfWord } from './values.ts'

/** A file, or any other source of bytes. */
export type Source = {
  /** For messages, and for the type of its rows: `socks5.txt`. */
  name: string
  bytes: AsyncIterable<Uint8Array>
  /** The time that relative times are counted from, Unix milliseconds; the time of the import when left out. */
  atMs?: number
  /** True for a public URL. Private addresses in it are rejected. */
  isPublic?: boolean
  /** Skip it, instead of failing, when it is not a list. */
  isOptional?: boolean
}

/** A file of any kind. One that is no longer regular at its turn is not read: a pipe would keep the list locked. */
export const sourceOfFile = (file: string, found: Stats): Source => ({
  name: file,
  bytes: found.isFile() ? bytesOfFile(file) : createReadStream(file),
  ...(found.isFile() ? { atMs: found.mtimeMs } : {}),
})

export type ImportOptions = {
  format: Format | 'auto'
  defaults: Omit<Defaults, 'atMs'>
  /** The type of rows when neither they, `defaults` nor the name of their source say one. */
  fallbackType?: ProxyType | undefined
  /** Whether the first bad row rejects everything. */
  strict: boolean
  /** Whether a source without rows is rejected, because it would empty the list. */
  refuseEmpty?: boolean
  /** Names of columns and members, with the field that each of them holds. */
  mapping?: Mapping | undefined
  /** Most bytes of a source when it is decompressed. */
  bytesMax?: number
  /** Awaited once, before the first good row, at the latest before the end. */
  beforeRows?: () => Awaitable<void>
  /** Awaited between two chunks of a file, so that rows which wait to be stored stay few. */
  drained?: (() => Promise<void>) | undefined
  /** Ends the import, which then throws the reason of this signal. */
  signal?: AbortSignal
}

/** Where an import reports what happens. */
export type ImportObserver = {
  /** A row was accepted; `rows` (rejected ones included) and `bytes` are sums over all sources. */
  progress(rows: number, bytes: number): void
  rejected(file: string, line: number, field: string, reason: string): void
  /** A member that no record has was ignored; reported once per name. */
  ignored(file: string, line: number, member: string): void
  /** A source holds no row. */
  empty?(file: string): void
  /** An optional source is no list. */
  refused?(file: string, reason: string): void
}

/** A list that an import replaces: one of fewer rows may shrink to any size. */
const GUARDED_ROWS_MIN = 100
/** A guarded list keeps at least this share of its rows. */
const KEPT_SHARE_MIN = 1 / 2

/** Why a list must not be replaced by one of this size, as a predicate; `null`: it may. */
export const shrinkProblem = ({ before, after }: ListSizes): string | null =>
  before >= GUARDED_ROWS_MIN && after < before * KEPT_SHARE_MIN
    ? `would shrink the list from ${formatCount(before)} rows to ${formatCount(after)}`
    : null

/** What an import has read. `read` counts all rows; those that are `skipped` their source marks as dead. */
export type Totals = {
  read: number
  rejected: number
  skipped: number
  /** Why rows are missing, in one sentence; `null` when none is. */
  missing: string | null
  /** A sentence for each value that was not understood, and for a type that was taken from a name. */
  notes: readonly string[]
}

/** Characters between two turns of the event loop: importing them takes some 20 ms. */
const TURN_LENGTH = 1024 * 1024

/**
 * Passes text on, each chunk when the rows of those before it are stored. A file is read, and what is
 * compressed comes, without a turn of the event loop, and signals come in one: also before the end.
 */
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

/** Rows of a file have few different lists of members; one that has many must not fill memory. */
const TRANSLATORS_MAX = 1000
const MEMBERS_LENGTH_MAX = 4096
/** Most members that are reported as ignored. */
const IGNORED_MAX = 1000
/** Most characters that are shown of the name of a field, or of a value. */
const SHOWN_MAX = 40
/** Most different reasons that are counted, and values of a field that are named. */
const COUNTED_MAX = 1000
const VALUES_MAX = 5
/** Most reasons in the sentence on missing rows. */
const REASONS_SHOWN = 3
/** The key `demo` shows addresses with this end (contract B4). */
const MASKED = '.0.0'
const PRIVATE = 'is a private or loopback address, which a list on the internet cannot offer'

/** Counts texts. Beyond the limit, they count as `other reasons`. */
function count(counts: Map<string, number>, text: string): void {
  const key = counts.has(text) || counts.size < COUNTED_MAX ? text : 'other reasons'
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
const mostFirst = (counts: ReadonlyMap<string, number>): [text: string, rows: number][] =>
  [...counts].toSorted(([, a], [, b]) => b - a)

/** Why rows are missing: `12 of 5,000 rows are missing (9: is marked as dead by its source; 3: type is required)`. */
function missingSentence(read: number, reasons: ReadonlyMap<string, number>): string | null {
  const missing = reasons.values().reduce((sum, rows) => sum + rows, 0)
  if (missing === 0) return null
  const shown = mostFirst(reasons).slice(0, REASONS_SHOWN)
  const rest = shown.reduce((left, [, rows]) => left - rows, missing)
  if (rest > 0) shown.push(['other reasons', rest])
  const parts = shown.map(([reason, rows]) => `${formatCount(rows)}: ${reason}`)
  const verb = missing === 1 ? 'is' : 'are'
  return `${formatCount(missing)} of ${several(read, 'row')} ${verb} missing (${parts.join('; ')})`
}

/** Guesses the type from the name of a file or its folder: `socks5.txt`, `socks4/data.txt`. */
function typeOfName(name: string): ProxyType | undefined {
  const path = name.replace(/^\w+:\/\/[^/]*/, '').replace(/[?#].*/s, '')
  for (const part of path.split(/[/\\]/).slice(-2).reverse()) {
    const words = part.split(/[^\p{L}\p{N}]+/u).map(typeOfWord)
    const types = new Set(words.filter(type => type !== undefined))
    if (types.size === 1) return [...types][0]
  }
  return undefined
}

/** Reads the rows of all sources and passes the good ones to `add`. */
function createRowReader(
  names: Names,
  { defaults: given, fallbackType, strict }: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: Omit<ImportObserver, 'progress'> & { progress(rows: number): void },
) {
  const translators = new Map<string, Translator>()
  const ignored = new Set<string>()
  const reasons = new Map<string, number>()
  const unread = new Map<string, number>()
  /** The values of each field that are named. */
  const valuesOf = new Map<string, Set<string>>()
  const notes = new Set<string>()
  const totals = { read: 0, rejected: 0, skipped: 0 }
  let source: Source = { name: '', bytes: (async function* () {})() }
  /** Why rows of this source are missing. */
  let ofSource = new Map<string, number>()
  /** Whether every address of the source may be one that was masked. */
  let isMasked = true
  let typeFromName: ProxyType | undefined
  let own: Defaults = given
  /** For rows of which the unit of their ping is not certain. */
  let foreign: Defaults = given
  /** Members of the previous row: most rows have the same, and need no look-up. */
  let members: string[] | null = null
  let wasListed = false
  let translator: Translator = { translate: null, unknown: [], isRecord: false }

  function hasOtherMembers(row: RawRow, isListed: boolean): boolean {
    if (members === null || isListed !== wasListed) return true
    let at = 0
    for (const member in row) if (members[at++] !== member) return true
    return at !== members.length
  }

  function takeMembers(line: number, row: RawRow, isListed: boolean): void {
    members = Object.keys(row)
    wasListed = isListed
    const key = `${isListed} ${JSON.stringify(members)}`
    translator = translators.get(key) ?? createTranslator(members, row, isListed, names)
    const isUsual = key.length < MEMBERS_LENGTH_MAX && translators.size < TRANSLATORS_MAX
    if (isUsual) translators.set(key, translator)
    for (const member of translator.unknown) {
      if (ignored.has(member) || ignored.size === IGNORED_MAX) continue
      observer.ignored(source.name, line, member)
      ignored.add(member)
    }
  }

  function miss(kind: 'rejected' | 'skipped', reason: string): void {
    totals.read += 1
    totals[kind] += 1
    count(reasons, reason)
    count(ofSource, reason)
  }

  function reject(line: number, givenField: string, reason: string): void {
    const field = printable(givenField.slice(0, SHOWN_MAX)) // a source may have made it up
    miss('rejected', `${field} ${reason}`)
    if (strict) throw new CommandError(`${source.name}:${line}: ${field} ${reason}`)
    observer.rejected(source.name, line, field, reason)
  }

  /** Reports a value that no reader accepts. A strict import rejects its row. */
  function noteUnread(field: string, value: unknown, accepts: string): void {
    const text = typeof value === 'object' ? '' : printable(String(value).slice(0, SHOWN_MAX))
    const shown = text === '' || mayBeKey(text) ? 'a value' : `'${text}'`
    const reason = `${shown} is not understood: it must be ${accepts}`
    if (strict) rejectRow(field, reason)
    const name = printable(field.slice(0, SHOWN_MAX))
    const values = (valuesOf.get(name) ?? new Set()).add(reason)
    valuesOf.set(name, values)
    const isNamed = values.size <= VALUES_MAX || !values.delete(reason)
    count(unread, isNamed ? `${name} ${reason}` : `${name}: other values are not understood`)
  }

  function accept(line: number, proxy: IncomingProxy): void {
    if (source.isPublic && isInternal(proxy.ip)) return reject(line, 'ip', PRIVATE)
    if (proxy.isTypeAssumed && typeFromName !== undefined) {
      notes.add(`the type ${typeFromName} is taken from the name ${source.name}`)
    }
    totals.read += 1
    isMasked &&= proxy.ip.endsWith(MASKED)
    add(proxy)
    observer.progress(totals.read)
  }

  function take(line: number, given: RawRow, context: Context | undefined, isTable: boolean): void {
    const row = withAddressNotes(given)
    const isListed = context?.listedAs !== undefined
    if (hasOtherMembers(row, isListed)) takeMembers(line, row, isListed)
    const { translate, isRecord } = translator
    const isForeign = translate !== null || (isTable && !isRecord)
    const result = readRow(row, isForeign ? foreign : own, context, translate, noteUnread)
    if (result.kind === 'good') accept(line, result.proxy)
    else if (result.kind === 'skipped') miss('skipped', result.reason)
    else reject(line, result.field, result.reason)
  }

  return {
    counts: totals,
    mainReason: () => mostFirst(ofSource)[0],
    isMasked: () => isMasked,
    start(next: Source): void {
      source = next
      isMasked = true
      ofSource = new Map()
      members = null
      typeFromName = given.type === undefined ? typeOfName(source.name) : undefined
      const type = given.type ?? typeFromName ?? fallbackType
      own = { ...given, type, atMs: Math.min(source.atMs ?? given.nowMs, given.nowMs) }
      foreign = { ...own, pingUnit: given.pingUnit ?? 'own' }
    },
    /** Where the reader of a file puts what it finds. */
    sinkOf: (format: string): RowSink => ({
      row: (line, row, context) => take(line, row, context, format === 'csv'),
      bad: reject,
    }),
    totals(): Totals {
      const unreadNotes = mostFirst(unread).map(
        ([note, rows]) => `${note} (${several(rows, 'row')})`,
      )
      const missing = missingSentence(totals.read, reasons)
      return { ...totals, missing, notes: [...notes, ...unreadNotes] }
    },
  }
}

/**
 * Reads all sources and passes every good row to `add`. Bad rows are reported and skipped.
 * @throws CommandError when a source is of no known format, when all of its rows are bad or its addresses
 *   masked, when no row has a column that is mapped, or with `strict` at the first bad row. The caller then
 *   undoes what `add` did.
 */
export async function importSources(
  sources: readonly Source[],
  options: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: ImportObserver,
): Promise<Totals> {
  const names = createNames(options.defaults.provider, options.mapping)
  let bytes = 0
  /** Good rows of the chunk that has the first of them: only for these is it worth to lock the list. */
  const waiting: IncomingProxy[] = []
  let isReady = false
  const rows = createRowReader(
    names,
    options,
    proxy => (isReady ? add(proxy) : waiting.push(proxy)),
    { ...observer, progress: read => observer.progress(read, bytes) },
  )
  const { counts } = rows
  const { signal = new AbortController().signal } = options

  /** Passes the bytes of a source on and counts them. */
  async function* counting(given: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const chunk of chunksUntilAborted(given, signal)) {
      bytes += chunk.length
      yield chunk
    }
  }

  async function getReady(): Promise<void> {
    if (isReady) return
    await options.beforeRows?.()
    isReady = true
    for (const proxy of waiting.splice(0)) add(proxy)
  }

  async function drained(): Promise<void> {
    if (waiting.length > 0) await getReady()
    await options.drained?.()
  }

  async function readSource({ name, bytes: given, isOptional }: Source): Promise<void> {
    try {
      const text = textOf(counting(given), options.bytesMax)
      const { head, isComplete, all } = await peek(withLineFeeds(text))
      const { format: asked } = options
      const format = asked === 'auto' ? detectFormat(head, isComplete, names) : asked
      await READERS[format](paced(all, drained, signal), rows.sinkOf(format), names)
      await drained()
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error
      if (isOptional && error instanceof NoList) return observer.refused?.(name, error.message)
      throw new CommandError(`${name}: ${error.message}; nothing was imported`)
    }
  }

  for (const source of sources) {
    const { name } = source
    const before = { ...counts }
    rows.start(source)
    await readSource(source)
    const read = counts.read - before.read
    const [reason = '', missing = 0] = rows.mainReason() ?? []
    const lost = counts.rejected + counts.skipped - before.rejected - before.skipped
    if (read > 0 && lost === read) {
      const share = `${formatCount(missing)} of ${formatCount(read)}`
      throw new CommandError(
        `${name}: no row is usable, ${share} because ${reason}; nothing was imported`,
      )
    }
    if (read > 0 && rows.isMasked()) {
      throw new CommandError(
        `${name}: every address ends in ${MASKED}: these are masked, as proxylist does for the key demo; ` +
          'a key of your own shows whole ones; nothing was imported',
      )
    }
    if (read > 0) continue
    if (options.refuseEmpty) {
      throw new CommandError(
        `${name} holds no row, and would remove the whole list; nothing was imported ` +
          '(--allow-empty if that is meant)',
      )
    }
    observer.empty?.(name)
  }
  if (counts.read > 0) names.requireUsed()
  await getReady()
  return rows.totals()
}
