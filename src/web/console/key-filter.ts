/** Which keys are shown, and in which order: what the server is asked for. Pure. */
import type { KeySort } from '../../admin/api-types.ts'

export const TEMPORARY = 'temp'

export type KeyFilter = {
  search: string
  /** `''`: any plan. */
  plan: string
  /** Whether expired and revoked ones are shown too. */
  showsEnded: boolean
  sort: KeySort
  isDescending: boolean
  /** Counted from 1. */
  page: number
}

export const ALL_KEYS: KeyFilter = {
  ...{ search: '', plan: '', showsEnded: true, sort: 'today', isDescending: true, page: 1 },
}

/** The path of the page of keys that a filter shows. */
export const pathOf = ({ showsEnded, isDescending, page, ...filter }: KeyFilter): string =>
  `/console/keys?${new URLSearchParams({
    ...filter,
    ...{ ended: showsEnded ? '1' : '0', order: isDescending ? 'desc' : 'asc', page: `${page}` },
  })}`
