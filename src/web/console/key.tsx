/** Owns the view of one key: what is known of it, and what can be done with it. */
import { useCallback, useState } from 'preact/hooks'
import type { KeyReport, Limit } from '../../admin/wire.ts'
import { Bars, Use } from '../parts/amounts.tsx'
import { unixMs } from '../parts/clock.ts'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import { daysUntil } from './days.ts'
import { KeyActions } from './key-actions.tsx'
import { State } from './key-row.tsx'
import { useLive } from './live.ts'
import { Empty, LiveNotice } from './notice.tsx'
import { LIMITS, type LimitName } from './plan-fields.ts'

const REFRESH_SECONDS = 10
const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'))

const DAY_SECONDS = 86_400

const isNamed = (name: string): name is LimitName => LIMITS.some(limit => limit === name)

function Facts({ report }: { report: KeyReport }) {
  const { words, moment, relative } = useConsole().speech
  const { plan, created, expires, last_seen, old_secret_until } = report
  const facts = [
    [words.plan, plan === 'temp' ? words.temporary : plan],
    [words.created, moment(created)],
    [words.ends, expires === null ? words.never : moment(expires)],
    [words.lastSeen, last_seen === null ? words.notSeen : relative(last_seen, unixMs())],
    ...(old_secret_until === null
      ? []
      : [[words.oldSecret, fill(words.worksUntil, { time: moment(old_secret_until) })]]),
  ]
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function Limits({ limits }: { limits: readonly Limit[] }) {
  const { words, number, countdown, distance } = useConsole().speech
  if (limits.length === 0) return <Empty>{words.noLimits}</Empty>
  const per = (window: number): string =>
    window === DAY_SECONDS ? words.perDay : fill(words.perWindow, { window: countdown(window) })
  return (
    <ul class="limits">
      {limits.map(({ name, quota, window, left, reset }) => (
        <li key={name}>
          <span>{isNamed(name) ? words[name] : name}</span>
          <b>{fill(words.leftOf, { left: number(left), quota: number(quota) })}</b>
          <Use used={quota - left} limit={quota} />
          <small>
            {left === quota
              ? per(window)
              : `${per(window)}, ${fill(words.resetsIn, { time: distance(reset) })}`}
          </small>
        </li>
      ))}
    </ul>
  )
}

function Days({ report }: { report: KeyReport }) {
  const { words, number, day } = useConsole().speech
  const days = daysUntil(unixMs(), report.days)
  return (
    <>
      <Bars
        label={words.useDays}
        values={days.map(({ requests }) => requests)}
        names={days.map(each => day(each.day))}
        show={number}
      />
      <details>
        <summary>{words.asDays}</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.day}</th>
              {[words.requests, words.records, words.refusals].map(name => (
                <th scope="col" class="number" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {days.toReversed().map(each => (
              <tr key={each.day}>
                <th scope="row">{each.day}</th>
                <td class="number">{number(each.requests)}</td>
                <td class="number">{number(each.records)}</td>
                <td class="number">{number(each.refused)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  )
}

function Report({ report }: { report: KeyReport }) {
  const { words, number } = useConsole().speech
  const { today } = report
  const hours = HOURS.map((name, hour) => `${name}: ${number(today.hours[hour] ?? 0)}`)
  const counts = [
    [words.requests, today.requests],
    [words.records, today.records],
    [words.refusals, today.refused],
  ] as const
  return (
    <div class="charts">
      <section class="card" aria-label={words.limits}>
        <h2>{words.limits}</h2>
        <Limits limits={report.limits} />
      </section>
      <section class="card" aria-label={words.useToday}>
        <h2>
          {words.useToday} <small>{words.utc}</small>
        </h2>
        <p class="counts">
          {counts.map(([name, n]) => (
            <span key={name}>
              {name} <b>{number(n)}</b>
            </span>
          ))}
        </p>
        <Bars
          label={`${words.useToday}. ${hours.join(', ')}`}
          values={today.hours}
          names={HOURS}
          show={number}
        />
      </section>
      <section class="card wide" aria-label={words.useDays}>
        <h2>
          {words.useDays} <small>{words.lastDays}</small>
        </h2>
        <Days report={report} />
      </section>
    </div>
  )
}

export function KeyView({ id }: { id: string }) {
  const { client, speech } = useConsole()
  const { words } = speech
  const [isRemoved, setRemoved] = useState(false)
  const load = useCallback(
    (signal: AbortSignal) => client.get<KeyReport>(`/console/keys/${id}`, signal),
    [client, id],
  )
  const live = useLive(load, REFRESH_SECONDS)
  const report = live.value
  return (
    <>
      <a class="quiet" href="#keys">
        ← {words.backToKeys}
      </a>
      {!isRemoved && <LiveNotice live={live} />}
      {report && (
        <>
          <section class="card about" aria-label={words.key}>
            <h2>
              {report.label === '' ? words.noLabel : report.label} <State state={report.state} />
            </h2>
            <p class="soft">
              <code>{report.prefix}…</code> <code class="id">{report.id}</code>
            </p>
            <Facts report={report} />
            <KeyActions
              report={report}
              onChanged={live.refresh}
              onRemoved={() => {
                setRemoved(true)
                location.hash = '#keys'
              }}
            />
          </section>
          <Report report={report} />
        </>
      )}
    </>
  )
}
