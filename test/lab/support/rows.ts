/**
 * The generated proxies: the same in every run, except for their check times, which are
 * relative to the moment they are written.
 */
import { createRandom, pick } from '../../support/random.ts'

export const TYPES = ['http', 'https', 'socks4', 'socks5'] as const
export const ANONS = ['transparent', 'anonymous', 'elite'] as const

/** Check times are up to this old. */
const AGE_MAX_SECONDS = 590
/** Length of text that is written at once. */
const CHUNK_LENGTH = 1 << 20

/** The commonest first; the first ten hold about half of the proxies. */
export const COUNTRIES = (
  'US CN ID BR RU DE IN FR SG VN TH GB UA NL CA JP KR TR MX CO AR PL IT ES BD IR PK EG ZA PH ' +
  'MY HK TW KZ CZ RO BG HU SE FI NO DK AT CH BE PT GR RS LT LV EE MD GE AM AZ UZ KE NG PE CL'
).split(' ')
const PORTS = [8080, 3128, 80, 1080, 8888, 4145, 5678, 999, 1081, 8081, 9050, 7891]
const CITIES_PER_COUNTRY = 12

export const cityOf = (country: string, n: number): string => `Город ${country} ${n}`
export const cityEnOf = (country: string, n: number): string => `City ${country} ${n}`

/** The `n`-th address; different for every n below 2^24, and one that an import accepts. */
export function addressOf(n: number): string {
  const mixed = Math.imul(n, 0x9e3779b1) & 0xffffff // the factor is odd: each n gives another
  const port = PORTS[n % PORTS.length] ?? 8080
  return `${11 + (n % 150)}.${mixed >>> 16}.${(mixed >>> 8) & 255}.${mixed & 255}:${port}`
}

/** The `n`-th row without its check time, and the age of its check in seconds. */
function rowOf(n: number, ip = addressOf(n)) {
  const random = createRandom(n) // of its own: a row is the same in every order
  const country = pick(() => random() ** 2.2, COUNTRIES)
  const city = Math.floor(random() * CITIES_PER_COUNTRY)
  const anon = random()
  const row = {
    ip,
    ip_out: random() < 0.7 ? addressOf(n).replace(/:.*/, '') : '',
    type: pick(random, TYPES),
    anon: anon < 0.05 ? '' : pick(() => anon ** 0.5, ANONS),
    speed: Math.round(10_000 * 500 ** random()),
    ping: Math.round(50 * 60 ** random()) / 1000,
    country,
    city: cityOf(country, city),
    city_en: random() < 0.9 ? cityEnOf(country, city) : '',
    works: String(50 + Math.floor(random() * 51)),
    smtp: random() < 0.1,
    telegram: random() < 0.6,
    avito: random() < 0.4,
    google: random() < 0.3,
    'the service': random() < 0.2,
  }
  return { row, age: Math.floor(random() * (AGE_MAX_SECONDS + 1)) }
}

/** A file of rows. */
export type RowFile = {
  rows: number
  /**
   * The time that checks are relative to. With `null` the rows have no check time, and an import
   * takes the current one: importing such a file again updates every row.
   */
  nowMs: number | null
  /** By default random; `sorted` is the order of addresses. */
  order?: 'random' | 'sorted'
  /** Where the n-th proxy is, if not at `addressOf(n)`. */
  at?: (n: number) => string
  /** By default NDJSON. */
  format?: 'ndjson' | 'csv'
}

/** The numbers of rows in the order of their addresses, or in a random one. */
function numbersOf({ rows, order = 'random' }: RowFile): Uint32Array {
  const random = createRandom(1)
  const addressNumber = (n: number): number =>
    addressOf(n)
      .split(/[.:]/)
      .reduce((bits, part, i) => bits * (i === 4 ? 65_536 : 256) + Number(part), 0)
  const keys = Float64Array.from({ length: rows }, (_, n) =>
    order === 'sorted' ? addressNumber(n) : random(),
  )
  return Uint32Array.from(keys.keys()).sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0))
}

/** The text of a row; that of CSV needs no quotes. */
const LINE = {
  ndjson: (row: object): string => JSON.stringify(row),
  csv: (row: object): string => Object.values(row).join(','),
}

const columnsOf = (nowMs: number | null): string[] => [
  ...Object.keys(rowOf(0).row),
  ...(nowMs === null ? [] : ['checked_at']),
]

/** Writes a file of rows. */
export async function writeRows(file: string, form: RowFile): Promise<void> {
  const { nowMs, format = 'ndjson', at } = form
  const writer = Bun.file(file).writer({ highWaterMark: 2 * CHUNK_LENGTH })
  let chunk = format === 'csv' ? `${columnsOf(nowMs).join(',')}\n` : ''
  for (const n of numbersOf(form)) {
    const { row, age } = rowOf(n, at?.(n))
    const timed = nowMs === null ? row : { ...row, checked_at: Math.floor(nowMs / 1000) - age }
    chunk += `${LINE[format](timed)}\n`
    if (chunk.length < CHUNK_LENGTH) continue
    writer.write(chunk)
    await writer.flush()
    chunk = ''
  }
  writer.write(chunk)
  await writer.end()
}
