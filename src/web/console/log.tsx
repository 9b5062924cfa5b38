/** The live log: requests as they end, without queries. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Radios } from '../parts/form.tsx'
import { Table } from '../parts/table.tsx'
import { keyHref } from './address.ts'
import { CONNECTION_LOST, follow } from './client.ts'
import { useConsole } from './context.ts'
import { useIsVisible } from './live.ts'
import {
  append,
  EMPTY_LOG,
  LOG_FILTERS,
  LOG_LINES,
  type LogArrival,
  type LogBuffer,
  type LogFilter,
  type LogLine,
  type LogValue,
  outcomeOf,
  selectLines,
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

function Row({ line }: { line: LogLine }) {
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
  const { time, status, method, path, records, key, client, ms: took } = line.entry
  const outcome = outcomeOf(status)
  return (
    <tr>
      <td>
        <time dateTime={time}>{seconds(time)}</time>
      </td>
      <td>
        <span class="status" data-ok={outcome === 'ok' || undefined} data-outcome={outcome}>
          {status ?? 'closed'}
        </span>
      </td>
      <td class="path">
        <span class="soft">{method}</span> {path}
      </td>
      <td>{key !== null && (key === 'demo' ? key : <a href={keyHref(key)}>{key}</a>)}</td>
      <td class="number">{number(records)}</td>
      <td class="number col-size">{bytes(line.entry.bytes)}</td>
      <td class="number col-took">{ms(took)}</td>
      <td class="col-client">{client}</td>
    </tr>
  )
}

const COLUMNS = [
  ...['Time', 'Status', 'Path', 'Key'],
  { name: 'Records', look: 'number' },
  { name: 'Size', look: 'number col-size' },
  { name: 'Took', look: 'number col-took' },
  { name: 'Client', look: 'col-client' },
]

const FILTER_WORDS: { readonly [filter in LogFilter]: string } = {
  ...{ all: 'all', ok: '200', notFound: '404', refused: '429' },
  ...{ rejected: 'other 4xx', failed: '5xx' },
}

export function LogView() {
  const [isPaused, setPaused] = useState(false)
  const [filter, setFilter] = useState<LogFilter>('all')
  const { buffer, connection, held, clear } = useLog(isPaused)
  const lines = useMemo(() => selectLines(buffer.lines, filter), [buffer, filter])
  const connected = connection.kind === 'connecting' ? 'connecting…' : 'live'
  const isLive = !isPaused && connection.kind === 'live'
  return (
    <>
      <div class="bar-above">
        <span class="status" data-ok={isLive || undefined} role="status">
          {connection.kind === 'lost' ? connection.message : isPaused ? 'paused' : connected}
        </span>
        <Radios
          label="Show"
          name="outcome"
          value={filter}
          onChange={setFilter}
          options={LOG_FILTERS.map(each => [each, FILTER_WORDS[each]])}
        />
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
          <Table caption="Log" look="log" columns={COLUMNS}>
            {lines.map(line => (
              <Row key={line.kind === 'gap' ? line.id : line.entry.id} line={line} />
            ))}
          </Table>
        )}
        <p class="soft note">
          The last {LOG_LINES} requests. Queries and keys are never part of it.
        </p>
      </section>
    </>
  )
}
