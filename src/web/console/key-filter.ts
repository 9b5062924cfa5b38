/** The filter and order of the list of keys. */
import type { KeySort } from '../../admin/api-types.ts'

export type KeyFilter = {
  search: string
  /** Whether the list has expired and revoked keys too. */
  showsEnded: boolean
  sort: KeySort
  isDescending: boolean
  /** Counted from 1. */
  page: number
}

export const ALL_KEYS: KeyFilter = {
  ...{ search: '', showsEnded: true, sort: 'today', isDescending: true, page: 1 },
}

/** The path of a page of keys. */
export const pathOf = ({ showsEnded, isDescending, page, ...filter }: KeyFilter): string =>
  `/console/keys?${new URLSearchParams({
    ...filter,
    ...{ ended: showsEnded ? '1' : '0', order: isDescending ? 'desc' : 'asc', page: `${page}` },
  })}`
