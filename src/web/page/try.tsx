/** Trying the request: with which key, waiting after a 429, and the answer. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { nowMs } from '../parts/browser.ts'
import { TextField } from '../parts/form.tsx'
import { fill } from '../parts/speech.ts'
import { AnswerView } from './answer.tsx'
import { type Answer, ask, isSendable } from './model/answer.ts'
import type { Choice } from './model/query.ts'
import type { Say } from './words.ts'

/** The key that everybody may use. */
export const DEMO = 'demo'

type KeyFieldProps = {
  value: string
  set: (key: string) => void
  /** The id of what explains it. */
  describedBy: string
  say: Say
}

/** The field of a key, which no manager of passwords is to fill in or keep. */
export function KeyField({ value, set, describedBy, say }: KeyFieldProps) {
  const isWrong = !isSendable(value.trim())
  return (
    <TextField
      label={say.words.keyField}
      name="key"
      value={value}
      onChange={set}
      isWrong={isWrong}
      hint={isWrong ? say.words.keyInvalid : ''}
      input={{
        class: value === DEMO ? 'input mono' : 'input mono secret',
        autocapitalize: 'off',
        maxLength: 200,
        'data-1p-ignore': true,
        'data-lpignore': 'true',
        'data-bwignore': true,
        'data-form-type': 'other',
        'aria-describedby': describedBy,
      }}
    />
  )
}

const TICK_MS = 250

/** Whole seconds until `deadlineMs`, 0 when it is over or `null`. */
export function useSecondsUntil(deadlineMs: number | null): number {
  const [, setTicks] = useState(0)
  const seconds = Math.max(0, Math.ceil(((deadlineMs ?? 0) - nowMs()) / 1000))
  const isOver = seconds === 0
  useEffect(() => {
    if (isOver) return
    const timer = setInterval(() => setTicks(ticks => ticks + 1), TICK_MS)
    return () => clearInterval(timer)
  }, [isOver])
  return seconds
}

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

export function Try(props: TryProps) {
  const { choice, apiKey, setKey, say } = props
  const { words } = say
  const { attempt, seconds, run, stop } = useAttempt(props)
  const answer = answerOf(attempt)
  const isAsking = attempt.kind === 'asking'
  const isFailed = attempt.kind === 'failed'
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
          <div class="empty" data-failed={isFailed || undefined}>
            <b>{isFailed ? words.noAnswer : words.isEmpty}</b>
            {!isFailed && <p>{words.emptyHint}</p>}
          </div>
        ) : (
          <AnswerView answer={answer} say={say} />
        )}
      </section>
    </>
  )
}
