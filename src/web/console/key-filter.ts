/** The filter and order of the list of keys. */
import type { KeySort } from '../../admin/api-types.ts'

export type KeyFilter = {
  search: string
  sort: KeySort
  isDescending: boolean
  /** Counted from 1. */
  page: number
}

export const ALL_KEYS: KeyFilter = {
  ...{ search: '', sort: 'today', isDescending: true, page: 1 },
}

/** The path of a page of keys. */
export const pathOf = ({ isDescending, page, ...filter }: KeyFilter): string =>
  `/console/keys?${new URLSearchParams({
    ...filter,
    ...{ order: isDescending ? 'desc' : 'asc', page: `${page}` },
  })}`
