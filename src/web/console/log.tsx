/** The live log: requests as they end, what they asked and why they were refused; never their keys. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { LogEntry, Setup } from '../../admin/wire.ts'
import { remembered } from '../parts/browser.ts'
import { SelectField } from '../parts/form.tsx'
import { Card, Facts, Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { CONNECTION_LOST, follow } from './client.ts'
import { useConsole } from './context.ts'
import { Copyable } from './dialog.tsx'
import { useIsVisible, useLive } from './live.ts'
import {
  append,
  CODE_WORDS,
  curlOf,
  EMPTY_LOG,
  keysIn,
  LOG_LINES,
  type LogArrival,
  type LogBuffer,
  type LogFilter,
  type LogLine,
  type LogValue,
  logHref,
  OUTCOMES,
  outcomeOf,
  readLogFilter,
  selectLines,
  wordsOf,
} from './log-lines.ts'
import { bytes, ms, number, seconds } from './speech.ts'

/** Lines are drawn this often at most: a busy server logs thousands a second. */
const DRAW_MS = 250

type Connection = { kind: 'connecting' | 'live' | 'paused' } | { kind: 'lost'; message: string }

/** The lines of the log while the view is shown and the tab is visible. */
function useLog(isPaused: boolean) {
  const { client } = useConsole()
  const [buffer, setBuffer] = useState<LogBuffer>(EMPTY_LOG)
  const [connection, setConnection] = useState<Connection>({ kind: 'connecting' })
  const isVisible = useIsVisible()
  const pending = useRef<LogArrival[]>([])
  const paused = useRef(isPaused)
  paused.current = isPaused

  const [held, setHeld] = useState(0)
  useEffect(() => {
    const draw = (): void => {
      const values = pending.current
      if (values.length === 0) return
      if (paused.current) return setHeld(values.filter(value => value !== 'opened').length)
      pending.current = []
      setHeld(0)
      setBuffer(before => append(before, values))
    }
    const timer = setInterval(draw, DRAW_MS)
    return () => clearInterval(timer)
  }, [])

  useEffect(() => {
    if (!isVisible) return
    return follow<LogValue>(signal => client.open('/console/log', signal), {
      opened() {
        pending.current.push('opened') // after what came before it, which may be held back
        setConnection({ kind: 'live' })
      },
      values(values) {
        pending.current = [...pending.current, ...values].slice(-LOG_LINES - 1)
      },
      lost(error) {
        setConnection({ kind: 'lost', message: error?.message ?? CONNECTION_LOST })
      },
    })
  }, [client, isVisible])

  return { buffer, connection, held, clear: () => setBuffer(EMPTY_LOG) }
}

const COLUMNS = [
  ...['Time', 'Answer', 'Asked'],
  { name: 'Key', look: 'col-client' },
  { name: 'Records', look: 'number col-size' },
  { name: 'Took', look: 'number col-took' },
]

const askedOf = ({ path, query }: LogEntry): string => path + (query === '' ? '' : `?${query}`)

function Details({ entry }: { entry: LogEntry }) {
  const setup = useLive<Setup>(useConsole().client, '/console/setup', 60).value
  const page = setup?.page_url ?? ''
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
          {line.dropped === null
            ? 'The connection was lost here: requests may be missing.'
            : `${number(line.dropped)} requests are not shown: there were too many at once.`}
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
            {status ?? '–'} <span class="words">{wordsOf(entry)}</span>
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
      <Row key={line.kind === 'gap' ? line.id : line.entry.id} line={line} />
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
  const { buffer, connection, held, clear } = useLog(isPaused)
  const lines = selectLines(buffer.lines, filter)
  const connected = connection.kind === 'connecting' ? 'connecting…' : 'live'
  const isLive = !isPaused && connection.kind === 'live'
  return (
    <>
      <div class="bar-above">
        <span class="status" data-ok={isLive || undefined} role="status">
          {connection.kind === 'lost' ? connection.message : isPaused ? 'paused' : connected}
        </span>
        <Filters filter={filter} lines={buffer.lines} />
        <button type="button" class="plain" onClick={clear}>
          Clear
        </button>
        <button
          type="button"
          class="plain"
          aria-pressed={isPaused}
          onClick={() => setPaused(!isPaused)}
        >
          {!isPaused ? 'Pause' : held > 0 ? `Resume, ${number(held)} new` : 'Resume'}
        </button>
      </div>
      <section class="card table-card" aria-label="Log">
        {lines.length === 0 ? (
          <p class="empty">
            {buffer.lines.length === 0 ? 'No request yet.' : 'None of these yet.'}
          </p>
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

/** Rows of a key's own page. */
const KEY_ROWS = 10

/** The last requests of a key. */
export function KeyLog({ id }: { id: string }) {
  const { buffer } = useLog(false)
  const filter = { code: '', key: id, text: '' }
  const lines = selectLines(buffer.lines, filter).filter(({ kind }) => kind === 'request')
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
