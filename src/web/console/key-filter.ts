/** Which keys are shown, and in which order. Pure. */
import type { Key } from '../../admin/wire.ts'

export const TEMPORARY = 'temp'

export type KeySort = 'label' | 'plan' | 'state' | 'created' | 'expires' | 'today' | 'seen'

export type KeyFilter = {
  search: string
  /** `null`: any plan. */
  plan: string | null
  /** Whether expired and revoked ones are shown too. */
  showsEnded: boolean
  sort: KeySort
  isDescending: boolean
}

export const ALL_KEYS: KeyFilter = {
  search: '',
  plan: null,
  showsEnded: true,
  sort: 'today',
  isDescending: true,
}

export const planOf = ({ plan }: Key): string => plan ?? TEMPORARY

/** What a column is sorted by. Times compare as texts; a key without an end comes after all. */
const SORT_VALUES: { readonly [sort in KeySort]: (key: Key) => string | number } = {
  label: ({ label }) => label.toLowerCase(),
  plan: planOf,
  state: ({ state }) => state,
  created: ({ created }) => created,
  expires: ({ expires }) => expires ?? '9',
  today: ({ requests_today }) => requests_today,
  seen: ({ last_seen }) => last_seen ?? '',
}

const matches = (key: Key, words: readonly string[]): boolean => {
  const text =
    `${key.id} ${key.prefix} ${key.label} ${key.note} ${planOf(key)} ${key.state}`.toLowerCase()
  return words.every(word => text.includes(word))
}

/** The keys that a filter shows, in its order; equal ones by id. */
export function selectKeys(keys: readonly Key[], filter: KeyFilter): Key[] {
  const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean)
  const valueOf = SORT_VALUES[filter.sort]
  const sign = filter.isDescending ? -1 : 1
  return keys
    .filter(key => filter.plan === null || planOf(key) === filter.plan)
    .filter(({ state }) => filter.showsEnded || state === 'active' || state === 'off')
    .filter(key => matches(key, words))
    .map(key => ({ key, value: valueOf(key) }))
    .sort((a, b) => {
      if (a.value !== b.value) return a.value < b.value ? -sign : sign
      return a.key.id < b.key.id ? -1 : 1
    })
    .map(({ key }) => key)
}
