/**
 * The names of cities: ids for rows, names for answers, and ids for the names in a filter. A list may have a
 * name for each row, so names are read one by one, and the last ones are kept.
 */
import type { Database } from 'bun:sqlite'
import { createFifoMap } from '../../lib/bounded-map.ts'
import { type Bound, type Condition, fold, isIn } from '../../proxies/filter.ts'
import type { Lang } from '../../proxies/proxy.ts'
import { AT, type City, type CityName, type Row } from '../../proxies/row.ts'

const UNKNOWN_CITY: CityName = { name: '', nameEn: '' }

/** Names in memory: a million proxies have some ten thousand; the longest ones take a kilobyte each. */
const NAMES_MAX = 16_384
/** Ids in one statement, and rows decided by name. Names that are compared alike can be as many as rows. */
const IDS_MAX = 1_000

const WANTED = '(select value from json_each(?))'
/** Whether a city has a wanted name, see `fold`: one of both, or the one that `lang=en` shows (contract A4). */
const MATCHES: { readonly [L in Lang]: string } = {
  ru: `(folded in ${WANTED} or folded_en in ${WANTED})`,
  en: `(folded_en in ${WANTED} or name_en = '' and folded in ${WANTED})`,
}

const UNUSED = `not exists
  (select 1 from proxies indexed by proxies_by_city where proxies.city = cities.id)`

/** Returns a function that stores names, under the next id when that is `null`, and returns their id. */
export function createCityWriter(db: Database) {
  // In a copy, a name may come again under another id: it had no row any more, and was removed.
  const insert = db.prepare<never, [number | null, string, string, string, string]>(
    'insert or replace into cities values (?, ?, ?, ?, ?)',
  )
  return (id: number | null, { name, nameEn }: CityName): number =>
    Number(insert.run(id, name, nameEn, fold(name), fold(nameEn)).lastInsertRowid)
}

/** Those that a filter names: their ids, `null` for too many; and whether a row is in one of them. */
export type NamedCities = { ids: readonly number[] | null; condition: Condition }

export function createCities(db: Database, namesMax = NAMES_MAX) {
  const names = createFifoMap<number, CityName>(namesMax)
  /** By the English name, or the only one. */
  const cities = createFifoMap<string, City>(namesMax)
  const nameById = db.prepare<CityName, [number]>(
    'select name, name_en as nameEn from cities where id = ?',
  )
  const idByName = db.prepare<{ id: number }, [string, string]>(
    'select id from cities where name = ? and name_en = ?',
  )
  const matching = (lang: Lang) =>
    db.prepare<{ id: number }, Bound[]>(`select id from cities where ${MATCHES[lang]}`)
  const idsMatching = { ru: matching('ru'), en: matching('en') }
  /** Whether more have a name in any language: `lang` may show few of them, or none, and all would be read. */
  const areMore = db.prepare(`select 1 from cities where ${MATCHES.ru} limit 1 offset ${IDS_MAX}`)
  const rowOf = db.prepare(
    'select 1 from proxies indexed by proxies_by_city where city = ? limit 1',
  )
  const write = createCityWriter(db)

  function nameOf(id: number): CityName {
    const known = id === 0 ? UNKNOWN_CITY : names.get(id)
    if (known !== undefined) return known
    const name = nameById.get(id)
    if (name !== null) names.set(id, name)
    return name ?? UNKNOWN_CITY
  }

  /** Compares the names of each row; of many rows, their ids with all that match. */
  function byName(wanted: ReadonlySet<string>, lang: Lang, values: readonly Bound[]): Condition {
    const shown = ({ name, nameEn }: CityName) =>
      lang === 'en' ? [nameEn || name] : [name, nameEn]
    function matcher() {
      let few = IDS_MAX
      let all: ReadonlySet<number> | null = null
      return (row: Row): boolean => {
        if (few-- > 0) return shown(nameOf(row[AT.city])).some(name => wanted.has(fold(name)))
        all ??= new Set(idsMatching[lang].all(...values).map(({ id }) => id))
        return all.has(row[AT.city])
      }
    }
    return { sql: `(select ${MATCHES[lang]} from cities where id = city)`, values, matcher }
  }

  function named(searched: readonly string[], lang: Lang): NamedCities {
    const wanted = new Set(searched.map(fold).filter(name => name !== '')) // '': of accents alone
    if (wanted.size === 0) return { ids: [], condition: isIn('city', []) }
    const values = new Array<string>(2).fill(JSON.stringify([...wanted]))
    if (areMore.get(...values)) return { ids: null, condition: byName(wanted, lang, values) }
    const rows = idsMatching[lang].all(...values)
    const ids = rows.map(({ id }) => id).sort((a, b) => a - b)
    return { ids, condition: isIn('city', ids) }
  }

  return {
    nameOf,

    /** The cities that have one of these names in `lang`. */
    named,

    /** Whether any row is in one of these cities; also where they are too many to be looked up. */
    hasRows(searched: readonly string[], lang: Lang): boolean {
      const { ids } = named(searched, lang)
      return ids === null || ids.some(id => rowOf.get(id) !== null)
    },

    /** The id of a pair of names; stores a new pair. Call inside a transaction. */
    idOf(name: string, nameEn: string): number {
      if (name === '' && nameEn === '') return 0
      const known = cities.get(nameEn || name)
      if (known?.name === name && known.nameEn === nameEn) return known.id
      const id = idByName.get(name, nameEn)?.id ?? write(null, { name, nameEn })
      const city = { id, name, nameEn }
      cities.set(nameEn || name, city)
      names.set(id, city)
      return id
    },

    lastId: (): number =>
      db.query<{ id: number }, []>('select coalesce(max(id), 0) as id from cities').get()?.id ?? 0,

    /** Removes the names that no row has, of ids after this one. */
    removeUnused: (after = 0): void =>
      void db.run(`delete from cities where id > ? and ${UNUSED}`, [after]),
  }
}

export type Cities = ReturnType<typeof createCities>
