/** `list`: prints the API's answer to a query, without key or limits. */

import { ApiError } from '../../api/errors.ts'
import { createParamsParser } from '../../api/query.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { CommandError, nextTurn } from '../../lib/errors.ts'
import { splitQueryString } from '../../lib/query-string.ts'
import { formatInstant } from '../../lib/time.ts'
import type { CityNames, EndpointRow, Row } from '../../proxies/row.ts'
import { type ReadableList, storesOf } from '../../stores.ts'
import { command, createStdoutWriter, DATA_SETTINGS, say } from '../command.ts'

/** Records between two turns of the event loop; their text is written at once. */
const CHUNK_RECORDS = 4096

export const listCommand = command({
  name: 'list',
  summary: 'answer a query string of the API, without key or limits',
  arguments: '[query]',
  settings: [...DATA_SETTINGS, 'providerService'],
  example: "proxylist list 'type=socks5&country=de&get=json'",
  async run({ settings, args: [text = ''], clock, signal }) {
    const { providerService } = settings
    const query = parse(text.replace(/^\?/, ''), providerService)
    const { filter, output } = query
    const nowMs = clock()
    const print = async (list: ReadableList): Promise<void> => {
      if (output.kind === 'txt') {
        const rows = await collect(list.endpointPages(filter, nowMs), signal)
        return write(createWriters(providerService).txt(output), rows, nowMs, signal)
      }
      const rows = await collect(list.pages(filter, nowMs), signal)
      const { cityNames } = list
      await writeAnswer({ query, rows, cityNames, nowMs, provider: providerService }, signal)
    }
    await storesOf(settings, clock).readList(print, say)
  },
})

/** The rows of all pages. @throws CommandError when there are none, or the reason of `signal`. */
async function collect<R>(pages: Iterable<readonly R[]>, signal: AbortSignal): Promise<R[]> {
  const rows: R[] = []
  for (const page of pages) {
    for (const row of page) rows.push(row)
    await nextTurn(signal)
  }
  if (rows.length === 0) throw new CommandError('no proxies match the filters')
  return rows
}

/** An answer of whole records that were found elsewhere. */
type Answer = {
  query: Parsed
  rows: readonly Row[]
  cityNames: CityNames
  nowMs: number
  provider: string
}

/** Writes an answer to stdout. */
export function writeAnswer(
  { query: { filter, output }, rows, cityNames, nowMs, provider }: Answer,
  signal: AbortSignal,
): Promise<void> {
  const writers = createWriters(provider)
  if (output.kind === 'txt') return write(writers.txt(output), rows, nowMs, signal)
  const writer = writers.records(filter, output, rows.length, { cityNames, areKept: false })
  return write(writer, rows, nowMs, signal)
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
