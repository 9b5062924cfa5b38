/** Owns the live log: requests as they end, without queries. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { follow } from './follow.ts'
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
import { Empty } from './notice.tsx'
import { keyHref } from './place.ts'

/** Lines are drawn this often at most: a busy server logs thousands a second. */
const DRAW_MS = 250

type Connection = { kind: 'connecting' | 'live' | 'paused' } | { kind: 'lost'; message: string }

/** The lines of the log while the view is shown and the tab is visible. */
function useLog(isPaused: boolean) {
  const { client, speech } = useConsole()
  const { words } = speech
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
        pending.current = [...pending.current, ...values].slice(-LOG_LINES)
      },
      lost(error) {
        setConnection({ kind: 'lost', message: error?.message ?? words.connectionLost })
      },
    })
  }, [client, isVisible, words])

  return { buffer, connection, held, clear: () => setBuffer(EMPTY_LOG) }
}

function Row({ line }: { line: LogLine }) {
  const { words, number, bytes, amount, seconds } = useConsole().speech
  if (line.kind === 'gap') {
    const sentence =
      line.dropped === null ? words.gap : fill(words.droppedLines, { n: number(line.dropped) })
    return (
      <tr class="gap">
        <td colSpan={8}>{sentence}</td>
      </tr>
    )
  }
  const { time, status, method, path, records, key, client, ms } = line.entry
  const outcome = outcomeOf(status)
  return (
    <tr>
      <td>
        <time dateTime={time}>{seconds(time)}</time>
      </td>
      <td>
        <span class="status" data-ok={outcome === 'ok' || undefined} data-outcome={outcome}>
          {status ?? words.closed}
        </span>
      </td>
      <td class="path">
        <span class="soft">{method}</span> {path}
      </td>
      <td>{key !== null && (key === 'demo' ? key : <a href={keyHref(key)}>{key}</a>)}</td>
      <td class="number">{number(records)}</td>
      <td class="number col-size">{bytes(line.entry.bytes)}</td>
      <td class="number col-took">
        {amount(ms)} {words.ms}
      </td>
      <td class="col-client">{client}</td>
    </tr>
  )
}

function Lines({ lines, isEmpty }: { lines: readonly LogLine[]; isEmpty: boolean }) {
  const { words } = useConsole().speech
  if (lines.length === 0) return <Empty>{isEmpty ? words.noRequests : words.noneOfThese}</Empty>
  const columns = [
    [words.time, ''],
    [words.status, ''],
    [words.path, ''],
    [words.key, ''],
    [words.records, 'number'],
    [words.size, 'number col-size'],
    [words.took, 'number col-took'],
    [words.client, 'col-client'],
  ]
  return (
    <table class="log">
      <caption class="hidden">{words.log}</caption>
      <thead>
        <tr>
          {columns.map(([name, look]) => (
            <th scope="col" key={name} class={look}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {lines.map(line => (
          <Row key={line.kind === 'gap' ? line.id : line.entry.id} line={line} />
        ))}
      </tbody>
    </table>
  )
}

export function LogView() {
  const { words, number } = useConsole().speech
  const [isPaused, setPaused] = useState(false)
  const [filter, setFilter] = useState<LogFilter>('all')
  const { buffer, connection, held, clear } = useLog(isPaused)
  const lines = useMemo(() => selectLines(buffer.lines, filter), [buffer, filter])
  const names = { ...words, failed: words.failed }
  const state = isPaused ? 'paused' : connection.kind
  const pauseText = held > 0 ? fill(words.resumeWith, { n: number(held) }) : words.resume
  return (
    <>
      <div class="bar-above">
        <span class="status" data-ok={state === 'live' || undefined} role="status">
          {connection.kind === 'lost' ? connection.message : words[state as 'live']}
        </span>
        <fieldset class="switch">
          <legend class="hidden">{words.filter}</legend>
          {LOG_FILTERS.map(each => (
            <label key={each}>
              <input
                type="radio"
                name="outcome"
                value={each}
                checked={filter === each}
                onChange={() => setFilter(each)}
              />
              {each === 'notFound' ? '404' : each === 'refused' ? '429' : names[each]}
            </label>
          ))}
        </fieldset>
        <button type="button" class="plain" onClick={clear}>
          {words.clearLog}
        </button>
        <button
          type="button"
          class="plain"
          aria-pressed={isPaused}
          onClick={() => setPaused(!isPaused)}
        >
          {isPaused ? pauseText : words.pause}
        </button>
      </div>
      <section class="card table-card" aria-label={words.log}>
        <Lines lines={lines} isEmpty={buffer.lines.length === 0} />
        <p class="soft note">{fill(words.logHint, { n: LOG_LINES })}</p>
      </section>
    </>
  )
}
