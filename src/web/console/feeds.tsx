/** The feeds: when each one was last imported, what it brought, what is wrong with it. */
import type { Feed } from '../../admin/wire.ts'
import { unixMs } from '../parts/browser.ts'
import { Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import { LiveNotice } from './dialog.tsx'
import { useLive } from './live.ts'
import { moment, number, relative, UNKNOWN } from './speech.ts'

const REFRESH_SECONDS = 5

/** A time that is over or to come; one to come that is over is about to be now. */
function When({ time, isNext = false }: { time: string | null; isNext?: boolean }) {
  if (time === null) return <span class="soft">{UNKNOWN}</span>
  const now = unixMs()
  return (
    <time dateTime={time} title={moment(time)}>
      {isNext && Date.parse(time) <= now ? 'now' : relative(time, now)}
    </time>
  )
}

function Row({ feed }: { feed: Feed }) {
  const { source, last_success, rows, error, next_try } = feed
  const isNew = error === null && last_success === null
  return (
    <tr>
      <th scope="row" class="source">
        <code>{source}</code>
        {error !== null && <p class="bad">{error}</p>}
      </th>
      <td data-label="State">
        {isNew ? (
          <span class="soft">not tried yet</span>
        ) : (
          <span class="status" data-ok={error === null || undefined}>
            {error === null ? 'works' : 'fails'}
          </span>
        )}
      </td>
      <td data-label="Last success">
        <When time={last_success} />
      </td>
      <td class="number" data-label="Rows">
        {rows === null ? UNKNOWN : number(rows)}
      </td>
      <td data-label="Next try">
        <When time={next_try} isNext />
      </td>
    </tr>
  )
}

const COLUMNS = [
  ...[{ name: 'Source' }, { name: 'State' }, { name: 'Last success' }],
  ...[{ name: 'Rows', look: 'number' }, { name: 'Next try' }],
]

export function FeedsView() {
  const { client } = useConsole()
  const live = useLive<{ feeds: Feed[] }>(client, '/console/feeds', REFRESH_SECONDS)
  const feeds = live.value?.feeds
  return (
    <>
      <LiveNotice live={live} />
      {feeds?.length === 0 && (
        <p class="empty">
          No feed is set up. Start the server with --feed or --feeds to fetch lists by itself.
        </p>
      )}
      {feeds && feeds.length > 0 && (
        <section class="card table-card" aria-label="Feeds">
          <Table caption="Feeds" look="feeds stack" columns={COLUMNS}>
            {feeds.map(feed => (
              <Row key={feed.source} feed={feed} />
            ))}
          </Table>
        </section>
      )}
    </>
  )
}
