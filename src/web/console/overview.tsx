/** The overview: what needs attention, current figures, and charts of the last hour or day. */
import type { History, KeyPage, Overview, State } from '../../admin/api-types.ts'
import { Card, Facts, Table } from '../parts/table.tsx'
import { keyHref, paramsOf } from './address.ts'
import { TimeChart } from './chart.tsx'
import { latest, OUTCOMES, totals } from './chart-data.ts'
import { useConsole } from './context.ts'
import { Alert, LiveNotice } from './dialog.tsx'
import {
  ago,
  amount,
  bytes,
  countdown,
  distance,
  ms,
  number,
  share,
  UNKNOWN,
  unit,
} from './format.ts'
import { ALL_KEYS, pathOf } from './key-filter.ts'
import { type Live, useLive } from './live.ts'

const msOf = (value: number | null): string => (value === null ? UNKNOWN : ms(value))
const sizeOf = (value: number | null): string => (value === null ? UNKNOWN : bytes(value))

type Tile = [name: string, value: string, notes: string]

function tilesOf({ list, keys, process, history }: Overview): Tile[] {
  const { rss_bytes, data_bytes, free_bytes: free } = process
  const newest = list?.newest_seconds ?? null
  const age = newest === null ? '' : ` · newest ${distance(-newest)}`
  const space = free === null ? '' : ` · ${bytes(free)} free`
  const rows = list ? number(list.rows) : UNKNOWN
  const count = list?.fresh ?? null
  const counting = list ? 'counting…' : ''
  const fresh = count === null ? counting : `${number(count)} fresh`
  const rate = latest(totals(history))
  const perSecond = rate === null ? UNKNOWN : `${amount(rate)}/s`
  const refused = rate ? (latest(history.refused) ?? 0) / rate : 0
  const span = `last ${unit(history.every_seconds / 60, 'minute')}`
  const p50 = `p50 ${msOf(latest(history.p50_ms))}`
  return [
    ['Proxies', rows, fresh + age],
    ['Requests', perSecond, `${share(refused)} refused · ${span}`],
    ['Answer time, p99', msOf(latest(history.p99_ms)), `${p50} · ${span}`],
    ['Keys in use', number(keys.used_today), `of ${number(keys.total)}, today`],
    ['Memory', sizeOf(rss_bytes), `data ${bytes(data_bytes)}${space}`],
  ]
}

type Checker = NonNullable<Overview['checker']>

const reasonsOf = ({ failures }: Checker): string =>
  Object.entries(failures)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, n]) => `${number(n)} ${reason}`)
    .join(', ') || 'none'

const factsOf = (checker: Checker): (readonly [name: string, value: string])[] => {
  const { queues, coverage, checked, alive, deferred, per_second: rate } = checker
  const { living, down, raw } = queues
  return [
    ['Addresses', `${number(living)} living, ${number(down)} down, ${number(raw)} never alive`],
    ['Found within ten minutes', coverage === null ? UNKNOWN : `${share(coverage)} of the living`],
    ['Checks', `${amount(rate)}/s · ${number(alive)} of ${number(checked)} alive`],
    ['Deferred', number(deferred)],
    ['Failed', reasonsOf(checker)],
    ['Late by at most', `${amount(checker.lag_seconds)} s`],
    ['Sent and received', bytes(checker.bytes)],
  ]
}

const CheckerCard = ({ checker }: { checker: Checker | null }) =>
  checker && (
    <Card title="Checker" hint={ago(checker.at)}>
      <Facts look="key-facts" facts={factsOf(checker)} />
    </Card>
  )

const OUTCOME_LOOKS = {
  ok: ['200', 'a'],
  not_found: ['404', 'b'],
  rejected: ['other 4xx', 'e'],
  refused: ['429', 'c'],
  failed: ['5xx', 'd'],
} as const

const RANGES = ['1h', '24h'] as const

function Charts({ history }: { history: History }) {
  const outcomes = OUTCOMES.map(outcome => {
    const [name, tone] = OUTCOME_LOOKS[outcome]
    return { name, tone, values: history[outcome] }
  })
  const times = [
    { name: 'p50', tone: 'a', values: history.p50_ms },
    { name: 'p99', tone: 'b', values: history.p99_ms },
  ]
  const rows = [
    { name: 'all', tone: 'b', values: history.rows },
    { name: 'fresh', tone: 'a', values: history.fresh },
  ]
  const common = { history, show: amount }
  return (
    <>
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
      {history.at.length === 0 && <p class="soft">The charts begin after the first full minute.</p>}
      <div class="charts">
        {history.at.length > 0 && (
          <>
            <TimeChart title="Requests" unit="per second" lines={outcomes} isStacked {...common} />
            <TimeChart title="Answer time" unit="milliseconds" lines={times} {...common} />
            <TimeChart title="List" unit="proxies" lines={rows} {...common} />
          </>
        )}
        <BusiestKeys />
      </div>
    </>
  )
}

const BUSIEST = 5
const BUSIEST_SECONDS = 30
const BUSIEST_COLUMNS = ['Key', ...['Requests', 'Refused'].map(name => ({ name, look: 'number' }))]

function BusiestKeys() {
  const { value } = useLive<KeyPage>(useConsole().client, pathOf(ALL_KEYS), BUSIEST_SECONDS)
  const used = value?.keys.filter(key => key.requests_today + key.refused_today > 0) ?? []
  return (
    <Card title="Busiest keys" hint="today, UTC">
      {used.length > 0 ? (
        <Table columns={BUSIEST_COLUMNS}>
          {used.slice(0, BUSIEST).map(({ id, label, requests_today, refused_today }) => (
            <tr key={id}>
              <th scope="row" class="col-label">
                <a href={keyHref(id)}>{label || id}</a>
              </th>
              <td class="number">{number(requests_today)}</td>
              <td class="number">{number(refused_today)}</td>
            </tr>
          ))}
        </Table>
      ) : (
        <p class="soft">{value === null ? 'Loading…' : 'No key has sent a request today.'}</p>
      )}
    </Card>
  )
}

/** What needs attention, with links to the causes that another view shows. */
function NeedsAttention({ ready, problem, attention }: State) {
  return (
    <>
      {!ready && <Alert>The server is not ready: {problem}</Alert>}
      {attention.length > 0 && (
        <Card title="Needs attention" look="attention">
          <ul>
            {attention.map(({ sentence, link }) => (
              <li key={sentence}>
                {link === '#overview' ? sentence : <a href={link}>{sentence}</a>}
              </li>
            ))}
          </ul>
        </Card>
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
          <ul class="cards">
            {tilesOf(value).map(([name, figure, notes]) => (
              <li class="card" key={name}>
                <p class="soft">{name}</p>
                <b>{figure}</b>
                <small>{notes}</small>
              </li>
            ))}
          </ul>
          <CheckerCard checker={value.checker} />
          <Charts history={value.history} />
          {state.value && (
            <p class="soft">
              proxylist {state.value.version}, up for {countdown(state.value.uptime_seconds)}
            </p>
          )}
        </>
      )}
    </>
  )
}
