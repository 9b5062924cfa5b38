/**
 * The form of the statistics that `/stats` publishes (contract F4), for the service that makes
 * them and the page that draws them. Imports nothing, so that code for browsers can import it.
 */

/**
 * How often values fall between two edges: `counts[i]` those between `edges[i]` and `edges[i + 1]`, so there
 * is one edge more than counts; values beyond the ends are in the end ones. A value that equals an edge is
 * counted on the side that a filter with this bound lets through: below it for `ping`, above it for
 * `speed` and `works`.
 */
export type Histogram = {
  readonly edges: readonly number[]
  readonly counts: readonly number[]
  readonly unknown: number
}

/** Rows by value, `''` is unknown; values without rows may be missing. */
export type Facet = { readonly [value: string]: number }

/** A city; `city_en` is `''` where there is no English name. */
export type StatsCity = {
  readonly city: string
  readonly city_en: string
  /** `''` is unknown. */
  readonly country: string
  readonly count: number
}

/** What is published of a list in any case; with `--public-stats totals`, all. */
export type StatsTotals = {
  /** When this was counted, in Unix seconds: ages are ages at this instant. */
  readonly at: number
  /** Changes whenever the list does. */
  readonly version: string
  /** Rows of the list. */
  readonly total: number
  /** Rows that pass all filters. */
  readonly matching: number
}

export type StatsDocument = StatsTotals & {
  /** Rows that pass all filters except the facet's own: the result if a user chose this value instead. */
  readonly facets: {
    readonly type: Facet
    readonly anon: Facet
    readonly country: Facet
    /** By the names of the API, the last one the provider's own: what passes all filters, and has it as well. */
    readonly service: Facet
    /** Rows that are at most so many seconds old; `''`: of any age. */
    readonly age: Facet
  }
  /** Without their own filter too: `ping` in milliseconds, `speed` in bytes per second, `works` in percent. */
  readonly histograms: {
    readonly ping: Histogram
    readonly speed: Histogram
    readonly works: Histogram
  }
  /** Without their own filter too, the largest first, at most fifty. */
  readonly cities: readonly StatsCity[]
  /** The freshest records that match, as `demo` would get them, at most twenty. */
  readonly examples: readonly { readonly [member: string]: unknown }[]
}
