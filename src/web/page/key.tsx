/** The view of a key: its plan, what is left of its limits, and its use of the day by hour. */
import { useState } from 'preact/hooks'
import { Bars } from '../parts/amounts.tsx'
import { nowMs } from '../parts/browser.ts'
import { Facts } from '../parts/table.tsx'
import { Levels, Problem } from './answer.tsx'
import { askKey, isSendable, type KeyReply, type KeyUsage, type Today } from './model/answer.ts'
import { DEMO, KeyField, type TryProps, useSecondsUntil } from './try.tsx'
import type { Say } from './words.ts'

type Asked =
  | { kind: 'none' | 'asking' | 'failed' }
  | { kind: 'replied'; reply: KeyReply; atMs: number }

/** Who the key is: plan, state, expiry. */
function About({ usage, say }: { usage: KeyUsage; say: Say }) {
  const { words } = say
  const { id, label, plan, state, expires } = usage
  const status = (
    <b class="status" data-ok={state === 'active' || undefined}>
      {say.named('state_', state) ?? state}
    </b>
  )
  return (
    <section class="card key-facts">
      <h2>{label === '' ? id : label}</h2>
      <p class="soft">{label === '' ? '' : id}</p>
      <Facts
        facts={[
          [words.plan, plan === '' ? '–' : plan],
          [words.state, status],
          [words.expires, expires === null ? words.never : say.date(expires)],
        ]}
      />
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

function Use({ today, say }: { today: Today; say: Say }) {
  const { words, number } = say
  return (
    <section class="card key-use">
      <h2>{words.today}</h2>
      <Facts
        facts={[
          [words.requestsToday, number(today.requests)],
          [words.recordsToday, number(today.records)],
          [words.refusedToday, number(today.refused)],
        ]}
      />
      <p class="soft">{words.byHour}</p>
      <Bars label={words.byHour} values={today.hours} show={number} />
    </section>
  )
}

export function KeyView({ apiKey, setKey, speak, say }: Omit<TryProps, 'choice' | 'query'>) {
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
          <About usage={reply.usage} say={say} />
          <Limits usage={reply.usage} atMs={asked.atMs} say={say} />
          {reply.usage.today !== null && <Use today={reply.usage.today} say={say} />}
        </>
      )}
    </main>
  )
}
