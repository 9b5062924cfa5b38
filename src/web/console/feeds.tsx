/** The feeds: what each one brought and what is wrong with it, fetching it now, and setting up those of the console. */
import { useState } from 'preact/hooks'
import type { Feed, FeedFetch, FeedPreview } from '../../admin/wire.ts'
import { unixMs } from '../parts/browser.ts'
import { CheckField, SelectField, TextField } from '../parts/form.tsx'
import { Scroller, Table } from '../parts/table.tsx'
import { useConsole } from './context.ts'
import { Alert, FormDialog, LiveNotice, When } from './dialog.tsx'
import { FormatField, TypeField } from './import.tsx'
import { useLive } from './live.ts'
import { ago, ms, number, seconds, UNKNOWN } from './speech.ts'

const REFRESH_SECONDS = 5

/** One to come that is over is about to be now. */
const next = (time: string): string => (Date.parse(time) <= unixMs() ? 'now' : ago(time))

const PLACES = { option: 'of --feed', file: 'of the feeds file', console: '' } as const

/** What a fetch brought, in words. */
function outcomeOf({ rows, error }: FeedFetch): string {
  if (error !== '') return error
  if (rows === null) return 'unchanged'
  const { usable, ...changes } = rows
  const some = Object.entries(changes).filter(([, n]) => n > 0)
  const words = some.map(([what, n]) => `${number(n)} ${what}`).join(', ')
  return `${number(usable)} rows: ${words || 'all as they were'}`
}

/** What the last fetches brought. */
const History = ({ feed: { source, history } }: { feed: Feed }) => (
  <details>
    <summary>
      Last fetches<span class="hidden"> of {source}</span>
    </summary>
    <ul>
      {history.map(fetched => (
        <li key={fetched.at}>
          <span class="soft">
            <When time={fetched.at} show={ago} />
            {fetched.times > 1 && `, ${number(fetched.times)} times`}
          </span>{' '}
          <span class={fetched.error === '' ? undefined : 'bad'}>{outcomeOf(fetched)}</span>
        </li>
      ))}
    </ul>
  </details>
)

/** How a feed does, in a word, and whether that is well. */
function stateOf({ running, paused, error, last_success }: Feed): [word: string, isOk?: boolean] {
  if (running) return ['fetching']
  if (paused) return ['paused']
  if (error !== null) return ['fails', false]
  return last_success === null ? ['not tried yet'] : ['works', true]
}

type RowProps = {
  feed: Feed
  onOpen(kind: 'change' | 'remove'): void
  onFetch(): void
  onPause(isPaused: boolean): void
}

