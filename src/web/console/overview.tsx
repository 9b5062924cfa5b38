/** Owns the overview: how the service does now, and how it did in the last 24 hours. */

import type { Overview, Values } from '../../admin/wire.ts'
import { Spark } from '../parts/amounts.tsx'
import { fill } from '../parts/speech.ts'
import { type Line, TimeChart } from './chart.tsx'
import { greatest, OUTCOMES, totals } from './chart-data.ts'
import { useConsole } from './context.ts'
import type { Live } from './live.ts'
import { LiveNotice } from './notice.tsx'
import type { ConsoleSpeech } from './speech.ts'

type Card = { name: string; value: string; notes: readonly string[]; values: Values }

function cardsOf(
  { list, requests, keys, process, history }: Overview,
  speech: ConsoleSpeech,
): Card[] {
  const { words, number, amount, ms, bytes, share, distance } = speech
  const orUnknown = (value: number | null): string => (value === null ? words.unknown : ms(value))
  const age = list.newest_seconds
  return [
    {
      name: words.proxies,
      value: number(list.rows),
      notes: [
        fill(words.fresh, { n: number(list.fresh) }),
        ...(age === null ? [] : [fill(words.newest, { age: distance(-age) })]),
      ],
      values: history.rows,
    },
    {
      name: words.perSecond,
      value: fill(words.perSecondValue, { n: amount(requests.per_second) }),
      notes: [fill(words.refusedShare, { share: share(requests.refused_share) })],
      values: totals(history),
    },
    {
      name: words.answerTime,
      value: orUnknown(requests.p99_ms),
      notes: [fill(words.answerP50, { time: orUnknown(requests.p50_ms) })],
      values: history.p99_ms,
    },
    {
      name: words.keysInUse,
      value: number(keys.used_today),
      notes: [fill(words.ofKeys, { n: number(keys.total) })],
      values: history.keys,
    },
    {
      name: words.memory,
      value: bytes(process.rss_bytes),
      notes: [fill(words.dataSize, { size: bytes(process.data_bytes) })],
      values: history.rss_bytes,
    },
  ]
}

const Cards = ({ overview }: { overview: Overview }) => {
  const { speech } = useConsole()
  return (
    <ul class="cards">
      {cardsOf(overview, speech).map(({ name, value, notes, values }) => (
        <li class="card" key={name}>
          <p>{name}</p>
          <b>{value}</b>
          <small>{notes.join(' · ')}</small>
          <Spark values={values} />
        </li>
      ))}
    </ul>
  )
}

const OUTCOME_TONES = { ok: 'a', not_found: 'b', rejected: 'e', refused: 'c', failed: 'd' } as const
const REFUSALS = ['refused', 'rejected', 'failed'] as const

function Charts({ history }: { history: Overview['history'] }) {
  const { words, amount, whole } = useConsole().speech
  if (history.at.length === 0) return <p class="card empty">{words.noHistory}</p>
  const names = { ...words, not_found: words.notFound }
  const outcome = (name: (typeof OUTCOMES)[number]): Line => ({
    name: names[name],
    tone: OUTCOME_TONES[name],
    values: history[name],
  })
  const common = { at: history.at, everySeconds: history.every_seconds }
  return (
    <div class="charts">
      <TimeChart
        {...common}
        title={words.requestsChart}
        unit={words.requestsUnit}
        lines={OUTCOMES.map(outcome)}
        show={amount}
        isStacked
      />
      <TimeChart
        {...common}
        title={words.timeChart}
        unit={words.timeUnit}
        lines={[
          { name: words.p50, tone: 'a', values: history.p50_ms },
          { name: words.p99, tone: 'b', values: history.p99_ms, merge: greatest },
        ]}
        show={amount}
      />
      <TimeChart
        {...common}
        title={words.refusalsChart}
        unit={words.refusalsUnit}
        lines={REFUSALS.map(outcome)}
        show={amount}
      />
      <TimeChart
        {...common}
        title={words.listChart}
        unit={words.listUnit}
        lines={[
          { name: words.rows, tone: 'b', values: history.rows },
          { name: words.freshRows, tone: 'a', values: history.fresh },
        ]}
        show={whole}
      />
    </div>
  )
}

export function OverviewView({ live }: { live: Live<Overview> }) {
  const { words } = useConsole().speech
  const { value } = live
  return (
    <>
      <LiveNotice live={live} />
      {value && !value.ready && (
        <p class="alert" role="alert">
          {fill(words.serverNotReady, { problem: value.problem ?? '' })}
        </p>
      )}
      {value && <Cards overview={value} />}
      {value && <Charts history={value.history} />}
    </>
  )
}
