/** The live log: finished requests, their filters, and why the server refused them. Never their keys. */
import { useRef, useState } from 'preact/hooks'
import type { LogEntry, LogPage } from '../../admin/api-types.ts'
import { SelectField } from '../parts/form.tsx'
import { Facts, Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { messageOf } from './client.ts'
import { useConsole } from './context.ts'
import { When } from './dialog.tsx'
import { bytes, ms, number, seconds } from './format.ts'
import { usePolling } from './live.ts'
import {
  append,
  CODE_WORDS,
  keysIn,
  LOG_LINES,
  type LogFilter,
  logHref,
  OUTCOMES,
  outcomeOf,
  readLogFilter,
  selectLines,
  wordsOf,
} from './log-lines.ts'

const REFRESH_MS = 1000

/** The lines of the log while the tab is visible, and why there are no new ones. */
function useLog(isPaused: boolean) {
  const { client } = useConsole()
  const [lines, setLines] = useState<readonly LogEntry[]>([])
  const [problem, setProblem] = useState<string | null>(null)
  const next = useRef('')
  const read = async (signal: AbortSignal): Promise<void> => {
    if (isPaused) return
    try {
      const page = await client.get<LogPage>(`/console/log?after=${next.current}`, signal)
      next.current = page.next
      if (page.lines.length > 0) setLines(before => append(before, page))
      setProblem(null)
    } catch (error) {
      if (!signal.aborted) setProblem(messageOf(error))
    }
  }
  usePolling(read, REFRESH_MS, [client, isPaused])
  return { lines, problem }
}

const COLUMNS = [
  ...['Time', 'Answer', 'Request'],
  { name: 'Key', look: 'col-client' },
  { name: 'Records', look: 'number col-size' },
  { name: 'Took', look: 'number col-took' },
]

function Details({ entry }: { entry: LogEntry }) {
  const { code, message } = entry
  return (
    <>
      {code !== null && (
        <p>
          <code>{code}</code> {message}
        </p>
      )}
      <Facts
        look="key-facts"
        facts={[
          ['Request id', entry.id],
          ['Client', entry.client],
          ['Records', number(entry.records)],
          ['Size', bytes(entry.bytes)],
          ['Took', ms(entry.ms)],
        ]}
      />
    </>
  )
}

function Row({ entry }: { entry: LogEntry }) {
  const [isOpen, setOpen] = useState(false)
  const { time, status, method, path, query, key, label } = entry
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
            <When time={time} show={seconds} />
          </button>
        </td>
        <td>
          <span class="status" data-ok={outcome === 'ok' || undefined} data-outcome={outcome}>
            {status} <span class="words">{wordsOf(entry)}</span>
          </span>
        </td>
        <td class="path">
          {method !== 'GET' && <span class="soft">{method} </span>}
          {path + (query === '' ? '' : `?${query}`)}
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

const CODES = [
  ['', 'Any answer'],
  ...Object.entries(OUTCOMES),
  ...Object.entries(CODE_WORDS),
] as const

/** The filter in the fragment, so that links can set it. */
function Filters({ filter, lines }: { filter: LogFilter; lines: readonly LogEntry[] }) {
  const change = (changed: Partial<LogFilter>): void =>
    location.replace(logHref({ ...filter, ...changed }))
  const keys = new Map([
    ...(filter.key === '' ? [] : [[filter.key, ''] as const]),
    ...keysIn(lines),
  ])
  return (
    <div class="row key-filters">
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
        type="search"
        name="text"
        aria-label="Text"
        placeholder="Path, filter, address, request id…"
        value={filter.text}
        onInput={event => change({ text: event.currentTarget.value })}
      />
    </div>
  )
}

/** Rows that the log shows at first, and adds at a time. */
const ROWS = 100

export function LogView() {
  const [isPaused, setPaused] = useState(false)
  const [rows, setRows] = useState(ROWS)
  const filter = readLogFilter(location.hash) // the app renders again when it changes
  const { lines: all, problem } = useLog(isPaused)
  const lines = selectLines(all, filter)
  const isLive = !isPaused && problem === null
  return (
    <>
      <div class="row bar-above">
        <span
          class="status"
          data-ok={isLive || undefined}
          data-bad={problem !== null || undefined}
          role="status"
        >
          {problem ?? (isPaused ? 'paused' : 'live')}
        </span>
        <Filters filter={filter} lines={all} />
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
          <p class="empty">{all.length === 0 ? 'No requests yet.' : 'No request matches.'}</p>
        ) : (
          <Table caption="Log" look="log" columns={COLUMNS}>
            {lines.slice(0, rows).map(entry => (
              <Row key={entry.id} entry={entry} />
            ))}
          </Table>
        )}
        <p class="soft note">
          {lines.length > rows && (
            <button type="button" class="quiet" onClick={() => setRows(rows + ROWS)}>
              Show {ROWS} more of {number(lines.length)}
            </button>
          )}{' '}
          The last {number(LOG_LINES)} requests, without their keys.
        </p>
      </section>
    </>
  )
}
