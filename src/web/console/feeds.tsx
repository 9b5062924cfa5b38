/** Owns the feeds: when each one was last imported, what it brought, what is wrong with it. */
import { useCallback } from 'preact/hooks'
import type { Feed } from '../../admin/wire.ts'
import { unixMs } from '../parts/clock.ts'
import { useConsole } from './context.ts'
import { useLive } from './live.ts'
import { Empty, LiveNotice } from './notice.tsx'

const REFRESH_SECONDS = 5

/** A time that is over or to come; one to come that is over is about to be now. */
function When({ time, isNext = false }: { time: string | null; isNext?: boolean }) {
  const { words, relative, moment } = useConsole().speech
  if (time === null) return <span class="soft">{words.unknown}</span>
  const now = unixMs()
  return (
    <time dateTime={time} title={moment(time)}>
      {isNext && Date.parse(time) <= now ? words.now : relative(time, now)}
    </time>
  )
}

function Row({ feed }: { feed: Feed }) {
  const { words, number } = useConsole().speech
  const { source, last_success, rows, error, next_try } = feed
  const isNew = error === null && last_success === null
  return (
    <tr>
      <th scope="row" class="source">
        <code>{source}</code>
        {error !== null && <p class="bad">{error}</p>}
      </th>
      <td data-label={words.state}>
        {isNew ? (
          <span class="soft">{words.waiting}</span>
        ) : (
          <span class="status" data-ok={error === null || undefined}>
            {error === null ? words.working : words.failing}
          </span>
        )}
      </td>
      <td data-label={words.lastSuccess}>
        <When time={last_success} />
      </td>
      <td class="number" data-label={words.rowsColumn}>
        {rows === null ? words.unknown : number(rows)}
      </td>
      <td data-label={words.nextTry}>
        <When time={next_try} isNext />
      </td>
    </tr>
  )
}

export function FeedsView() {
  const { client, speech } = useConsole()
  const { words } = speech
  const load = useCallback(
    (signal: AbortSignal) => client.get<{ feeds: Feed[] }>('/console/feeds', signal),
    [client],
  )
  const live = useLive(load, REFRESH_SECONDS)
  const columns = [words.source, words.state, words.lastSuccess, words.rowsColumn, words.nextTry]
  return (
    <>
      <LiveNotice live={live} />
      {live.value?.feeds.length === 0 && <Empty>{words.noFeeds}</Empty>}
      {live.value && live.value.feeds.length > 0 && (
        <section class="card table-card" aria-label={words.feeds}>
          <table class="feeds stack">
            <caption class="hidden">{words.feeds}</caption>
            <thead>
              <tr>
                {columns.map(name => (
                  <th
                    scope="col"
                    key={name}
                    class={name === words.rowsColumn ? 'number' : undefined}
                  >
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {live.value.feeds.map(feed => (
                <Row key={feed.source} feed={feed} />
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  )
}
