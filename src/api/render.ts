/**
 * Owns the written form of an answer (spec 2.1, 2.2, 4.1; contract A5–A7): rows and output options
 * to text. One record is in `record.ts`. Knows nothing of HTTP headers or of how the rows were
 * found.
 */
import type { Filter } from '../proxies/filter.ts'
import { addressText, TYPES } from '../proxies/proxy.ts'
import { AT, type EndpointRow, type Row } from '../proxies/row.ts'
import { addressOf, membersOf } from './members.ts'
import {
  createRecordWriters,
  csvHeader,
  depthOf,
  type FoundIn,
  indentOf,
  type Output,
  toByteText,
} from './record.ts'

export { memberNames } from './members.ts'
export { encodeByteText, OUTPUT_KINDS, type Output } from './record.ts'

type Value = string | number | boolean | null

/** The filters in effect, spelled so that they can be sent back as a query (contract A6). */
export function describeFilter(filter: Filter, provider: string): { [name: string]: Value } {
  const services = filter.services.map(name => (name === 'provider' ? provider : name))
  const list = (values: readonly string[]) => values.join(',').toLowerCase() || null
  const all: { [name: string]: Value } = {
    type: list(filter.types),
    anon: list(filter.anons),
    ping: filter.pingMaxMs,
    speed: filter.speedMin,
    time: filter.ageMaxSeconds,
    works: filter.worksMin,
    country: list(filter.countries),
    country_mode: filter.countries.length > 0 ? filter.countryMode : null,
    city: list(filter.cities),
    port: filter.port,
    ip: filter.address && addressText(filter.address),
    service: list(services),
    sort: filter.sort,
    count: filter.count,
    lang: filter.lang,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
}

/**
 * Writes the parts of one answer as byte text: `head` (in two chunks when the time goes between
 * them), the records with `separator` between them, and `tail`.
 */
export type Writer<R extends EndpointRow> = {
  head: readonly string[]
  record: (row: R) => string
  separator: string
  tail: string
}

/** Creates writers for one name of the provider's service. */
export function createWriters(provider: string) {
  const members = membersOf(provider)
  const recordWriter = createRecordWriters(members)

  /** The writer of a JSON document of `count` records. */
  function json(filter: Filter, output: Output, count: number, foundIn: FoundIn): Writer<Row> {
    const indent = indentOf(output)
    const depth = depthOf(output)
    const [open, close] = output.shape === 'array' ? '[]' : '{}'
    const list = {
      head: [count === 0 ? `${open}` : `${open}${indent(depth)}`],
      record: recordWriter(filter.lang, output, foundIn),
      separator: `,${indent(depth)}`,
      tail: count === 0 ? `${close}` : `${indent(depth - 1)}${close}`,
    }
    if (!output.wrap) return list
    const filters = JSON.stringify(describeFilter(filter, provider), null, output.pretty ? 2 : 0)
    const space = output.pretty ? ' ' : ''
    const member = (name: string): string => `${indent(1)}"${name}":${space}`
    const before = `{${member('status')}"ok",${member('count')}${count},${member('timestamp')}"`
    const nested = toByteText(filters.replaceAll('\n', indent(1)))
    const after = `",${member('filters')}${nested},${member('data')}${list.head}`
    return { ...list, head: [before, after], tail: `${list.tail}${indent(0)}}` }
  }

  /** The writer of an answer of `count` whole records. */
  function records(filter: Filter, output: Output, count: number, foundIn: FoundIn): Writer<Row> {
    if (output.kind === 'json') return json(filter, output, count, foundIn)
    const head = output.kind === 'csv' ? csvHeader(members, output) : ''
    const record = recordWriter(filter.lang, output, foundIn)
    return { head: [head], record, separator: '', tail: '' }
  }

  const txt = ({ hasTypePrefix }: Output): Writer<EndpointRow> => ({
    head: [''],
    record: hasTypePrefix
      ? row => `${TYPES[row[AT.type]] ?? 'http'}://${addressOf(row)}\n`
      : row => `${addressOf(row)}\n`,
    separator: '',
    tail: '',
  })

  return { records, txt }
}

/** The whole answer as byte text, in two chunks when the envelope's time goes between them. */
export function renderChunks<R extends EndpointRow>(
  { head, record, separator, tail }: Writer<R>,
  rows: readonly R[],
): readonly string[] {
  let text = head.at(-1) ?? ''
  let before = ''
  for (const row of rows) {
    text += before + record(row)
    before = separator
  }
  return [...head.slice(0, -1), text + tail]
}
