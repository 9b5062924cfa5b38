/** The feeds: their results, and the dialogs that change the feeds file. */
import { useState } from 'preact/hooks'
import type { Feed } from '../../admin/api-types.ts'
import { unixMs } from '../parts/browser.ts'
import { CheckField, TextField } from '../parts/form.tsx'
import { Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import {
  type Action,
  Actions,
  Alert,
  FormDialog,
  LiveNotice,
  NewBar,
  useFields,
  When,
} from './dialog.tsx'
import { ago, moment, number, UNKNOWN } from './format.ts'
import { FormatField, TypeField } from './import.tsx'
import { useLive } from './live.ts'

const REFRESH_SECONDS = 5

/** A next try in the past is about to start. */
const next = (time: string): string => (Date.parse(time) <= unixMs() ? 'now' : ago(time))

const PLACES = { option: 'from --feed', file: '' } as const

/** The state of a feed in a word, and whether it is good. */
function stateOf({ running, paused, error, last_success, stale_since }: Feed): [string, boolean?] {
  if (running) return ['fetching']
  if (paused) return ['paused']
  if (error !== null) return ['fails', false]
  if (stale_since !== null) return ['unchanged', false]
  return last_success === null ? ['not tried yet'] : ['works', true]
}

type Send = (method: 'POST' | 'PUT' | 'DELETE', path: string, body?: object) => Promise<void>

function Row({ feed, send }: { feed: Feed; send: Send }) {
  const { id, source, from, paused, running, last_success, rows, error, next_try } = feed
  const { stale_since } = feed
  const [word, isOk] = stateOf(feed)
  const place = from === null ? 'from another server' : PLACES[from]
  const { check = false } = feed.options ?? {}
  const isOff = running || check === true // the checker fetches it
  const fetch = { name: 'Fetch now', isOff, run: () => send('POST', `/${id}/fetch`) }
  const ours: Action[] = [
    {
      name: paused ? 'Resume' : 'Pause',
      run: () => send('PUT', `/${id}`, { ...feed.options, paused: !paused }),
    },
    { name: 'Change', open: onClose => <FeedDialog {...{ feed, send, onClose }} /> },
    {
      name: 'Remove',
      isDanger: true,
      confirm: {
        title: `Remove the feed ${source}?`,
        hint: 'The server stops fetching it. Its rows stay until they are too old.',
      },
      run: () => send('DELETE', `/${id}`),
    },
  ]
  return (
    <tr data-ended={paused || undefined}>
      <th scope="row" class="source">
        <code>{source}</code> {place && <small>{place}</small>}
        {error !== null && !paused && <p class="bad">{error}</p>}
        {stale_since !== null && !paused && (
          <p class="bad">unchanged since {moment(stale_since)}; its rows are no longer fresh</p>
        )}
      </th>
      <td data-label="State">
        <span class="status" data-ok={isOk || undefined} data-bad={isOk === false || undefined}>
          {word}
        </span>
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
      <td class="col-actions">
        <Actions
          look="quiet"
          of={source}
          actions={from === null ? [] : from === 'file' ? [fetch, ...ours] : [fetch]}
        />
      </td>
    </tr>
  )
}

/** Adds a feed (`null`), or changes one. */
function FeedDialog(props: { feed: Feed | null; send: Send; onClose(): void }) {
  const { feed, send, onClose } = props
  const before = feed?.options ?? {}
  const textOf = (option: string): string => String(before[option] ?? '')
  const [{ source, ...texts }, field] = useFields({
    ...{ source: '', type: textOf('type'), format: textOf('format'), every: textOf('every') },
  })
  const [replace, setReplace] = useState(before.replace === true)
  const [check, setCheck] = useState(before.check === true)
  const options = { ...before, ...texts, replace, check }
  return (
    <FormDialog
      title={feed === null ? 'Add a feed' : 'Change the feed'}
      action={feed === null ? 'Add the feed' : 'Save'}
      onSubmit={() =>
        feed === null
          ? send('POST', '', { source, ...options })
          : send('PUT', `/${feed.id}`, options)
      }
      onClose={onClose}
    >
      {feed === null ? (
        <TextField
          {...field('source')}
          label="Source"
          hint="a URL, or the path of a file or directory on the server"
        />
      ) : (
        <p class="source">
          <code>{feed.source}</code>
        </p>
      )}
      <div class="pairs">
        <TypeField {...field('type')} />
        <FormatField {...field('format')} />
        <TextField {...field('every')} label="Every" hint="such as 60s or 5m" />
      </div>
      <CheckField
        label="The list contains only this feed: remove other proxies"
        name="replace"
        isOn={replace}
        onChange={setReplace}
      />
      <CheckField
        label="For the checker: add an address once the checker finds it working"
        name="check"
        isOn={check}
        onChange={setCheck}
      />
    </FormDialog>
  )
}

const COLUMNS = [
  ...['Source', 'State', 'Last success', { name: 'Rows', look: 'number' }, 'Next try'],
  { name: 'Change', head: <span class="hidden">Change</span> },
]

export function FeedsView() {
  const { client } = useConsole()
  const path = '/console/feeds'
  const live = useLive<{ feeds: Feed[]; problem: string | null }>(client, path, REFRESH_SECONDS)
  const { feeds = [], problem = null } = live.value ?? {}
  const send: Send = async (method, of, body) => {
    await client.send(method, `${path}${of}`, body)
    await live.refresh()
  }
  return (
    <>
      <NewBar
        name="Add a feed"
        open={onClose => <FeedDialog feed={null} {...{ send, onClose }} />}
      />
      {problem && <Alert>{problem}</Alert>}
      <LiveNotice live={live} />
      {live.value && feeds.length === 0 && (
        <p class="card empty">
          There are no feeds. The server imports a feed again on a schedule. Add one here or in the
          feeds file.
        </p>
      )}
      {feeds.length > 0 && (
        <section class="card table-card" aria-label="Feeds">
          <Table caption="Feeds" look="feeds stack" columns={COLUMNS}>
            {feeds.map(feed => (
              <Row key={feed.id} feed={feed} send={send} />
            ))}
          </Table>
        </section>
      )}
    </>
  )
}
