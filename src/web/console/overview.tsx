/** The overview: how the service does now, and how it did in the last 24 hours. */
import type { Overview, State, Values } from '../../admin/wire.ts'
import { Card as Part } from '../parts/table.tsx'
import { type Line, TimeChart } from './chart.tsx'
import { greatest, OUTCOMES, sparkPaths, thin, totals } from './chart-data.ts'
import { CheckerCard } from './checker.tsx'
import { useConsole } from './context.ts'
import { Alert, LiveNotice } from './dialog.tsx'
import { FirstDay } from './first-day.tsx'
import { type Live, useLive } from './live.ts'
import { amount, bytes, distance, ms, number, share, UNKNOWN, whole } from './speech.ts'

const [SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS] = [240, 34, 96]

/** A line without numbers, beside the number that it explains. */
export function Spark({ values }: { values: Values }) {
  const { line, area } = sparkPaths(thin(values, SPARK_POINTS), SPARK_WIDTH, SPARK_HEIGHT)
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path class="area" d={area} />
      <path class="line" d={line} />
    </svg>
  )
}

const msOf = (value: number | null): string => (value === null ? UNKNOWN : ms(value))
const sizeOf = (value: number | null): string => (value === null ? UNKNOWN : bytes(value))

type Card = [name: string, value: string, notes: string, values: Values]

/** What the data take, and how much more they can. */
const dataOf = ({ data_bytes: data, free_bytes: free }: Overview['process']): string =>
  `data ${bytes(data)}${free === null ? '' : ` · ${bytes(free)} free`}`

function cardsOf({ list, requests, keys, process, history }: Overview): Card[] {
  const newest = list.newest_seconds
  const age = newest === null ? '' : ` · newest ${distance(-newest)}`
  return [
    ['Proxies', number(list.rows), `${number(list.fresh)} fresh${age}`, history.rows],
    [
      ...(['Requests', `${amount(requests.per_second)}/s`] as const),
      ...([`${share(requests.refused_share)} refused`, totals(history)] as const),
    ],
    ['Answer, p99', msOf(requests.p99_ms), `p50 ${msOf(requests.p50_ms)}`, history.p99_ms],
    ['Keys in use', number(keys.used_today), `of ${number(keys.total)}, today`, history.keys],
    ['Memory', sizeOf(process.rss_bytes), dataOf(process), history.rss_bytes],
  ]
}

const OUTCOME_LOOKS = {
  ok: ['200', 'a'],
  not_found: ['404 nothing matches', 'b'],
  rejected: ['other 4xx', 'e'],
  refused: ['429 over a limit', 'c'],
  failed: ['5xx', 'd'],
} as const

function Charts({ history }: { history: Overview['history'] }) {
  const outcome = (outcome: (typeof OUTCOMES)[number]): Line => {
    const [name, tone] = OUTCOME_LOOKS[outcome]
    return { name, tone, values: history[outcome] }
  }
  const common = { at: history.at, everySeconds: history.every_seconds, show: amount }
  return (
    <div class="charts">
      <TimeChart
        {...common}
        title="Requests"
        unit="per second, last 24 hours"
        lines={OUTCOMES.map(outcome)}
        isStacked
      />
      <TimeChart
        {...common}
        title="Answer time"
        unit="milliseconds"
        lines={[
          { name: 'p50', tone: 'a', values: history.p50_ms },
          { name: 'p99', tone: 'b', values: history.p99_ms, merge: greatest },
        ]}
      />
      <TimeChart
        {...common}
        title="Refusals"
        unit="per second"
        lines={(['refused', 'rejected', 'failed'] as const).map(outcome)}
      />
      <TimeChart
        {...common}
        title="List"
        unit="proxies"
        lines={[
          { name: 'all', tone: 'b', values: history.rows },
          { name: 'fresh', tone: 'a', values: history.fresh },
        ]}
        show={whole}
      />
    </div>
  )
}

/** What needs attention, each with the way to its cause; what is of the overview is seen below. */
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
  const live = useLive<Overview>(useConsole().client, '/console/overview', REFRESH_SECONDS)
  // Not before what stands above it is known: nothing is moved.
  const value = state.value === null && state.problem === null ? null : live.value
  return (
    <>
      {state.value && <NeedsAttention {...state.value} />}
      <LiveNotice live={live} />
      {value && <FirstDay overview={value} />}
      {value && (
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
      )}
      {value && <CheckerCard checker={value.checker} />}
      {value && value.history.at.length > 0 && <Charts history={value.history} />}
      {value?.history.at.length === 0 && (
        <p class="card empty">Nothing was measured yet. The first point appears within a minute.</p>
      )}
    </>
  )
}
