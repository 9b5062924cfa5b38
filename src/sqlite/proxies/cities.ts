/** The names of cities: ids for rows, names for answers, and ids for the names in a filter. */
import type { Database } from 'bun:sqlite'
import { fold } from '../../proxies/filter.ts'
import type { Lang } from '../../proxies/proxy.ts'
import type { CityName } from '../../proxies/row.ts'

const UNKNOWN_CITY: CityName = { name: '', nameEn: '' }

type CityRow = { id: number; name: string; name_en: string }

/** The names, in memory. Names of ids that are not in memory yet are read when they are needed. */
export function createCities(db: Database) {
  const names = new Map<number, CityName>()
  /** Ids by folded name: all names, and the ones that `lang=en` shows. */
  const matching: { [L in Lang]: Map<string, Set<number>> } = { ru: new Map(), en: new Map() }
  /** Ids by name, then by English name. */
  const ids = new Map<string, Map<string, number>>()
  const selectNew = db.prepare<CityRow, [number]>('select * from cities where id > ? order by id')
  const insert = db.prepare<never, [number, string, string]>('insert into cities values (?, ?, ?)')
  let lastId = 0

  const addMatch = (lang: Lang, name: string, id: number): void => {
    const found = matching[lang].get(fold(name)) ?? new Set()
    matching[lang].set(fold(name), found.add(id))
  }

  function learn(id: number, name: string, nameEn: string): void {
    names.set(id, { name, nameEn })
    const withName = ids.get(name)
    if (withName) withName.set(nameEn, id)
    else ids.set(name, new Map([[nameEn, id]]))
    addMatch('ru', name, id)
    addMatch('ru', nameEn, id)
    addMatch('en', nameEn || name, id)
    lastId = id
  }

  /** Reads what other connections, or a transaction of ours, have added. */
  function refresh(): void {
    for (const row of selectNew.all(lastId)) learn(row.id, row.name, row.name_en)
  }

  function nameOf(id: number): CityName {
    if (id === 0) return UNKNOWN_CITY
    if (!names.has(id)) refresh()
    return names.get(id) ?? UNKNOWN_CITY
  }

  return {
    refresh,
    nameOf,
    /** The ids of the cities that have one of these names in `lang` (contract A4). */
    idsMatching(searched: readonly string[], lang: Lang): number[] {
      const found = searched.flatMap(name => [...(matching[lang].get(fold(name)) ?? [])])
      return [...new Set(found)].sort((a, b) => a - b)
    },
    /** The id of a pair of names; stores a new pair. Call inside a transaction. */
    idOf(name: string, nameEn: string): number {
      if (name === '' && nameEn === '') return 0
      const known = ids.get(name)?.get(nameEn)
      if (known !== undefined) return known
      insert.run(lastId + 1, name, nameEn)
      learn(lastId + 1, name, nameEn)
      return lastId
    },
  }
}

export type Cities = ReturnType<typeof createCities>
