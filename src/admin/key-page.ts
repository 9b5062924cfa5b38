/** A page of the list of keys: search, order and pages. */
import { type KeySummary, keyState } from '../access/key.ts'
import { TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { nextTurn } from '../lib/errors.ts'
import { invalid, readQuery } from './route.ts'

export const PAGE_KEYS = 50

/** Keys that are read at once: about a millisecond of work. */
const SLICE = 500

/** Keys that never expire come last. */
const SORTS = {
  label: ({ label }: KeySummary) => label.toLowerCase(),
  expires: ({ expiresAt }: KeySummary) => expiresAt ?? Number.POSITIVE_INFINITY,
  today: ({ requestsToday }: KeySummary) => requestsToday,
} satisfies { readonly [sort: string]: (key: KeySummary) => string | number }
export type KeySort = keyof typeof SORTS
const isSort = (name: string): name is KeySort => Object.hasOwn(SORTS, name)

type KeyQuery = {
  /** In lower case. A key must contain each of them. */
  words: readonly string[]
  sort: KeySort
  isDescending: boolean
  /** Counted from 1. */
  page: number
}

const PARAMETERS = { search: '', sort: 'today', order: 'desc', page: '1' }

/** @throws AdminError for values that no parameter accepts */
export function readKeyQuery(url: string): KeyQuery {
  const given = { ...PARAMETERS, ...readQuery(url, Object.keys(PARAMETERS)) }
  const { search, sort, order, page } = given
  if (!/^[1-9]\d{0,8}$/.test(page)) throw invalid('page must be an integer of at least 1')
  if (!isSort(sort)) throw invalid(`sort must be one of ${Object.keys(SORTS).join(', ')}`)
  return {
    words: search.toLowerCase().split(/\s+/).filter(Boolean),
    ...{ isDescending: order === 'desc', sort, page: Number(page) },
  }
}

function isFound(key: KeySummary, { words }: KeyQuery, nowMs: number): boolean {
  const state = keyState(key, nowMs)
  const { id, prefix, label, note, plan } = key
  const text = `${id} ${prefix} ${label} ${note} ${plan ?? TEMP_PLAN} ${state}`.toLowerCase()
  return words.every(word => text.includes(word))
}

/** The ids of a page, and how many keys match. A page after the last one is the last one. */
export async function findKeys(keys: Registry['keys'], query: KeyQuery, nowMs: number) {
  const valueOf = SORTS[query.sort]
  const sign = query.isDescending ? -1 : 1
  const found: { id: string; value: string | number }[] = []
  let total = 0
  let after: string | undefined = ''
  while (after !== undefined) {
    const slice = await keys.scan(after, SLICE, nowMs)
    for (const key of slice) {
      if (isFound(key, query, nowMs)) found.push({ id: key.id, value: valueOf(key) })
    }
    total += slice.length
    after = slice.length < SLICE ? undefined : slice.at(-1)?.id
    await nextTurn()
  }
  found.sort((a, b) => {
    if (a.value !== b.value) return a.value < b.value ? -sign : sign
    return a.id < b.id ? -1 : 1
  })
  const page = Math.max(1, Math.min(query.page, Math.ceil(found.length / PAGE_KEYS)))
  const ids = found.slice((page - 1) * PAGE_KEYS, page * PAGE_KEYS).map(({ id }) => id)
  return { ids, page, matching: found.length, total }
}
