/**
 * Owns the text of one proxy, as a line of a list or an element of a JSON array holds it: an
 * address, and perhaps a type, a country and a level of anonymity. Pure.
 */
import { anonWord, type RawRow, typeWord } from './values.ts'

const ENTRY = /^(?:([^:/]*):\/\/)?(.*?)\/?$/s
/** An address with `:` or white space before its port, and what follows. */
const ADDRESS = /^(\d[\d.]*)(?::|\s+)(\d{1,5})(?:[:\s]+(.*))?$/s
/** The notes of spys.me: country, level, whether the outgoing address differs (!), TLS, Google. */
const SPYS = /^([A-Z]{2})-([NAH])!?(-S)?!?(?:\s+([+-]))?$/
const SPYS_ANON: { readonly [level: string]: string } = {
  N: 'transparent',
  A: 'anonymous',
  H: 'elite',
}

/** Whether a text may be a proxy: it holds an address with a port, perhaps with credentials. */
export const hasAddress = (text: string): boolean =>
  /(?:^|\/\/|@)(?:\d{1,3}\.){3}\d{1,3}(?::|\s+)\d{1,5}(?!\d)/.test(text)

/** The row of an entry. One that is not understood becomes an address, which will be rejected. */
export function entryToRow(entry: string): RawRow {
  const [, type, rest = ''] = ENTRY.exec(entry) ?? []
  const isPlain = rest.indexOf(':') === rest.lastIndexOf(':') && !/\s/.test(rest)
  if (isPlain) return type === undefined ? { ip: rest } : { type, ip: rest } // as nearly all are
  return type === undefined ? noted(rest) : { type, ...noted(rest) }
}

/** The row of an address with notes. */
function noted(rest: string): RawRow {
  const [, ip, port, notes = ''] = ADDRESS.exec(rest) ?? []
  if (ip === undefined) return { ip: rest }
  const address = { ip: `${ip}:${port}` }
  const [, country, level, ssl, google] = SPYS.exec(notes) ?? []
  if (level !== undefined) {
    return {
      ...address,
      ...{ country, anon: SPYS_ANON[level], ssl: ssl !== undefined },
      ...(google !== undefined && { google: google === '+' }),
    }
  }
  const row: { [member: string]: string } = address
  for (const note of notes.split(/[:\s]+/).filter(word => word !== '')) {
    const member = memberOf(note)
    if (member === null || row[member] !== undefined) return { ip: rest }
    row[member] = note
  }
  return row
}

/** What a word beside an address says. */
function memberOf(word: string): string | null {
  if (typeWord(word) !== undefined) return 'type'
  if (/^[A-Za-z]{2}$/.test(word)) return 'country'
  return anonWord(word) === undefined ? null : 'anon'
}