function Row({ feed, onOpen, onFetch, onPause }: RowProps) {
  const { source, from, paused, running, last_success, rows, error, next_try, history } = feed
  const [word, isOk] = stateOf(feed)
  const isOurs = from === 'console'
  const place = from === null ? 'of another server' : PLACES[from]
  const actions = [
    ...(from === null ? [] : [['Fetch now', onFetch] as const]),
    ...(isOurs
      ? [
          [paused ? 'Resume' : 'Pause', () => onPause(!paused)] as const,
          ['Change', () => onOpen('change')] as const,
          ['Remove', () => onOpen('remove')] as const,
        ]
      : []),
  ]
  return (
    <tr data-ended={paused || undefined}>
      <th scope="row" class="source">
        <code>{source}</code> {place && <small>{place}</small>}
        {error !== null && !paused && <p class="bad">{error}</p>}
        {history.length > 0 && <History feed={feed} />}
      </th>
      <td data-label="State">
        {isOk === undefined ? (
          <span class="soft">{word}</span>
        ) : (
          <span class="status" data-ok={isOk || undefined}>
            {word}
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
      <td class="row-actions">
        {actions.map(([name, act]) => (
          <button
            key={name}
            type="button"
            class="quiet"
            disabled={name === 'Fetch now' && running}
            onClick={act}
          >
            {name}
            <span class="hidden"> {source}</span>
          </button>
        ))}
      </td>
    </tr>
  )
}

const PREVIEW = [
  ...['Address', 'Type', 'Anonymity', 'Country', 'City'],
  ...['Ping', 'Works'].map(name => ({ name, look: 'number' })),
  'Checked',
]

/** The first rows of a feed, as they would be imported. */
function Preview({
  preview: { rows, rejected, first, messages, error },
}: {
  preview: FeedPreview
}) {
  if (error !== null) return <Alert>It would not be imported: {error}</Alert>
  return (
    <div role="status">
      <p class="soft">
        {number(rows)} rows{rejected > 0 && `, ${number(rejected)} rejected`}. The first of them:
      </p>
      <Scroller name="Preview">
        <Table columns={PREVIEW} look="preview">
          {first.map(row => (
            <tr key={row.address}>
              <th scope="row">
                <code>{row.address}</code>
              </th>
              <td>{row.type || UNKNOWN}</td>
              <td>{row.anon || UNKNOWN}</td>
              <td>{row.country || UNKNOWN}</td>
              <td>{row.city || UNKNOWN}</td>
              <td class="number">{row.ping_ms === null ? UNKNOWN : ms(row.ping_ms)}</td>
              <td class="number">{row.works ?? UNKNOWN}</td>
              <td>
                <When time={row.checked} show={seconds} />
              </td>
            </tr>
          ))}
        </Table>
      </Scroller>
      {messages.length > 0 && (
        <ul class="messages">
          {messages.map(message => (
            <li key={message}>{message}</li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** Options that few feeds need. */
const MORE = ['ping-unit', 'map']

type Options = NonNullable<Feed['options']>

type FeedDialogProps = {
  /** `null`: a new one. */
  feed: Feed | null
  onSave(source: string, options: Options): Promise<void>
  onClose(): void
}

function FeedDialog({ feed, onSave, onClose }: FeedDialogProps) {
  const { client } = useConsole()
  const [source, setSource] = useState('')
  const [options, setOptions] = useState<Options>(feed?.options ?? {})
  const [preview, setPreview] = useState<FeedPreview | 'asked' | null>(null)
  const field = (name: string) => ({
    ...{ name, value: String(options[name] ?? '') },
    onChange: (value: string) => setOptions({ ...options, [name]: value }),
  })
  const ask = async (): Promise<void> => {
    setPreview('asked')
    const body = { ...(feed === null ? { source } : { id: feed.id }), ...options }
    const path = '/console/feeds/preview'
    const found = await client.send<FeedPreview>('POST', path, body).catch(({ message }) => ({
      ...{ rows: 0, rejected: 0, first: [], messages: [], error: String(message) },
    }))
    setPreview(found)
  }
  return (
    <FormDialog
      title={feed === null ? 'Add a feed' : 'Change the feed'}
      action={feed === null ? 'Add the feed' : 'Save'}
      onSubmit={() => onSave(source, options)}
      onClose={onClose}
    >
      {feed === null ? (
        <TextField
          label="Source"
          name="source"
          value={source}
          onChange={setSource}
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
        label="The list becomes what this feed has (an only feed)"
        name="replace"
        isOn={options.replace === true}
        onChange={replace => setOptions({ ...options, replace })}
      />
      <details open={MORE.some(name => feed?.options?.[name])}>
        <summary>More options</summary>
        <div class="pairs">
          <SelectField
            {...field('ping-unit')}
            label="Unit of ping"
            options={[
              ['', 'as the list says'],
              ['s', 'seconds'],
              ['ms', 'milliseconds'],
            ]}
          />
          <TextField {...field('map')} label="Columns" hint="such as Where=ip,4=ping" />
        </div>
      </details>
      <button type="button" class="plain" disabled={preview === 'asked'} onClick={ask}>
        {preview === 'asked' ? 'Fetching…' : 'Preview ten rows'}
      </button>
      {preview !== null && preview !== 'asked' && <Preview preview={preview} />}
    </FormDialog>
  )
}

const COLUMNS = [
  ...['Source', 'State', 'Last success', { name: 'Rows', look: 'number' }, 'Next try'],
  { name: 'Change', head: <span class="hidden">Change</span> },
]

type Open = { kind: 'change' | 'remove'; feed: Feed } | { kind: 'new' } | null

export function FeedsView() {
  const { client } = useConsole()
  const live = useLive<{ feeds: Feed[]; problem: string | null }>(
    ...([client, '/console/feeds', REFRESH_SECONDS] as const),
  )
  const [open, setOpen] = useState<Open>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const feeds = live.value?.feeds
  const close = (): void => setOpen(null)
  const send = async (
    method: 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: object,
  ): Promise<void> => {
    await client.send(method, `/console/feeds${path}`, body)
    setProblem(null)
    setOpen(now => (now === open ? null : now)) // another dialog may have been opened meanwhile
    await live.refresh()
  }
  /** What is sent from a row says there what went wrong. */
  const sendNow = (...change: Parameters<typeof send>): void =>
    void send(...change).catch(({ message }) => setProblem(message))
  return (
    <>
      <div class="bar-above">
        <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
          Add a feed
        </button>
      </div>
      {(problem ?? live.value?.problem) && <Alert>{problem ?? live.value?.problem}</Alert>}
      <LiveNotice live={live} />
      {feeds?.length === 0 && (
        <p class="card empty">
          No feed is set up: a list that the server fetches again and again. Add one here, or start
          the server with --feed or --feeds.
        </p>
      )}
      {feeds && feeds.length > 0 && (
        <section class="card table-card" aria-label="Feeds">
          <Table caption="Feeds" look="feeds stack" columns={COLUMNS}>
            {feeds.map(feed => (
              <Row
                key={feed.id}
                feed={feed}
                onOpen={kind => setOpen({ kind, feed })}
                onFetch={() => sendNow('POST', `/${feed.id}/fetch`)}
                onPause={paused => sendNow('PUT', `/${feed.id}`, { ...feed.options, paused })}
              />
            ))}
          </Table>
        </section>
      )}
      {(open?.kind === 'new' || open?.kind === 'change') && (
        <FeedDialog
          feed={open.kind === 'change' ? open.feed : null}
          onClose={close}
          onSave={(source, options) =>
            open.kind === 'change'
              ? send('PUT', `/${open.feed.id}`, options)
              : send('POST', '', { source, ...options })
          }
        />
      )}
      {open?.kind === 'remove' && (
        <FormDialog
          title="Remove the feed?"
          hint={`${open.feed.source} is no longer fetched. Its rows stay until they are old.`}
          action="Remove"
          isDangerous
          onSubmit={() => send('DELETE', `/${open.feed.id}`)}
          onClose={close}
        />
      )}
    </>
  )
}
