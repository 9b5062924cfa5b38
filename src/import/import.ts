/**
 * An import from end to end: files in, proxies and rejected rows out. The caller stores the
 * proxies, undoes that when an import fails, and shows progress and messages.
 */
import { createReadStream, type Stats } from 'node:fs'
import type { Awaitable } from '../lib/awaitable.ts'
import { counted } from '../lib/counted.ts'
import { CommandError, chunksUntilAborted, nextTurn } from '../lib/errors.ts'
import { bytesOfFile } from '../lib/files.ts'
import { printable } from '../lib/redact.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import type { ListSizes } from '../proxies/store.ts'
import {
  createMappingCheck,
  createNames,
  createTranslator,
  type Mapping,
  type Names,
  type Translator,
} from './columns.ts'
import { detectFormat, type Format, READERS } from './formats.ts'
import { type Chunks, type RowSink, textOf, UnusableFile, withLineFeeds } from './reader.ts'
import { type RawRow, type RowDefaults, readRow } from './row.ts'

/** A file, or any other source of bytes. `name` is for messages. */
export type Source = { name: string; bytes: AsyncIterable<Uint8Array> }

/** A file of any kind. One that is no longer regular at its turn is not read: a pipe would keep the list locked. */
export const sourceOfFile = (file: string, found: Stats): Source => ({
  name: file,
  bytes: found.isFile() ? bytesOfFile(file) : createReadStream(file),
})

export type ImportOptions = {
  format: Format | 'auto'
  defaults: RowDefaults
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
}

/** A list that an import replaces: one of fewer rows may shrink to any size. */
const GUARDED_ROWS_MIN = 100
/** A guarded list keeps at least this share of its rows. */
const KEPT_SHARE_MIN = 1 / 2

/** Why a list must not be replaced by one of this size, as a predicate; `null`: it may. */
export const shrinkProblem = ({ before, after }: ListSizes): string | null =>
  before >= GUARDED_ROWS_MIN && after < before * KEPT_SHARE_MIN
    ? `would shrink the list from ${counted(before)} rows to ${counted(after)}`
    : null

type Totals = { read: number; rejected: number }

/** Compressed bytes that are counted at a time, so that progress is seen in a file of one chunk. */
const COUNTED_BYTES = 16 * 1024

