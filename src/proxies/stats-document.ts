/** The document of `/stats` (contract F4). It imports nothing, so that code for browsers can import it. */

/**
 * `counts[i]` counts the values between `edges[i]` and `edges[i + 1]`; the end bins also count values beyond the
 * edges. A value that equals an edge counts on the side that a filter with this bound accepts: below it for `ping`,
 * above it for `speed` and `works`.
 */
export type Histogram = {
  readonly edges: readonly number[]
  readonly counts: readonly number[]
  readonly unknown: number
}

/** The number of rows for each value; `''` is unknown, and values without rows may be missing. */
export type Facet = { readonly [value: string]: number }

/** A city; `city_en` is `''` without an English name. */
export type StatsCity = {
  readonly city: string
  readonly city_en: string
  /** `''` is unknown. */
  readonly country: string
  readonly count: number
}

/** The document with `--public-stats totals`. */
export type StatsTotals = {
  /** The instant of the count in Unix seconds, from which ages are measured. */
  readonly at: number
  /** Changes whenever the list does. */
  readonly version: string
  /** Rows of the list. */
  readonly total: number
  /** Rows that pass all filters. */
  readonly matching: number
}

export type StatsDocument = StatsTotals & {
  /** Rows that pass all filters except the facet's own: the matches if a user chose this value instead. */
  readonly facets: {
    readonly type: Facet
    readonly anon: Facet
    readonly country: Facet
    /** Rows that pass all filters and have this service too. The last name is the provider's own service. */
    readonly service: Facet
    /** Rows at most this many seconds old; `''`: of any age. */
    readonly age: Facet
  }
  /** They leave out their own filter too. `ping` in milliseconds, `speed` in bytes per second, `works` in percent. */
  readonly histograms: {
    readonly ping: Histogram
    readonly speed: Histogram
    readonly works: Histogram
  }
  /** They leave out their own filter too. The largest first, at most fifty. */
  readonly cities: readonly StatsCity[]
  /** At most twenty of the freshest matching records, masked as for `demo`. */
  readonly examples: readonly { readonly [member: string]: unknown }[]
}
