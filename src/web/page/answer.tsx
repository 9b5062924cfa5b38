/** Proxies as a table: examples at first, then an answer with its status, size and limits. */
import { useState } from 'preact/hooks'
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { Radios } from '../parts/form.tsx'
import { fill } from '../parts/format.ts'
import { OperatorLinks } from '../parts/header.tsx'
import { Levels } from '../parts/key.tsx'
import { Scroller, Table } from '../parts/table.tsx'
import type { Answer, Problem as ProblemText, Row } from './model/answer.ts'
import type { StatsState } from './model/service.ts'
import type { Say } from './translations.ts'

const ROWS_MAX = 100
const TEXT_MAX = 20_000
type View = 'table' | 'raw'
/** The columns of whole records. */
const COLUMNS = ['ip', 'port', 'type', 'country', 'city', 'ping', 'works', 'timecheck']

function columnsOf(rows: readonly Row[]): string[] {
  const names = Object.keys(rows[0] ?? {})
  return names.length > COLUMNS.length ? COLUMNS.filter(name => names.includes(name)) : names
}

const textOf = (value: unknown): string => {
  if (value === true) return '✓'
  return value === false || value === null || value === undefined ? '' : String(value)
}

/** How long before `at`, in Unix seconds, a proxy was checked. The API writes `timecheck` in UTC+2. */
function Ago({ timecheck, at, say }: { timecheck: string; at: number; say: Say }) {
  const ms = Date.parse(`${timecheck.replace(' ', 'T')}+02:00`)
  return <span title={say.utc(ms)}>{say.age(Math.max(0, at - ms / 1000))}</span>
}

type RowsProps = {
  rows: readonly Row[]
  /** When they were listed, in Unix seconds. */
  at: number
  say: Say
}

function Rows({ rows, at, say }: RowsProps) {
  const { words, unit, percent, country } = say
  const columns = columnsOf(rows)
  const cells: { readonly [member: string]: (text: string) => preact.ComponentChildren } = {
    country: text => (
      <>
        <i class="tag">{text}</i> <span class="more">{country(text)}</span>
      </>
    ),
    ping: text => unit(Math.round(Number(text) * 1000), 'millisecond'),
    works: text => percent(Number(text)),
    timecheck: text => <Ago timecheck={text} at={at} say={say} />,
  }
  return (
    <Scroller name={words.asTable}>
      <Table
        columns={columns.map(name => ({
          name,
          head: <span>{words[`head_${name}` as 'head_ip'] ?? name}</span>,
          more: { 'data-member': name },
        }))}
      >
        {rows.slice(0, ROWS_MAX).map((row, i) => (
          <tr key={`${i} ${row.ip}`}>
            {columns.map(name => {
              const text = textOf(row[name])
              return (
                <td key={name} data-member={name} title={name === 'city' ? text : undefined}>
                  {text === '' ? '' : (cells[name]?.(text) ?? text)}
                </td>
              )
            })}
          </tr>
        ))}
      </Table>
    </Scroller>
  )
}

type FactsProps = { answer: Answer; view: View; setView: (view: View) => void; say: Say }

function Facts({ answer, view, setView, say }: FactsProps) {
  const { words, number, plural, unit, bytes } = say
  const { status, rows, count, ms } = answer
  return (
    <div class="row facts">
      <b class="status" data-ok={status < 400 || undefined}>
        {status}
      </b>
      {count !== null && (
        <span>
          {number(count)} {plural(count, words.rows)}
        </span>
      )}
      <span>{unit(ms, 'millisecond', ms < 10 ? 1 : 0)}</span>
      <span>{bytes(answer.bytes)}</span>
      {rows !== null && (
        <Radios
          label={words.form}
          name="form"
          value={view}
          onChange={setView}
          options={[
            ['table', words.asTable],
            ['raw', words.asText],
          ]}
        />
      )}
    </div>
  )
}

/** What went wrong, and for keys and limits the links to the operator. */
export function Problem({ code, message, say }: ProblemText & { say: Say }) {
  return (
    <div class="alert problem">
      <b>{code}</b>
      <p>{say.problem({ code, message })}</p>
      {/KEY|LIMIT/.test(code) && (
        <p class="operator">
          <OperatorLinks words={say.words} />
        </p>
      )}
    </div>
  )
}

type AnswerProps = { answer: Answer; note: string | null; at: number; say: Say }

export function AnswerView({ answer, note, at, say }: AnswerProps) {
  const [view, setView] = useState<View>('table')
  const { words, number } = say
  const { rows, problem, text, isCut, limits } = answer
  const isTable = rows !== null && view === 'table'
  return (
    <div class="answer">
      <Facts answer={answer} view={view} setView={setView} say={say} />
      {note !== null && <p>{note}</p>}
      {limits.length > 0 && <Levels limits={limits} say={say} />}
      {problem !== null && <Problem {...problem} say={say} />}
      {isTable && <Rows rows={rows} at={at} say={say} />}
      {problem === null && !isTable && (
        <Scroller name={words.asText}>
          <pre>{text.slice(0, TEXT_MAX)}</pre>
        </Scroller>
      )}
      {isTable && rows.length > ROWS_MAX && (
        <p class="soft">{fill(words.firstRows, { n: number(ROWS_MAX) })}</p>
      )}
      {isCut && <p class="soft">{words.isCut}</p>}
    </div>
  )
}

/** Placeholders until the statistics are there. */
const BLANK: readonly Row[] = Array.from({ length: 20 }, () =>
  Object.fromEntries(COLUMNS.filter(name => name !== 'port').map(name => [name, ''])),
)

type ExamplesProps = { kind: StatsState['kind']; stats: StatsDocument | null; say: Say }

/** Matching proxies of now, or why there are none. */
export function Examples({ kind, stats, say }: ExamplesProps) {
  const { words } = say
  const none = stats?.total === 0 ? words.isEmptyList : words.isNone
  if (stats === null ? kind !== 'loading' : stats.examples.length === 0) {
    return <p class="empty">{stats === null ? words.noExamples : none}</p>
  }
  return (
    <div class="answer">
      <p class="row facts">{words.examples}</p>
      <Rows rows={stats?.examples ?? BLANK} at={stats?.at ?? 0} say={say} />
    </div>
  )
}
