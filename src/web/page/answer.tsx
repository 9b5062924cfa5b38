/** Proxies as a table: examples before anybody asks; then an answer, with its status, size and limits. */
import { useState } from 'preact/hooks'
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { copyText } from '../parts/copy.ts'
import { Radios } from '../parts/form.tsx'
import { fill } from '../parts/format.ts'
import { OperatorLinks } from '../parts/header.tsx'
import { Levels } from '../parts/key.tsx'
import { Scroller, Table } from '../parts/table.tsx'
import { type Answer, FILES, type FileForm, type Row } from './model/answer.ts'
import type { Known } from './model/service.ts'
import type { Say } from './translations.ts'

const ROWS_MAX = 100
const TEXT_MAX = 20_000
type View = 'table' | 'raw'
/** Members that are worth a column. */
const COLUMNS = ['ip', 'port', 'type', 'country', 'city', 'ping', 'works', 'timecheck'] as const

/** Those of whole records; else all that there are: the text of the answer has the others. */
function columnsOf(rows: readonly Row[]): { columns: string[]; areWhole: boolean } {
  const names = [...new Set(rows.slice(0, ROWS_MAX).flatMap(row => Object.keys(row)))]
  const first = COLUMNS.filter(name => names.includes(name))
  const areWhole = names.length > COLUMNS.length || rows === BLANK
  const others = names.filter(name => !COLUMNS.some(each => each === name))
  return { columns: areWhole ? first : [...first, ...others], areWhole }
}

const textOf = (value: unknown): string => {
  if (value === true) return '✓'
  return value === false || value === null || value === undefined ? '' : String(value)
}

function Address({ text, say }: { text: string; say: Say }) {
  const [copied, setCopied] = useState('')
  return (
    <button
      type="button"
      class="quiet"
      title={copied === text ? say.words.copied : say.words.copy}
      data-copied={copied === text || undefined}
      onClick={async event => {
        if (await copyText(text, event.currentTarget)) setCopied(text)
      }}
    >
      {text}
    </button>
  )
}

/** How long before `at`, in Unix seconds, a proxy was checked: the API's times are of UTC+2. */
function ago(timecheck: string, at: number, say: Say): string {
  const checked = Date.parse(`${timecheck.replace(' ', 'T')}+02:00`) / 1000
  return Number.isNaN(checked) ? timecheck : say.age(Math.max(0, at - checked))
}

type RowsProps = {
  rows: readonly Row[]
  /** When they were listed, in Unix seconds. */
  at: number
  /** Whether addresses are whole enough to be copied. */
  isOwn?: boolean
  say: Say
}

function Rows({ rows, at, isOwn, say }: RowsProps) {
  const { words, unit, percent, country } = say
  const { columns, areWhole } = columnsOf(rows)
  const cells: { readonly [member: string]: (text: string) => preact.ComponentChildren } = {
    ip: text => (isOwn ? <Address text={text} say={say} /> : text),
    country: text => (
      <>
        <i class="tag">{text}</i> <span class="more">{country(text)}</span>
      </>
    ),
    ping: text => unit(Math.round(Number(text) * 1000), 'millisecond'),
    works: text => percent(Number(text)),
    timecheck: text => ago(text, at, say),
  }
  return (
    <Scroller name={words.asTable}>
      <Table
        look={areWhole ? 'proxies' : ''}
        columns={columns.map(name => ({
          name,
          head: <span>{say.named('head_', name) ?? name}</span>,
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

/** Rows as a file: they are here already, so that it costs no request. */
function save(rows: readonly Row[], form: FileForm): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([FILES[form](rows)]))
  link.download = `proxies.${form}`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

const Downloads = ({ rows, say }: { rows: readonly Row[]; say: Say }) => (
  <span class="downloads">
    {say.words.save}
    {(['txt', 'csv', 'json'] as const).map(form => (
      <button key={form} type="button" class="quiet" onClick={() => save(rows, form)}>
        {form.toUpperCase()}
      </button>
    ))}
  </span>
)

type FactsProps = { answer: Answer; view: View; setView: (view: View) => void; say: Say }

function Facts({ answer, view, setView, say }: FactsProps) {
  const { words, number, plural, unit, bytes } = say
  const { status, rows, ms, sentBytes } = answer
  const size = bytes(answer.bytes)
  return (
    <div class="facts">
      <b class="status" data-ok={status < 400 || undefined}>
        {status}
      </b>
      {rows !== null && (
        <span>
          {number(rows.length)} {plural(rows.length, words.rows)}
        </span>
      )}
      <span>{unit(ms, 'millisecond', ms < 10 ? 1 : 0)}</span>
      <span>
        {size}
        {sentBytes !== null && sentBytes < answer.bytes && <small> → {bytes(sentBytes)}</small>}
      </span>
      {rows !== null && !answer.isCut && <Downloads rows={rows} say={say} />}
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

/** An error in words: what the service says, and what can be done. */
export function Problem({ code, message, say }: { code: string; message: string; say: Say }) {
  const hint = message.endsWith('the list is empty') ? null : say.named('hint_', code)
  return (
    <div class="alert problem">
      <b>{code}</b>
      <p>{message}</p>
      {hint !== null && <p class="soft">{hint}</p>}
      {/KEY|LIMIT/.test(code) && (
        <p class="operator">
          <OperatorLinks words={say.words} />
        </p>
      )}
    </div>
  )
}

type AnswerProps = { answer: Answer; at: number; say: Say }

export function AnswerView({ answer, at, say }: AnswerProps) {
  const [view, setView] = useState<View>('table')
  const { words, number } = say
  const { rows, problem, text, isCut, limits } = answer
  const isTable = rows !== null && view === 'table'
  return (
    <div class="answer">
      <Facts answer={answer} view={view} setView={setView} say={say} />
      <Levels limits={limits} say={say} />
      {problem !== null && <Problem {...problem} say={say} />}
      {isTable && <Rows rows={rows} at={at} isOwn say={say} />}
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

/** Stands where the rows of the statistics will be. */
const BLANK: readonly Row[] = Array.from({ length: 20 }, () =>
  Object.fromEntries(COLUMNS.filter(name => name !== 'port').map(name => [name, ''])),
)

type ExamplesProps = { kind: Known['kind']; stats: StatsDocument | null; say: Say }

/** What matches now, before anybody asks; a sentence where there is nothing to show. */
export function Examples({ kind, stats, say }: ExamplesProps) {
  const { words } = say
  const none = stats?.total === 0 ? words.isEmptyList : words.isNone
  if (stats === null ? kind !== 'loading' : stats.examples.length === 0) {
    return <p class="empty">{stats === null ? words.noExamples : none}</p>
  }
  return (
    <div class="answer">
      <p class="facts">{words.examples}</p>
      <Rows rows={stats?.examples ?? BLANK} at={stats?.at ?? 0} say={say} />
    </div>
  )
}
