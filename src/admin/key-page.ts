/**
 * A page of the list of keys: which keys a query finds, and in which order. Keys are read and matched in
 * slices, between which requests of the service are answered.
 */
import { type KeySummary, keyState } from '../access/key.ts'
import { TEMP_PLAN } from '../access/plan.ts'
import type { Registry } from '../access/ports.ts'
import { nextTurn } from '../lib/errors.ts'
import { invalid, readQuery } from './route.ts'

export const PAGE_KEYS = 50

/** Keys that are read at once: about a millisecond of work. */
const SLICE = 500

const planOf = ({ plan }: KeySummary): string => plan ?? TEMP_PLAN

/** What keys are sorted by; one without an end comes after all. */
const SORTS = {
  label: ({ label }: KeySummary) => label.toLowerCase(),
  expires: ({ expiresAt }: KeySummary) => expiresAt ?? Number.POSITIVE_INFINITY,
  today: ({ requestsToday }: KeySummary) => requestsToday,
} satisfies { readonly [sort: string]: (key: KeySummary) => string | number }
export type KeySort = keyof typeof SORTS
const isSort = (name: string): name is KeySort => Object.hasOwn(SORTS, name)

type KeyQuery = {
  /** Each is in some member of a key that is found; in lower case. */
  words: readonly string[]
  /** `''`: any plan. */
  plan: string
  /** Whether expired and revoked ones are found too. */
  hasEnded: boolean
  sort: KeySort
  isDescending: boolean
  /** Counted from 1. */
  page: number
}

const PARAMETERS = { search: '', plan: '', ended: '1', sort: 'today', order: 'desc', page: '1' }

/** @throws AdminError for what no parameter accepts. */
export function readKeyQuery(url: string): KeyQuery {
  const given = { ...PARAMETERS, ...readQuery(url, Object.keys(PARAMETERS)) }
  const { search, plan, ended, sort, order, page } = given
  const accept = (isRight: boolean, what: string): void => {
    if (!isRight) throw invalid(what)
  }
  accept(/^[01]$/.test(ended), 'ended must be 0 or 1')
  accept(/^(?:asc|desc)$/.test(order), 'order must be asc or desc')
  accept(/^[1-9]\d{0,8}$/.test(page), 'page must be an integer of at least 1')
  if (!isSort(sort)) throw invalid(`sort must be one of ${Object.keys(SORTS).join(', ')}`)
  return {
    words: search.toLowerCase().split(/\s+/).filter(Boolean),
    hasEnded: ended === '1',
    isDescending: order === 'desc',
    ...{ plan, sort, page: Number(page) },
  }
}

function isFound(key: KeySummary, { words, plan, hasEnded }: KeyQuery, nowMs: number): boolean {
  if (plan !== '' && planOf(key) !== plan) return false
  const state = keyState(key, nowMs)
  if (!hasEnded && (state === 'expired' || state === 'revoked')) return false
  if (words.length === 0) return true
  const { id, prefix, label, note } = key
  const text = `${id} ${prefix} ${label} ${note} ${planOf(key)} ${state}`.toLowerCase()
  return words.every(word => text.includes(word))
}

type Found = { id: string; value: string | number }

/**
 * The ids of a page, equal ones by id, and how many keys match and there are. After the last page, that one
 * is meant. What is found is sorted after each slice: all at once would take longest of all.
 */
export async function findKeys(keys: Registry['keys'], query: KeyQuery, nowMs: number) {
  const valueOf = SORTS[query.sort]
  const sign = query.isDescending ? -1 : 1
  const order = (a: Found, b: Found): number => {
    if (a.value !== b.value) return a.value < b.value ? -sign : sign
    return a.id < b.id ? -1 : 1
  }
  let first: Found[] = []
  let [matching, total] = [0, 0]
  let after: string | undefined = ''
  while (after !== undefined) {
    const slice = await keys.scan(after, SLICE, nowMs)
    const found = slice
      .filter(key => isFound(key, query, nowMs))
      .map(key => ({ id: key.id, value: valueOf(key) }))
    first = [...first, ...found].sort(order).slice(0, query.page * PAGE_KEYS)
    matching += found.length
    total += slice.length
    after = slice.length < SLICE ? undefined : slice.at(-1)?.id
    await nextTurn()
  }
  const page = Math.max(1, Math.min(query.page, Math.ceil(matching / PAGE_KEYS)))
  const ids = first.slice((page - 1) * PAGE_KEYS, page * PAGE_KEYS).map(({ id }) => id)
  return { ids, page, matching, total }
}
