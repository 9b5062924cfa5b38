/** Owns which feeds metrics show, and the label that names one. */
import type { FeedState } from '../feeds/store.ts'

/** Feeds that are shown at most: first those that fail. A scrape takes microseconds for each. */
export const FEEDS_MAX = 200
/** The longest part of a source that is shown. */
export const LABEL_LENGTH_MAX = 200

/** A feed and the label that names it. Sources are masked, so two feeds may have the same one. */
export type ShownFeed = { source: string; state: FeedState }

/** The feeds that are shown, each with a label of its own. */
export function shownFeeds(feeds: readonly FeedState[]): ShownFeed[] {
  const seen = new Map<string, number>()
  const labelled = feeds.map(state => {
    const cut = state.source.slice(0, LABEL_LENGTH_MAX)
    const count = (seen.get(cut) ?? 0) + 1
    seen.set(cut, count)
    return { source: count === 1 ? cut : `${cut} #${count}`, state }
  })
  return labelled.sort((a, b) => b.state.failures - a.state.failures).slice(0, FEEDS_MAX)
}
