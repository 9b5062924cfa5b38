/**
 * The form of the statistics that `/stats` publishes (contract F4), for the service that makes
 * them and the page that draws them. Imports nothing, so that code for browsers can import it.
 */

/**
 * How often the values of a list fall between two edges: `counts[i]` those between `edges[i]` and
 * `edges[i + 1]`, so there is one edge more than counts. The last edge is at least the largest value
 * of the list. A value that equals an edge is counted on the side that a filter with this bound lets
 * through: below it for `ping`, above it for `speed` and `works`. Unknown values are left out.
 */
export type Histogram = { readonly edges: readonly number[]; readonly counts: readonly number[] }

/** What is published of a list in any case. */
export type StatsTotals = {
  /** The version of the program. */
  readonly version: string
  /** When this was counted, in Unix seconds: ages are ages at this instant. */
  readonly at: number
  /** Rows of the list. */
  readonly total: number
  /** Rows that no cell of the cube counts. */
  readonly hidden: number
  readonly dimensions: {
    readonly type: readonly string[]
    /** `''` is unknown. */
    readonly anon: readonly string[]
    /** Two letters each; first `--`, cells that were too small to name their country, and `''`, unknown. */
    readonly country: readonly string[]
    /**
     * Bounds of the age of a check, in seconds: the same six for every list, and one more, in whole days,
     * when rows are older than all of these.
     */
    readonly age: readonly number[]
    /** As the API names them; the last one is the provider's own. */
    readonly services: readonly string[]
  }
  /** Of the whole list: `ping` in milliseconds, `speed` in bytes per second, `works` in percent. */
  readonly histograms: {
    readonly ping: Histogram
    readonly speed: Histogram
    readonly works: Histogram
  }
}

/**
 * Columns of one length. The largest cells name their country: those that do not are merged from such as
 * are at most as large as the smallest of these. Cell i has `count[i]` rows, at least 5, and of them `smtp[i]` have smtp, and so
 * on for each name in `dimensions.services`. The other four hold positions in `dimensions`; that of
 * `age` is the smallest bound that holds.
 */
export type StatsCube = {
  readonly type: readonly number[]
  readonly anon: readonly number[]
  readonly country: readonly number[]
  readonly age: readonly number[]
  readonly count: readonly number[]
} & { readonly [service: string]: readonly number[] }

/** A city with at least 5 rows; `city_en` is `''` where there is no English name. */
export type StatsCity = {
  readonly city: string
  readonly city_en: string
  /** `''` is unknown. */
  readonly country: string
  readonly count: number
}

/** What is published of a list with `--public-stats full`; `totals` leaves out the last two. */
export type StatsDocument = StatsTotals & {
  readonly cube: StatsCube
  /** The largest first, at most fifty. */
  readonly cities: readonly StatsCity[]
}
