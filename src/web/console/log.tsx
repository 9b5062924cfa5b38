/** The live log: requests as they end, what they asked and why they were refused; never their keys. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { LogEntry, LogPage } from '../../admin/api-types.ts'
import { remembered } from '../parts/browser.ts'
import { SelectField } from '../parts/form.tsx'
import { Card, Facts, Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { messageOf } from './client.ts'
import { useConsole } from './context.ts'
import { Copyable } from './dialog.tsx'
import { bytes, ms, number, seconds } from './format.ts'
import { useIsVisible } from './live.ts'
import {
  append,
  CODE_WORDS,
  curlOf,
  keysIn,
  LOG_LINES,
  type LogFilter,
  type LogLine,
  logHref,
  OUTCOMES,
  outcomeOf,
  readLogFilter,
  selectLines,
  wordsOf,
} from './log-lines.ts'

/** How often the server is asked for what is new. */
const ASK_MS = 1000

/** The lines of the log while the view is shown and the tab is visible, and why there are no newer ones. */
function useLog(isPaused: boolean) {
  const { client } = useConsole()
  const [lines, setLines] = useState<readonly LogLine[]>([])
  const [problem, setProblem] = useState<string | null>(null)
  const next = useRef('')
  const isVisible = useIsVisible()
  useEffect(() => {
    if (!isVisible || isPaused) return
    const controller = new AbortController()
    const { signal } = controller
    let timer: ReturnType<typeof setTimeout> | undefined
    async function ask(): Promise<void> {
      try {
        const page = await client.get<LogPage>(`/console/log?after=${next.current}`, signal)
        next.current = page.next
        if (page.lines.length > 0) setLines(before => append(before, page))
        setProblem(null)
      } catch (error) {
        if (signal.aborted) return
        setProblem(messageOf(error))
      }
      timer = setTimeout(ask, ASK_MS)
    }
    void ask()
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [client, isVisible, isPaused])
  return { lines, problem, clear: () => setLines([]) }
}

const COLUMNS = [
  ...['Time', 'Answer', 'Asked'],
  { name: 'Key', look: 'col-client' },
  { name: 'Records', look: 'number col-size' },
  { name: 'Took', look: 'number col-took' },
]

const askedOf = ({ path, query }: LogEntry): string => path + (query === '' ? '' : `?${query}`)

function Details({ entry }: { entry: LogEntry }) {
  const { pageUrl: page } = useConsole()
  const origin = (remembered('service') || page || 'https://ADDRESS').replace(/\/$/, '')
  const curl = curlOf(entry, origin)
  const { code, message, key, label, path, query } = entry
  return (
    <>
      {code !== null && (
        <p>
          <code>{code}</code> {message}
        </p>
      )}
      <Facts
        look="facts"
        facts={[
          ['Request', `${entry.method} ${askedOf(entry)}`],
          ['Request id', entry.id],
          ['Client', entry.client],
          ['Records', number(entry.records)],
          ['Size', bytes(entry.bytes)],
          ['Took', ms(entry.ms)],
        ]}
      />
      {curl !== '' && <Copyable label="As curl" value={curl} action="Copy as curl" />}
      <p class="links">
        {page !== '' && path === '/api' && (
          <a href={`${page}#${query}`} target="_blank" rel="noreferrer">
            Open in the page
          </a>
        )}
        {key !== null && key !== 'demo' && (
          <a href={keyHref(key)}>Open the key{label && ` ${label}`}</a>
        )}
      </p>
    </>
  )
}

function Row({ line }: { line: LogLine }) {
  const [isOpen, setOpen] = useState(false)
  if (line.kind === 'gap') {
    return (
      <tr class="gap">
        <td colSpan={COLUMNS.length}>
          {line.missed === null
            ? 'The server was started again here: requests may be missing.'
            : `${number(line.missed)} requests are not shown: there were too many at once.`}
        </td>
      </tr>
    )
  }
  const { entry } = line
  const { time, status, method, key, label } = entry
  const outcome = outcomeOf(status)
  return (
    <>
      <tr>
        <td>
          <button
            type="button"
            class="quiet"
            aria-expanded={isOpen}
            aria-label={`Details, ${seconds(time)}`}
            onClick={() => setOpen(!isOpen)}
          >
            <time dateTime={time}>{seconds(time)}</time>
          </button>
        </td>
        <td>
          <span class="status" data-ok={outcome === 'ok' || undefined} data-outcome={outcome}>
            {status} <span class="words">{wordsOf(entry)}</span>
          </span>
        </td>
        <td class="path">
          {method !== 'GET' && <span class="soft">{method} </span>}
          {askedOf(entry)}
        </td>
        <td class="col-client">
          {key !== null && (key === 'demo' ? key : <a href={keyHref(key)}>{label || key}</a>)}
        </td>
        <td class="number col-size">{number(entry.records)}</td>
        <td class="number col-took">{ms(entry.ms)}</td>
      </tr>
      {isOpen && (
        <tr class="details">
          <td colSpan={COLUMNS.length}>
            <Details entry={entry} />
          </td>
        </tr>
      )}
    </>
  )
}

const Lines = ({ lines }: { lines: readonly LogLine[] }) => (
  <Table caption="Log" look="log" columns={COLUMNS}>
    {lines.map(line => (
      <Row key={line.id} line={line} />
    ))}
  </Table>
)

const CODES = [
  ['', 'Any answer'],
  ...Object.entries(OUTCOMES),
  ...Object.entries(CODE_WORDS),
] as const

/** The filter, which the fragment names: a link can. */
function Filters({ filter, lines }: { filter: LogFilter; lines: readonly LogLine[] }) {
  const change = (changed: Partial<LogFilter>): void =>
    location.replace(logHref({ ...filter, ...changed }))
  const keys = new Map([
    ...(filter.key === '' ? [] : [[filter.key, ''] as const]),
    ...keysIn(lines),
  ])
  return (
    <div class="key-filters">
      <SelectField
        label="Answer"
        name="code"
        value={filter.code}
        onChange={code => change({ code })}
        options={CODES}
        isBare
      />
      <SelectField
        label="Key"
        name="key"
        value={filter.key}
        onChange={key => change({ key })}
        options={[['', 'Any key'], ...[...keys].map(([id, label]) => [id, label || id] as const)]}
        isBare
      />
      <input
        class="input"
        type="search"
        name="text"
        aria-label="Text"
        placeholder="Filter, address, request id…"
        value={filter.text}
        onInput={event => change({ text: event.currentTarget.value })}
      />
    </div>
  )
}

/** Rows at first, and more of them at a time. */
const ROWS = 100

export function LogView() {
  const [isPaused, setPaused] = useState(false)
  const [rows, setRows] = useState(ROWS)
  const filter = readLogFilter(location.hash) // a change of it draws every view again
  const { lines: all, problem, clear } = useLog(isPaused)
  const lines = selectLines(all, filter)
  const isLive = !isPaused && problem === null
  return (
    <>
      <div class="bar-above">
        <span
          class="status"
          data-ok={isLive || undefined}
          data-bad={problem !== null || undefined}
          role="status"
        >
          {problem ?? (isPaused ? 'paused' : 'live')}
        </span>
        <Filters filter={filter} lines={all} />
        <button type="button" class="plain" onClick={clear}>
          Clear
        </button>
        <button
          type="button"
          class="plain"
          aria-pressed={isPaused}
          onClick={() => setPaused(!isPaused)}
        >
          {isPaused ? 'Resume' : 'Pause'}
        </button>
      </div>
      <section class="card table-card" aria-label="Log">
        {lines.length === 0 ? (
          <p class="empty">{all.length === 0 ? 'No request yet.' : 'None of these yet.'}</p>
        ) : (
          <Lines lines={lines.slice(0, rows)} />
        )}
        <p class="soft note">
          {lines.length > rows && (
            <button type="button" class="quiet" onClick={() => setRows(rows + ROWS)}>
              Show {ROWS} more of {number(lines.length)}
            </button>
          )}{' '}
          Of the last {number(LOG_LINES)} requests. Keys are never part of it.
        </p>
      </section>
    </>
  )
}

const KEY_ROWS = 10

/** The last requests of a key. */
export function KeyLog({ id }: { id: string }) {
  const filter = { code: '', key: id, text: '' }
  const lines = selectLines(useLog(false).lines, filter).filter(({ kind }) => kind === 'request')
  return (
    <Card look="wide" title="Last requests" hint={`of the server’s last ${number(LOG_LINES)}`}>
      {lines.length === 0 ? (
        <p class="soft">None of them is of this key.</p>
      ) : (
        <>
          <Lines lines={lines.slice(0, KEY_ROWS)} />
          <a class="quiet" href={logHref(filter)}>
            All in the log
          </a>
        </>
      )}
    </Card>
  )
}
