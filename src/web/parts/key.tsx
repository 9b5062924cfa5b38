/** A key as its owner and the operator see it: name, plan, limits, use today. */
import type { ComponentChildren } from 'preact'
import type { KeyReport } from '../../api/key-report.ts'
import { Bars, Level } from './amounts.tsx'
import { type Format, fill } from './format.ts'
import { Card, Facts } from './table.tsx'
import type { KEY_WORDS } from './translations.ts'

/** A limit of a key; times in seconds. */
type LimitLeft = KeyReport['limits'][number]

type KeySay = Format & { words: { readonly [name in keyof typeof KEY_WORDS]: string } }

/** The word for a name from the server, or the name itself. */
function named({ words }: KeySay, prefix: 'limit_' | 'state_', name: string): string {
  const all: { readonly [name: string]: string } = words
  return all[prefix + name] ?? name
}

export const State = ({ state, say }: { state: string; say: KeySay }) => (
  <span class="status" data-ok={state === 'active' || undefined}>
    {named(say, 'state_', state)}
  </span>
)

type AboutProps = {
  name: string
  state: string
  ids: string
  facts: Parameters<typeof Facts>[0]['facts']
  /** Buttons. */
  children?: ComponentChildren
  say: KeySay
}

export const About = ({ name, state, ids, facts, children, say }: AboutProps) => (
  <section class="card about" aria-label={name}>
    <h2>
      {name} <State state={state} say={say} />
    </h2>
    <p class="soft">
      <code>{ids}</code>
    </p>
    <Facts look="key-facts" facts={facts} />
    {children}
  </section>
)

type LimitsProps = { limits: readonly LimitLeft[]; say: KeySay }

/** From this share on, little is left. */
const HIGH = 0.8
const DAY_SECONDS = 86_400

/** The name of a limit, with its window unless that is a day. */
export const limitName = ({ name, window }: LimitLeft, say: KeySay): string =>
  named(say, 'limit_', name) + (window === DAY_SECONDS ? '' : `, ${say.countdown(window)}`)

/** A line for each limit: a bar of its use, and how much is left until when. */
export const Levels = ({ limits, say }: LimitsProps) => (
  <ul class="levels">
    {limits.map(limit => {
      const { name, left, quota, reset } = limit
      const share = quota === 0 ? 1 : 1 - left / quota
      const { words, number, countdown } = say
      return (
        <li key={name}>
          <span>{limitName(limit, say)}</span>
          <Level share={share} isLow={share >= HIGH} />
          <span>
            {fill(words.left, { left: number(left), quota: number(quota) })}
            {left < quota && reset > 0 && `, ${fill(words.reset, { time: countdown(reset) })}`}
          </span>
        </li>
      )
    })}
  </ul>
)

export const Limits = ({ limits, say }: LimitsProps) => (
  <Card title={say.words.limits}>
    {limits.length === 0 ? (
      <p class="soft">{say.words.noLimits}</p>
    ) : (
      <Levels limits={limits} say={say} />
    )}
  </Card>
)

/** A chart of fewer requests says nothing. */
const DRAWN_MIN = 10

export const DayUse = ({ today, say }: { today: NonNullable<KeyReport['today']>; say: KeySay }) => (
  <Card title={say.words.today} hint="UTC">
    <p class="counts">
      {(['requests', 'records', 'refused'] as const).map(count => (
        <span key={count}>
          {say.words[count]} <b>{say.number(today[count])}</b>
        </span>
      ))}
    </p>
    {today.requests >= DRAWN_MIN && (
      <Bars label={say.words.byHour} values={today.hours} show={say.number} />
    )}
  </Card>
)
