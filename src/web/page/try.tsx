/** Owns trying the request: with which key, waiting after a 429, and the answer. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { nowMs } from '../parts/clock.ts'
import { fill } from '../parts/speech.ts'
import { AnswerView } from './answer.tsx'
import { useSecondsUntil } from './countdown.ts'
import { DEMO, KeyField } from './key-field.tsx'
import { type Answer, ask, isSendable } from './model/answer.ts'
import type { Choice } from './model/query.ts'
import type { Say } from './words/say.ts'

type Attempt =
  | { kind: 'none' | 'failed' }
  | { kind: 'asking'; before: Answer | null }
  | { kind: 'answered'; answer: Answer }

/** Until when a key has to wait. */
type Wait = { key: string; deadlineMs: number }

export type TryProps = {
  choice: Choice
  query: string
  apiKey: string
  setKey: (key: string) => void
  /** Tells a screen reader what happened. */
  speak: (sentence: string) => void
  say: Say
}

const answerOf = (attempt: Attempt): Answer | null => {
  if (attempt.kind === 'answered') return attempt.answer
  return attempt.kind === 'asking' ? attempt.before : null
}

/** What a screen reader hears of an answer. */
function sentenceOf({ status, rows, problem }: Answer, { words, number, plural }: Say): string {
  if (problem !== null) return `${status}: ${problem.message}`
  return rows === null ? `${status}` : `${number(rows.length)} ${plural(rows.length, words.rows)}`
}

function useAttempt({ choice, query, apiKey, speak, say }: TryProps) {
  const [attempt, setAttempt] = useState<Attempt>({ kind: 'none' })
  const [wait, setWait] = useState<Wait | null>(null)
  const running = useRef<AbortController | null>(null)
  useEffect(() => () => running.current?.abort(), [])
  const key = apiKey.trim()
  const run = async (): Promise<void> => {
    const controller = new AbortController()
    running.current = controller
    setAttempt(last => ({ kind: 'asking', before: answerOf(last) }))
    try {
      const answer = await ask(query, choice, key, controller.signal)
      setAttempt({ kind: 'answered', answer })
      speak(sentenceOf(answer, say))
      const { retryAfterSeconds } = answer
      setWait(
        retryAfterSeconds === 0 ? null : { key, deadlineMs: nowMs() + retryAfterSeconds * 1000 },
      )
    } catch {
      setAttempt({ kind: controller.signal.aborted ? 'none' : 'failed' })
      if (!controller.signal.aborted) speak(say.words.noAnswer)
    }
  }
  const seconds = useSecondsUntil(wait !== null && wait.key === key ? wait.deadlineMs : null)
  return { attempt, seconds, run, stop: () => running.current?.abort() }
}

/** What is there before anything was asked, or when nothing came. */
const Blank = ({ isFailed, say: { words } }: { isFailed: boolean; say: Say }) => (
  <div class="empty" data-failed={isFailed || undefined}>
    <b>{isFailed ? words.noAnswer : words.isEmpty}</b>
    {!isFailed && <p>{words.emptyHint}</p>}
  </div>
)

export function Try(props: TryProps) {
  const { choice, apiKey, setKey, say } = props
  const { words } = say
  const { attempt, seconds, run, stop } = useAttempt(props)
  const answer = answerOf(attempt)
  const isAsking = attempt.kind === 'asking'
  const isDemo = apiKey.trim() === DEMO
  const submit = (event: Event): void => {
    event.preventDefault()
    if (isAsking) stop()
    else if (seconds === 0 && isSendable(apiKey.trim())) void run()
  }
  const waiting = seconds > 0 ? fill(words.again, { time: say.countdown(seconds) }) : words.tryIt
  return (
    <>
      <form class="ask" onSubmit={submit} autocomplete="off">
        <KeyField value={apiKey} set={setKey} describedBy="key-hint" say={say} />
        <button
          type="submit"
          class="primary"
          disabled={!isAsking && (seconds > 0 || !isSendable(apiKey.trim()))}
        >
          {isAsking ? words.stop : waiting}
        </button>
      </form>
      <p class="hint" id="key-hint">
        {words.keyHint}
        {isDemo && choice.works.trim() === '' && ` ${words.demoWorks}`}
      </p>
      <section id="answer" aria-label={words.answer} aria-busy={isAsking}>
        {answer === null ? (
          <Blank isFailed={attempt.kind === 'failed'} say={say} />
        ) : (
          <AnswerView answer={answer} say={say} />
        )}
      </section>
    </>
  )
}
