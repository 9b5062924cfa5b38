/**
 * Owns the names of columns (CSV) and members (JSON) that a row may have: those of a record, and
 * some that only files have. What their values may be is in `row.ts`.
 */
import { memberNames } from '../api/render.ts'

/** The provider's service may be written with underscores instead of spaces. */
export const underscored = (provider: string): string => provider.replaceAll(' ', '_')

/** Every name that a row may have; all others are ignored. `provider`: the provider's service. */
export const knownColumns = (provider: string): ReadonlySet<string> =>
  new Set([...memberNames(provider), underscored(provider), 'city_en', 'checked_at'])
