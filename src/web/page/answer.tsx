/** An answer: status, rows, time and size, limits, and its rows as a table or raw. */
import { useState } from 'preact/hooks'
import { Radios } from '../parts/form.tsx'
import { Levels } from '../parts/key.tsx'
import { fill } from '../parts/speech.ts'
import { Scroller, Table } from '../parts/table.tsx'
import type { Answer, Row } from './model/answer.ts'
import type { Say } from './words.ts'

const ROWS_MAX = 100
const TEXT_MAX = 20_000
type View = 'table' | 'raw'
/** Members that are worth a column first; others follow as they come. */
const COLUMNS = ['ip', 'port', 'type', 'country', 'ping', 'works', 'city', 'anon', 'speed']

function columnsOf(rows: readonly Row[]): string[] {
  const names = new Set(rows.slice(0, ROWS_MAX).flatMap(row => Object.keys(row)))
  return [
    ...COLUMNS.filter(name => names.has(name)),
    ...[...names].filter(n => !COLUMNS.includes(n)),
  ]
}

const textOf = (value: unknown): string => {
  if (value === true) return '✓'
  return value === false || value === null || value === undefined ? '' : String(value)
}

function Rows({ rows, say }: { rows: readonly Row[]; say: Say }) {
  const columns = columnsOf(rows)
  return (
    <Scroller name={say.words.asTable}>
      <Table columns={columns.map(name => ({ name, more: { 'data-member': name } }))}>
        {rows.slice(0, ROWS_MAX).map((row, i) => (
          <tr key={`${i} ${row.ip}`}>
            {columns.map(name => (
              <td key={name} data-member={name}>
                {textOf(row[name])}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </Scroller>
  )
}

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
  const hint = say.named('hint_', code)
  return (
    <div class="alert problem">
      <b>{code}</b>
      <p>{message}</p>
      {hint !== null && <p class="soft">{hint}</p>}
    </div>
  )
}

export function AnswerView({ answer, say }: { answer: Answer; say: Say }) {
  const [view, setView] = useState<View>('table')
  const { words, number } = say
  const { rows, problem, text, isCut, limits } = answer
  const isTable = rows !== null && view === 'table'
  return (
    <div class="answer">
      <Facts answer={answer} view={view} setView={setView} say={say} />
      <Levels limits={limits} say={say} />
      {problem !== null && <Problem {...problem} say={say} />}
      {isTable && <Rows rows={rows} say={say} />}
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