/** Passes bytes on and counts them, until `signal` is aborted: also while none come. */
async function* countedUntilAborted(
  bytes: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  for await (const chunk of chunksUntilAborted(bytes, signal)) {
    for (let at = 0; at < chunk.length; at += COUNTED_BYTES) {
      const part = chunk.subarray(at, at + COUNTED_BYTES)
      count(part.length)
      yield part
    }
  }
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

/** The translators of rows, one for each list of members that rows have. */
function createTranslators(names: Names, { provider, type }: RowDefaults) {
  const translators = new Map<string, Translator>()
  return (members: readonly string[]): Translator => {
    const key = JSON.stringify(members)
    const known = translators.get(key)
    if (known) return known
    const translator = createTranslator(members, names, provider, type)
    const isUsual = key.length < MEMBERS_LENGTH_MAX && translators.size < TRANSLATORS_MAX
    if (isUsual) translators.set(key, translator)
    return translator
  }
}
/** Rows of a file have few different lists of members; one that has many must not fill memory. */
const TRANSLATORS_MAX = 1000
const MEMBERS_LENGTH_MAX = 4096
/** Most columns or members of a row. */
const MEMBERS_MAX = 1000
const TOO_MANY_MEMBERS = `has more than ${MEMBERS_MAX} members`
/** Most members that are reported as ignored. */
const IGNORED_MAX = 1000

/** Most characters that are shown of the name of a field. */
const FIELD_LENGTH_MAX = 40

/** How the addresses end that the key demo shows (contract B4). */
const MASKED = '.0.0'

/** Reads rows, under whatever names, and passes on the good ones. */
function createRowReader(
  names: Names,
  { defaults, strict, mapping }: ImportOptions,
  add: (proxy: IncomingProxy) => void,
  observer: Omit<ImportObserver, 'progress'> & { progress(rows: number): void },
) {
  const translatorOf = createTranslators(names, defaults)
  const mappingCheck = createMappingCheck(mapping)
  /** For rows of which nobody knows the unit of their ping. */
  const foreign: RowDefaults = { ...defaults, pingUnit: defaults.pingUnit ?? 'unknown' }
  const ignored = new Set<string>()
  /** Why the first row of a source was rejected, and how many rows were for that. */
  let refusal = { reason: '', rows: 0 }
  /** Whether every address of a source may be one that was masked. */
  let isMasked = true
  const totals: Totals = { read: 0, rejected: 0 }
  /** The members of the row before: rows mostly have the same, which need no look-up. */
  let members: string[] = []
  let { translate, isRecord }: Pick<Translator, 'translate' | 'isRecord'> = translatorOf([])

  function hasOtherMembers(row: RawRow): boolean {
    let at = 0
    for (const member in row) if (members[at++] !== member) return true
    return at !== members.length
  }

  function takeMembers(file: string, line: number, given: string[]): void {
    members = given
    mappingCheck.saw(members)
    const translator = translatorOf(members)
    ;({ translate, isRecord } = translator)
    for (const member of translator.unknown) {
      if (ignored.has(member) || ignored.size === IGNORED_MAX) continue
      observer.ignored(file, line, member)
      ignored.add(member)
    }
  }

  function bad(file: string, line: number, given: string, reason: string): void {
    const field = printable(given.slice(0, FIELD_LENGTH_MAX)) // may be a name that the source made up
    totals.read += 1
    totals.rejected += 1
    const sentence = `${field} ${reason}`
    if (refusal.rows === 0) refusal.reason = sentence
    if (refusal.reason === sentence) refusal.rows += 1
    if (strict) throw new CommandError(`${file}:${line}: ${sentence}`)
    observer.rejected(file, line, field, reason)
  }

  return {
    totals,
    checkMapping: mappingCheck.check,
    refusal: () => refusal,
    isMasked: () => isMasked,
    startSource(): void {
      isMasked = true
      refusal = { reason: '', rows: 0 }
    },
    /** Where the reader of a file puts what it finds. */
    sinkOf: (file: string, format: Format): RowSink => ({
      row(line, row, listedAs) {
        if (hasOtherMembers(row)) {
          const given = Object.keys(row)
          if (given.length > MEMBERS_MAX) return bad(file, line, 'row', TOO_MANY_MEMBERS)
          takeMembers(file, line, given)
        }
        const isForeign = translate !== null || (format === 'csv' && !isRecord)
        const result = readRow(row, isForeign ? foreign : defaults, listedAs, translate)
        if (!result.ok) return bad(file, line, result.field, result.reason)
        totals.read += 1
        isMasked &&= result.proxy.ip.endsWith(MASKED)
        add(result.proxy)
        observer.progress(totals.read)
      },
      bad: (line, field, reason) => bad(file, line, field, reason),
    }),
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
  const count = (more: number): void => {
    bytes += more
  }
  /** Good rows of the chunk that has the first of them: only for these is it worth to lock the list. */
  const waiting: IncomingProxy[] = []
  let isReady = false
  const rows = createRowReader(
    names,
    options,
    proxy => (isReady ? add(proxy) : waiting.push(proxy)),
    { ...observer, progress: read => observer.progress(read, bytes) },
  )
  const { totals } = rows
  const { signal = new AbortController().signal } = options

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

  async function readSource({ name, bytes: given }: Source): Promise<void> {
    try {
      const { head, isComplete, all } = await withLineFeeds(
        textOf(countedUntilAborted(given, count, signal), options.bytesMax),
      )
      const { format: asked } = options
      const format = asked === 'auto' ? detectFormat(head, isComplete, names) : asked
      await READERS[format](paced(all, drained, signal), rows.sinkOf(name, format), names)
      await drained()
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error
      throw new CommandError(`${name}: ${error.message}; nothing was imported`)
    }
  }

  for (const source of sources) {
    const { name } = source
    const before = { ...totals }
    rows.startSource()
    await readSource(source)
    const read = totals.read - before.read
    if (read > 0 && totals.rejected - before.rejected === read) {
      const { reason, rows: refused } = rows.refusal()
      const share = `${counted(refused)} of ${counted(read)}`
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
  rows.checkMapping()
  await getReady()
  return totals
}
