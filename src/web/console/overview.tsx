/** The overview: what needs attention, current figures, and charts of the last hour or day. */
import { useMemo, useState } from 'preact/hooks'
import type { History, Overview, State, Values } from '../../admin/api-types.ts'
import { Card as Part } from '../parts/table.tsx'
import { paramsOf } from './address.ts'
import { Spark, TimeChart } from './chart.tsx'
import { OUTCOMES, totals } from './chart-data.ts'
import { CheckerCard } from './checker.tsx'
import { useConsole } from './context.ts'
import { Alert, LiveNotice } from './dialog.tsx'
import { FirstDay } from './first-day.tsx'
import { amount, bytes, distance, ms, number, share, UNKNOWN, whole, zoneName } from './format.ts'
import { type Live, useLive } from './live.ts'

const msOf = (value: number | null): string => (value === null ? UNKNOWN : ms(value))
const sizeOf = (value: number | null): string => (value === null ? UNKNOWN : bytes(value))

type Card = [name: string, value: string, notes: string, values: Values]

function cardsOf({ list, requests, keys, process, history }: Overview): Card[] {
  const { newest_seconds: newest } = list
  const { per_second, refused_share, p50_ms, p99_ms } = requests
  const { rss_bytes, data_bytes, free_bytes: free } = process
  const age = newest === null ? '' : ` · newest ${distance(-newest)}`
  const space = free === null ? '' : ` · ${bytes(free)} free`
  const [rate, refused] = [`${amount(per_second)}/s`, `${share(refused_share)} refused`]
  return [
    ['Proxies', number(list.rows), `${number(list.fresh)} fresh${age}`, history.rows],
    ['Requests', rate, `${refused} · last minute`, totals(history)],
    ['Answer, p99', msOf(p99_ms), `p50 ${msOf(p50_ms)} · last minute`, history.p99_ms],
    ['Keys in use', number(keys.used_today), `of ${number(keys.total)}, today`, history.keys],
    ['Memory', sizeOf(rss_bytes), `data ${bytes(data_bytes)}${space}`, history.rss_bytes],
  ]
}

const OUTCOME_LOOKS = {
  ok: ['200', 'a'],
  not_found: ['404', 'b'],
  rejected: ['other 4xx', 'e'],
  refused: ['429', 'c'],
  failed: ['5xx', 'd'],
} as const

const RANGES = ['1h', '24h'] as const

function Charts({ history }: { history: History }) {
  const [cursor, onCursor] = useState<number | null>(null)
  const charts = useMemo(() => {
    const lineOf = (outcome: (typeof OUTCOMES)[number]) => {
      const [name, tone] = OUTCOME_LOOKS[outcome]
      return { name, tone, values: history[outcome] }
    }
    const { p50_ms, p99_ms, rows, fresh } = history
    const [rate, show] = ['per second', amount]
    return [
      { title: 'Requests', unit: rate, lines: OUTCOMES.map(lineOf), isStacked: true, show },
      {
        ...{ title: 'Answer time', unit: 'milliseconds', show },
        lines: [
          { name: 'p50', tone: 'a', values: p50_ms },
          { name: 'p99', tone: 'b', values: p99_ms },
        ],
      },
      {
        ...{ title: 'Refusals', unit: rate, show },
        lines: (['refused', 'rejected', 'failed'] as const).map(lineOf),
      },
      {
        ...{ title: 'List', unit: 'proxies', show: whole },
        lines: [
          { name: 'all', tone: 'b', values: rows },
          { name: 'fresh', tone: 'a', values: fresh },
        ],
      },
    ]
  }, [history])
  return (
    <>
      <div class="bar-above">
        <nav class="switch" aria-label="Range">
          {RANGES.map(range => (
            <a
              key={range}
              href={`#overview?range=${range}`}
              aria-current={range === history.range ? 'true' : undefined}
            >
              {range}
            </a>
          ))}
        </nav>
        <span class="soft">times in {zoneName()}</span>
      </div>
      <div class="charts">
        {charts.map(chart => (
          <TimeChart key={chart.title} {...{ ...chart, history, cursor, onCursor }} />
        ))}
      </div>
    </>
  )
}

/** What needs attention, each with a link to its cause unless that is on this view. */
function NeedsAttention({ ready, problem, attention }: State) {
  return (
    <>
      {!ready && <Alert>The server is not ready: {problem}</Alert>}
      {attention.length > 0 && (
        <Part title="Needs attention" look="attention">
          <ul>
            {attention.map(({ sentence, link }) => (
              <li key={sentence}>
                {link === '#overview' ? sentence : <a href={link}>{sentence}</a>}
              </li>
            ))}
          </ul>
        </Part>
      )}
    </>
  )
}

const REFRESH_SECONDS = 10

export function OverviewView({ state }: { state: Live<State> }) {
  const range = paramsOf(location.hash).get('range') ?? ''
  const path = `/console/overview${RANGES.some(each => each === range) ? `?range=${range}` : ''}`
  const live = useLive<Overview>(useConsole().client, path, REFRESH_SECONDS)
  // Wait for both, so that the layout does not jump.
  const areKnown = [state, live].every(({ value, problem }) => value !== null || problem !== null)
  const value = areKnown ? live.value : null
  return (
    <>
      {areKnown && state.value && <NeedsAttention {...state.value} />}
      <LiveNotice live={live} />
      {value && (
        <>
          <FirstDay {...value} pageUrl={state.value?.page_url ?? ''} />
          <ul class="cards">
            {cardsOf(value).map(([name, amount, notes, values]) => (
              <li class="card" key={name}>
                <p class="soft">{name}</p>
                <b>{amount}</b>
                <small>{notes}</small>
                <Spark values={values} />
              </li>
            ))}
          </ul>
          <CheckerCard checker={value.checker} />
          <Charts history={value.history} />
        </>
      )}
    </>
  )
}
