/** What the owner and the operator of a key see of it: who it is, what is left of its limits, its use today. */
import type { ComponentChildren } from 'preact'
import type { KeyReport } from '../../api/key-report.ts'
import { Bars, Level } from './amounts.tsx'
import { type Format, fill } from './format.ts'
import type { KEY_WORDS, LimitLeft } from './key-report.ts'
import { Card, Facts } from './table.tsx'

type KeySay = Format & { words: { readonly [name in keyof typeof KEY_WORDS]: string } }

/** A word for a name that came from the service; the name itself where there is none. */
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
  /** How else it is called. */
  ids: ComponentChildren
  facts: Parameters<typeof Facts>[0]['facts']
  /** What can be done with it. */
  children?: ComponentChildren
  say: KeySay
}

export const About = ({ name, state, ids, facts, children, say }: AboutProps) => (
  <section class="card about" aria-label={name}>
    <h2>
      {name} <State state={state} say={say} />
    </h2>
    <p class="soft">{ids}</p>
    <Facts look="key-facts" facts={facts} />
    {children}
  </section>
)

type LimitsProps = { limits: readonly LimitLeft[]; say: KeySay }

/** Below this share, little is left. */
const LOW = 0.2
const DAY_SECONDS = 86_400

/** The name of a limit, with its window unless that is the day. */
export const limitName = ({ name, window }: LimitLeft, say: KeySay): string =>
  named(say, 'limit_', name) + (window === DAY_SECONDS ? '' : `, ${say.countdown(window)}`)

/** A line for each limit: its name, how full it is, and when it is full again. */
export function Levels({ limits, say }: LimitsProps) {
  const { words, number, countdown } = say
  if (limits.length === 0) return null
  return (
    <ul class="levels">
      {limits.map(limit => {
        const { name, left, quota, reset } = limit
        const share = quota === 0 ? 0 : left / quota
        const isUsed = left < quota && reset > 0
        const full = isUsed ? fill(words.reset, { time: countdown(reset) }) : undefined
        return (
          <li key={name}>
            <span>{limitName(limit, say)}</span>
            <Level share={share} isLow={share <= LOW} />
            <span class="level-left" aria-hidden="true">
              <b>{number(left)}</b> / {number(quota)}
            </span>
            <small aria-hidden="true" title={full}>
              {isUsed ? countdown(reset) : ''}
            </small>
            <span class="hidden">
              {fill(words.left, { left: number(left), quota: number(quota) })}
              {full && `, ${full}`}
            </span>
          </li>
        )
      })}
    </ul>
  )
}

export const Limits = ({ limits, say }: LimitsProps) => (
  <Card title={say.words.limits}>
    {limits.length === 0 && <p class="soft">{say.words.noLimits}</p>}
    <Levels limits={limits} say={say} />
  </Card>
)

export const DayUse = ({ today, say }: { today: NonNullable<KeyReport['today']>; say: KeySay }) => (
  <Card title={say.words.byHour} hint={say.words.today}>
    <p class="counts">
      {(['requests', 'records', 'refused'] as const).map(count => (
        <span key={count}>
          {say.words[count]} <b>{say.number(today[count])}</b>
        </span>
      ))}
    </p>
    <Bars label={say.words.byHour} values={today.hours} show={say.number} />
  </Card>
)
