/** `list`: prints the API's answer to a query, without key or limits. */
import { ApiError } from '../../api/errors.ts'
import { createParamsParser } from '../../api/query.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { CommandError, nextTurn } from '../../lib/errors.ts'
import { splitQueryString } from '../../lib/query-string.ts'
import { formatInstant } from '../../lib/time.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { type ReadableList, storesOf } from '../../stores.ts'
import { command, createStdoutWriter, DATA_SETTINGS } from '../command.ts'

/** Records between two turns of the event loop; their text is written at once. */
const CHUNK_RECORDS = 4096

export const listCommand = command({
  name: 'list',
  summary: 'answer a query string of the API, without key or limits',
  arguments: '[query]',
  settings: [...DATA_SETTINGS, 'providerService'],
  example: "proxylist list 'type=socks5&country=de&get=json'",
  kept: 'nothing was changed',
  async run({ settings, args: [text = ''], clock, signal }) {
    const { providerService: provider } = settings
    const query = parse(text.replace(/^\?/, ''), provider)
    const answer = { query, nowMs: clock(), provider, mayBeEmpty: false }
    await storesOf(settings, clock).readList(list => printAnswer(list, answer, signal))
  },
})

type Answer = { query: Parsed; nowMs: number; provider: string; mayBeEmpty: boolean }

/** Writes the API's answer to stdout. @throws CommandError when nothing matches, unless it may be empty. */
export async function printAnswer(
  list: Omit<ReadableList, 'breakdown'>,
  { query: { filter, output }, nowMs, provider, mayBeEmpty }: Answer,
  signal: AbortSignal,
): Promise<void> {
  async function collect<R>(pages: Iterable<readonly R[]>): Promise<R[]> {
    const rows: R[] = []
    for (const page of pages) {
      for (const row of page) rows.push(row)
      await nextTurn(signal)
    }
    if (rows.length === 0 && !mayBeEmpty) throw new CommandError('no proxies match the filters')
    return rows
  }
  const writers = createWriters(provider)
  if (output.kind === 'txt') {
    const rows = await collect(list.endpointPages(filter, nowMs))
    return write(writers.txt(filter, output), rows, nowMs, signal)
  }
  const rows = await collect(list.pages(filter, nowMs))
  const kept = { cityNames: list.cityNames, areKept: false }
  return write(writers.records(filter, output, rows.length, kept), rows, nowMs, signal)
}

/** Writes an answer to stdout chunk by chunk, until that is closed. */
async function write<R extends EndpointRow>(
  { head, record, separator, tail }: Writer<R>,
  rows: readonly R[],
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const writeChunk = createStdoutWriter(signal)
  let text = head.join(formatInstant(nowMs))
  if (rows.length === 0) await writeChunk(encodeByteText(text + tail))
  for (let at = 0; at < rows.length; at += CHUNK_RECORDS) {
    const records = rows.slice(at, at + CHUNK_RECORDS).map(record)
    text += (at === 0 ? '' : separator) + records.join(separator)
    const isLast = at + CHUNK_RECORDS >= rows.length
    if (!(await writeChunk(encodeByteText(isLast ? text + tail : text)))) return
    await nextTurn(signal)
    text = ''
  }
}

type Parsed = ReturnType<typeof parse>
function parse(text: string, provider: string) {
  try {
    return createParamsParser(provider)(splitQueryString(text))
  } catch (error) {
    throw error instanceof ApiError ? new CommandError(error.message, 2) : error
  }
}
