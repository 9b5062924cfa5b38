/** The feeds: when each one was last imported, what it brought, what is wrong with it. */
import type { Feed } from '../../admin/wire.ts'
import { unixMs } from '../parts/browser.ts'
import { Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import { LiveNotice, When } from './dialog.tsx'
import { useLive } from './live.ts'
import { ago, number, UNKNOWN } from './speech.ts'

const REFRESH_SECONDS = 5

/** One to come that is over is about to be now. */
const next = (time: string): string => (Date.parse(time) <= unixMs() ? 'now' : ago(time))

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
        <When time={last_success} show={ago} />
      </td>
      <td class="number" data-label="Rows">
        {rows === null ? UNKNOWN : number(rows)}
      </td>
      <td data-label="Next try">
        <When time={next_try} show={next} />
      </td>
    </tr>
  )
}

const COLUMNS = ['Source', 'State', 'Last success', { name: 'Rows', look: 'number' }, 'Next try']

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
