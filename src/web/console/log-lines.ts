/** The lines of the live log that this tab holds: how many, which are shown, gaps. Pure. */
import type { LogEntry } from '../../admin/wire.ts'

/** Lines that are held at most; the oldest are dropped. */
export const LOG_LINES = 2000

/** A request, or a place where some may be missing. */
export type LogLine =
  | { kind: 'request'; entry: LogEntry }
  | { kind: 'gap'; id: string; dropped: number | null }

/** What the server sends: a request, or how many it could not send. */
export type LogValue = LogEntry | { dropped: number }

/** What arrives, in order: `opened` is the begin of a stream, which may be one that was opened again. */
export type LogArrival = LogValue | 'opened'

export type LogBuffer = {
  /** Newest first. */
  lines: readonly LogLine[]
  /** Whether a stream was opened and nothing of it was seen yet. */
  isOpened: boolean
}

export const EMPTY_LOG: LogBuffer = { lines: [], isOpened: false }

/**
 * Adds what arrived, oldest first. A stream begins with the last requests: those that are there
 * already are skipped, and when the first one is not, some between may be missing.
 */
export function append(buffer: LogBuffer, arrivals: readonly LogArrival[]): LogBuffer {
  const known = new Set(
    buffer.lines.flatMap(line => (line.kind === 'request' ? line.entry.id : [])),
  )
  const lines: LogLine[] = []
  let { isOpened } = buffer
  let lastId = ''
  for (const value of arrivals) {
    if (value === 'opened') {
      isOpened = true
      continue
    }
    if ('dropped' in value) {
      lines.push({ kind: 'gap', id: `dropped after ${lastId}`, dropped: value.dropped })
      continue
    }
    const isNew = !known.has(value.id)
    if (isOpened && isNew && known.size > 0) {
      lines.push({ kind: 'gap', id: `gap-${value.id}`, dropped: null })
    }
    isOpened = false
    lastId = value.id
    if (!isNew) continue
    known.add(value.id)
    lines.push({ kind: 'request', entry: value })
  }
  const all = [...lines.reverse(), ...buffer.lines].slice(0, LOG_LINES)
  return { lines: all, isOpened }
}

export const LOG_FILTERS = ['all', 'ok', 'notFound', 'refused', 'rejected', 'failed'] as const
export type LogFilter = (typeof LOG_FILTERS)[number]

/** The kind of outcome of a request; one without a status failed. */
export function outcomeOf(status: number | null): Exclude<LogFilter, 'all'> {
  if (status === null || status >= 500) return 'failed'
  if (status === 404) return 'notFound'
  if (status === 429) return 'refused'
  return status >= 400 ? 'rejected' : 'ok'
}

/** The lines that a filter shows; places where some are missing always. */
export const selectLines = (lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] =>
  filter === 'all'
    ? lines
    : lines.filter(line => line.kind === 'gap' || outcomeOf(line.entry.status) === filter)
