/** The view of a key: its plan, its limits, and its use today by hour. */
import { useState } from 'preact/hooks'
import type { KeyReport } from '../../api/key-report.ts'
import { About, DayUse, Limits } from '../parts/key.tsx'
import { Problem } from './answer.tsx'
import { askKey, isSendable, type KeyReply } from './model/answer.ts'
import type { Say } from './translations.ts'
import { DEMO, KeyField, type TryProps } from './try.tsx'

type Asked = { kind: 'none' | 'asking' | 'failed' } | { kind: 'replied'; reply: KeyReply }

function Usage({ usage, say }: { usage: KeyReport; say: Say }) {
  const { words } = say
  const { id, label, plan, state, expires, limits, today } = usage
  return (
    <>
      <About
        name={label === '' ? id : label}
        ids={label === '' ? '' : id}
        state={state}
        facts={[
          [words.plan, plan === '' ? '–' : plan],
          [
            words.expires,
            expires === null ? (
              words.never
            ) : (
              <span title={say.utc(expires)}>{say.date(expires)}</span>
            ),
          ],
        ]}
        say={say}
      />
      <Limits limits={limits} say={say} />
      {today !== null && <DayUse today={today} say={say} />}
    </>
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
      setAsked({ kind: 'replied', reply })
      speak(reply.kind === 'problem' ? say.problem(reply) : `${words.plan}: ${reply.usage.plan}`)
    } catch {
      setAsked({ kind: 'failed' })
      speak(words.noAnswer)
    }
  }
  const reply = asked.kind === 'replied' ? asked.reply : null
  return (
    <main class="key-view" id="main">
      <h1>{words.keyTitle}</h1>
      <form class="card row ask" onSubmit={look} autocomplete="off">
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
      {reply?.kind === 'usage' && <Usage usage={reply.usage} say={say} />}
    </main>
  )
}
