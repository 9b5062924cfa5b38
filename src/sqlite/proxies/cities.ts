/**
 * The names of cities: ids for rows, names for answers, and ids for the names in a filter. A list may have a
 * name for each row, so names are read one by one into a bounded cache.
 */
import type { Database } from 'bun:sqlite'
import { createFifoMap } from '../../lib/bounded-map.ts'
import { type Condition, fold } from '../../proxies/filter.ts'
import type { Lang } from '../../proxies/proxy.ts'
import { AT, type CityName, NO_CITY, type Row } from '../../proxies/row.ts'

/** Names in memory: a million proxies have some ten thousand; the longest ones take a kilobyte each. */
const NAMES_MAX = 16_384

const WANTED = '(select value from json_each(?))'
/** Whether a city has a wanted name, see `fold`: any of both names, or the one that `lang=en` shows (contract A4). */
const MATCHES: { readonly [L in Lang]: string } = {
  ru: `(folded in ${WANTED} or folded_en in ${WANTED})`,
  en: `(folded_en in ${WANTED} or name_en = '' and folded in ${WANTED})`,
}

const UNUSED = `not exists
  (select 1 from proxies indexed by proxies_by_city where proxies.city = cities.id)`

/** The ids of the cities that a filter names, and whether a row is in one of them. */
export type NamedCities = { ids: readonly number[]; condition: Condition }

export function createCities(db: Database, namesMax = NAMES_MAX) {
  const names = createFifoMap<number, CityName>(namesMax)
  /** By the English name, or the only one. */
  const cities = createFifoMap<string, CityName & { id: number }>(namesMax)
  const nameById = db.prepare<CityName, [number]>(
    'select name, name_en as nameEn from cities where id = ?',
  )
  const idByName = db.prepare<{ id: number }, [string, string]>(
    'select id from cities where name = ? and name_en = ?',
  )
  const matching = (lang: Lang) =>
    db.prepare<{ id: number }, string[]>(`select id from cities where ${MATCHES[lang]} order by id`)
  const idsMatching = { ru: matching('ru'), en: matching('en') }
  const rowIn = db.prepare(
    `select 1 from proxies indexed by proxies_by_city where city in ${WANTED} limit 1`,
  )
  const insert = db.prepare<never, [string, string, string, string]>(
    'insert into cities values (null, ?, ?, ?, ?)',
  )

  function nameOf(id: number): CityName {
    const known = id === 0 ? NO_CITY : names.get(id)
    if (known !== undefined) return known
    const name = nameById.get(id)
    if (name !== null) names.set(id, name)
    return name ?? NO_CITY
  }

  /** The cities that have one of these names in `lang`. */
  function named(searched: readonly string[], lang: Lang): NamedCities {
    const wanted = searched.map(fold).filter(name => name !== '') // '': only accents
    const names = JSON.stringify(wanted)
    const ids = wanted.length === 0 ? [] : idsMatching[lang].all(names, names).map(({ id }) => id)
    function matcher() {
      const all = new Set(ids)
      return (row: Row): boolean => all.has(row[AT.city])
    }
    const condition = { sql: `city in ${WANTED}`, values: [JSON.stringify(ids)], matcher }
    return { ids, condition }
  }

  return {
    nameOf,

    named,

    /** Whether any row is in one of these cities. */
    hasRows: (searched: readonly string[], lang: Lang): boolean =>
      rowIn.get(JSON.stringify(named(searched, lang).ids)) !== null,

    /** The id of a pair of names; stores a new pair. Call inside a transaction. */
    idOf(name: string, nameEn: string): number {
      if (name === '' && nameEn === '') return 0
      const known = cities.get(nameEn || name)
      if (known?.name === name && known.nameEn === nameEn) return known.id
      const id =
        idByName.get(name, nameEn)?.id ??
        Number(insert.run(name, nameEn, fold(name), fold(nameEn)).lastInsertRowid)
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
