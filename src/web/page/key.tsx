/** Owns the view of a key: its plan, what is left of its limits, and its use of the day by hour. */
import { useState } from 'preact/hooks'
import { nowMs } from '../parts/clock.ts'
import { fill } from '../parts/speech.ts'
import { Problem } from './answer.tsx'
import { useSecondsUntil } from './countdown.ts'
import { DEMO, KeyField } from './key-field.tsx'
import { Levels } from './levels.tsx'
import { isSendable } from './model/answer.ts'
import { askKey, type KeyReply, type KeyUsage, type Today } from './model/key-usage.ts'
import type { Say } from './words/say.ts'

type Asked =
  | { kind: 'none' | 'asking' | 'failed' }
  | { kind: 'replied'; reply: KeyReply; atMs: number }

/** Who the key is: plan, state, expiry. */
function Facts({ usage, say }: { usage: KeyUsage; say: Say }) {
  const { words } = say
  const { id, label, plan, state, expires } = usage
  return (
    <section class="card key-facts">
      <h2>{label === '' ? id : label}</h2>
      <p class="soft">{label === '' ? '' : id}</p>
      <dl>
        <div>
          <dt>{words.plan}</dt>
          <dd>{plan === '' ? '–' : plan}</dd>
        </div>
        <div>
          <dt>{words.state}</dt>
          <dd>
            <b class="status" data-ok={state === 'active' || undefined}>
              {say.named('state_', state) ?? state}
            </b>
          </dd>
        </div>
        <div>
          <dt>{words.expires}</dt>
          <dd>{expires === null ? words.never : say.date(expires)}</dd>
        </div>
      </dl>
    </section>
  )
}

/** The limits as they are now: their resets count down from when the key was looked at. */
function Limits({ usage, atMs, say }: { usage: KeyUsage; atMs: number; say: Say }) {
  const { words } = say
  const longest = Math.max(0, ...usage.limits.map(({ resetSeconds }) => resetSeconds))
  const elapsed = longest - useSecondsUntil(atMs + longest * 1000)
  const limits = usage.limits.map(limit => {
    const resetSeconds = Math.max(0, limit.resetSeconds - elapsed)
    return { ...limit, resetSeconds, left: resetSeconds === 0 ? limit.quota : limit.left }
  })
  return (
    <section class="card">
      <h2>{words.limits}</h2>
      {limits.length === 0 ? (
        <p class="soft">{words.noLimits}</p>
      ) : (
        <Levels limits={limits} say={say} />
      )}
    </section>
  )
}

/** Requests of the day, an hour of UTC each. */
function Hours({ hours, say }: { hours: readonly number[]; say: Say }) {
  const most = Math.max(1, ...hours)
  const two = (hour: number): string => String(hour).padStart(2, '0')
  const columns = hours.map((n, hour) => ({
    ...{ n, hour },
    name: fill(say.words.hour, { from: two(hour), to: two(hour + 1) }),
  }))
  return (
    <figure class="hours">
      <figcaption>{say.words.byHour}</figcaption>
      <ol>
        {columns.map(({ n, hour, name }) => (
          <li key={hour} title={`${name}: ${say.number(n)}`} style={{ '--share': n / most }}>
            <span class="hidden">{`${name}: ${say.number(n)}`}</span>
          </li>
        ))}
      </ol>
      <p class="hours-scale" aria-hidden="true">
        {[0, 6, 12, 18, 24].map(hour => (
          <span key={hour}>{two(hour)}</span>
        ))}
      </p>
    </figure>
  )
}

function Use({ today, say }: { today: Today; say: Say }) {
  const { words, number } = say
  return (
    <section class="card key-use">
      <h2>{words.today}</h2>
      <dl>
        <div>
          <dt>{words.requestsToday}</dt>
          <dd>{number(today.requests)}</dd>
        </div>
        <div>
          <dt>{words.recordsToday}</dt>
          <dd>{number(today.records)}</dd>
        </div>
        <div>
          <dt>{words.refusedToday}</dt>
          <dd>{number(today.refused)}</dd>
        </div>
      </dl>
      <Hours hours={today.hours} say={say} />
    </section>
  )
}

type KeyViewProps = {
  apiKey: string
  setKey: (key: string) => void
  speak: (sentence: string) => void
  say: Say
}

export function KeyView({ apiKey, setKey, speak, say }: KeyViewProps) {
  const { words } = say
  const [asked, setAsked] = useState<Asked>({ kind: 'none' })
  const shown = apiKey === DEMO ? '' : apiKey
  const isReady = shown.trim() !== '' && isSendable(shown.trim())
  const look = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (!isReady) return
    setAsked({ kind: 'asking' })
    try {
      const reply = await askKey(shown.trim())
      setAsked({ kind: 'replied', reply, atMs: nowMs() })
      speak(reply.kind === 'problem' ? reply.message : `${words.plan}: ${reply.usage.plan}`)
    } catch {
      setAsked({ kind: 'failed' })
      speak(words.noAnswer)
    }
  }
  const reply = asked.kind === 'replied' ? asked.reply : null
  return (
    <main class="key-view" id="main">
      <h1>{words.keyTitle}</h1>
      <form class="card ask" onSubmit={look} autocomplete="off">
        <KeyField value={shown} set={setKey} describedBy="key-intro" say={say} />
        <button type="submit" class="primary" disabled={!isReady || asked.kind === 'asking'}>
          {words.showKey}
        </button>
        <p class="hint" id="key-intro">
          {words.keyIntro}
        </p>
      </form>
      {asked.kind === 'failed' && <Problem code="" message={words.noAnswer} say={say} />}
      {reply?.kind === 'problem' && <Problem {...reply} say={say} />}
      {asked.kind === 'replied' && reply?.kind === 'usage' && (
        <>
          <Facts usage={reply.usage} say={say} />
          <Limits usage={reply.usage} atMs={asked.atMs} say={say} />
          {reply.usage.today !== null && <Use today={reply.usage.today} say={say} />}
        </>
      )}
    </main>
  )
}
