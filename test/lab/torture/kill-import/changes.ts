/**
 * The changes that killed imports make: for each a list to start from, and files that turn it
 * into one of two variants and back, so that every import has something to do.
 */
import { join } from 'node:path'
import { between, pick, randomOf } from '../../../support/random.ts'
import { ANONS, addressOf, COUNTRIES, cityEnOf, cityOf, TYPES } from '../../support/rows.ts'

/** One kind of import. Variant 1 of a `replace` has some other and some more rows. */
export type Change = {
  name: string
  /** Proxies that only a `replace` changes; without any the directory is missing too. */
  list: number
  /** Proxies in the files, together. */
  rows: number
  files: number
  replace: boolean
  /** Kills in a full run. */
  kills: number
}

/** From 20,000 rows and an eighth of the list, an import rebuilds the indexes. */
export const CHANGES: readonly Change[] = [
  { name: 'small merge', list: 1000, rows: 300, files: 1, replace: false, kills: 60 },
  { name: 'small replace', list: 1000, rows: 900, files: 1, replace: true, kills: 60 },
  { name: 'merge of 4 small files', list: 1000, rows: 800, files: 4, replace: false, kills: 40 },
  { name: 'replace by 4 small files', list: 1000, rows: 800, files: 4, replace: true, kills: 40 },
  { name: 'small first import', list: 0, rows: 500, files: 1, replace: false, kills: 36 },
  { name: 'large merge', list: 10_000, rows: 21_000, files: 1, replace: false, kills: 20 },
  { name: 'large replace', list: 10_000, rows: 21_000, files: 1, replace: true, kills: 20 },
  {
    name: 'replace by 3 large files',
    list: 5000,
    rows: 24_000,
    files: 3,
    replace: true,
    kills: 14,
  },
  { name: 'large first import', list: 0, rows: 25_000, files: 1, replace: false, kills: 10 },
  // More than fits SQLite's cache: the WAL grows long before the commit.
  { name: 'huge first import', list: 0, rows: 180_000, files: 1, replace: false, kills: 4 },
]

export type Variant = 0 | 1
/** The files of a change; `base` is `null` when there is no list to start from. */
export type ChangeFiles = { base: string | null; variants: readonly [string[], string[]] }

/** Rows by which the two variants of a replacement differ, as a share of their size. */
const SHIFT = 0.1

type Span = { from: number; to: number }

/** Every row has all members, and is as old in both variants: so the later import wins. */
function rowsOf({ from, to }: Span, random: () => number, name: string, nowMs: number): string {
  let text = ''
  for (let n = from; n < to; n += 1) {
    const country = pick(random, COUNTRIES)
    const city = between(random, 1, 20)
    const row = {
      ip: addressOf(n),
      ip_out: addressOf(n + 1).replace(/:.*/, ''),
      type: TYPES[n % TYPES.length],
      anon: pick(random, ANONS),
      speed: between(random, 1000, 1e6),
      ping: between(random, 1, 5000) / 1000,
      country,
      city: `${cityOf(country, city)} ${name}`,
      city_en: `${cityEnOf(country, city)} ${name}`,
      works: String(between(random, 0, 100)),
      smtp: random() < 0.5,
      telegram: random() < 0.5,
      avito: random() < 0.5,
      google: random() < 0.5,
      'the service': random() < 0.5,
      checked_at: Math.floor(nowMs / 1000) - (n % 600),
    }
    text += `${JSON.stringify(row)}\n`
  }
  return text
}

/** The rows of a variant, in as many parts as there are files. */
function spansOf({ rows, files, replace }: Change, variant: Variant): Span[] {
  const shift = replace ? Math.round(variant * rows * SHIFT) : 0
  const more = replace ? Math.round((variant * rows * SHIFT) / 2) : 0
  const at = (part: number): number => shift + Math.round((part * (rows + more)) / files)
  return Array.from({ length: files }, (_, part) => ({ from: at(part), to: at(part + 1) }))
}

/** Writes the files of a change, each row a line of JSON. */
export async function writeChange(
  dir: string,
  change: Change,
  seed: number,
  nowMs: number,
): Promise<ChangeFiles> {
  const random = randomOf(seed, `rows ${change.name}`)
  const write = async (name: string, span: Span): Promise<string> => {
    const file = join(dir, `${name}.ndjson`)
    await Bun.write(file, rowsOf(span, random, name, nowMs))
    return file
  }
  const writeVariant = async (variant: Variant): Promise<string[]> => {
    const files: string[] = []
    for (const span of spansOf(change, variant)) {
      files.push(await write(`variant-${variant}-${files.length + 1}`, span))
    }
    return files
  }
  const { list } = change
  const base = list === 0 ? null : await write('base', { from: 0, to: list })
  return { base, variants: [await writeVariant(0), await writeVariant(1)] }
}
