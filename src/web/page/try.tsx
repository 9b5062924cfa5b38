/** Trying the request: the key, the wait after a 429, and the answer. */
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { nowMs, unixMs } from '../parts/browser.ts'
import { TextField } from '../parts/form.tsx'
import { fill } from '../parts/format.ts'
import { AnswerView, Examples } from './answer.tsx'
import { type Answer, ask, isSendable } from './model/answer.ts'
import type { Choice } from './model/query.ts'
import type { StatsState } from './model/service.ts'
import type { FilterProps } from './options.tsx'
import type { Say } from './translations.ts'

export const DEMO = 'demo'

type KeyFieldProps = {
  value: string
  set: (key: string) => void
  /** The id of its explanation. */
  describedBy: string
  say: Say
}

/** The field of a key. Password managers leave it alone. */
export function KeyField({ value, set, describedBy, say }: KeyFieldProps) {
  return (
    <TextField
      label={say.words.keyField}
      name="key"
      value={value}
      onChange={set}
      hint={isSendable(value.trim()) ? '' : say.words.keyInvalid}
      input={{
        class: value === DEMO ? undefined : 'secret',
        autocapitalize: 'off',
        maxLength: 200,
        pattern: '\\s*[!-~]*\\s*',
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

/** Whole seconds until `deadlineMs`, 0 when it is over. */
function useSecondsUntil(deadlineMs: number): number {
  const [, setTicks] = useState(0)
  const seconds = Math.max(0, Math.ceil((deadlineMs - nowMs()) / 1000))
  const isOver = seconds === 0
  useEffect(() => {
    if (isOver) return
    const timer = setInterval(() => setTicks(ticks => ticks + 1), TICK_MS)
    return () => clearInterval(timer)
  }, [isOver])
  return seconds
}

/** The last request. While it waits for its answer, it has the one before to the same query. */
type Attempt = {
  kind: 'none' | 'asking' | 'answered' | 'failed'
  query: string
  key: string
  answer: Answer | null
}

export type TryProps = {
  choice: Choice
  query: string
  apiKey: string
  setKey: (key: string) => void
  /** Announces a sentence to screen readers. */
  speak: (sentence: string) => void
  say: Say
}

/** An answer as screen readers announce it. */
function sentenceOf({ status, count, problem }: Answer, say: Say): string {
  const { words, number, plural } = say
  if (problem !== null) return `${status}: ${say.problem(problem)}`
  return count === null ? `${status}` : `${number(count)} ${plural(count, words.rows)}`
}

/** On a narrow screen, brings the answer into view and the focus to it. */
function goToAnswer(): void {
  const answer = document.getElementById('answer')
  if (answer === null || matchMedia('(min-width: 901px)').matches) return
  answer.focus({ preventScroll: true })
  answer.scrollIntoView({ block: 'start' })
}

type Asked = { attempt: Attempt; seconds: number; run: () => Promise<void> }

export function useAttempt({ choice, query, apiKey, speak, say }: TryProps): Asked {
  const key = apiKey.trim()
  const [attempt, setAttempt] = useState<Attempt>({ kind: 'none', query, key, answer: null })
  useLayoutEffect(() => {
    if (attempt.kind === 'answered') goToAnswer()
  }, [attempt])
  const run = async (): Promise<void> => {
    const before = attempt.query === query ? attempt.answer : null
    setAttempt({ kind: 'asking', query, key, answer: before })
    try {
      const answer = await ask(query, choice, key)
      setAttempt({ kind: 'answered', query, key, answer })
      speak(sentenceOf(answer, say))
    } catch {
      setAttempt({ kind: 'failed', query, key, answer: null })
      speak(say.words.noAnswer)
    }
  }
  const seconds = useSecondsUntil((attempt.key === key && attempt.answer?.retryAtMs) || 0)
  return { attempt, seconds, run }
}

export function Ask(props: TryProps & Asked) {
  const { apiKey, setKey, attempt, seconds, run, say } = props
  const { words } = say
  const isReady = attempt.kind !== 'asking' && seconds === 0 && isSendable(apiKey.trim())
  const submit = (event: Event): void => {
    event.preventDefault()
    if (isReady) void run()
  }
  return (
    <form class="row ask" onSubmit={submit} autocomplete="off">
      <KeyField value={apiKey} set={setKey} describedBy="key-hint" say={say} />
      <button type="submit" class="primary" disabled={!isReady}>
        {seconds > 0 ? fill(words.again, { time: say.countdown(seconds) }) : words.tryIt}
      </button>
      <p class="hint" id="key-hint">
        {words.keyHint}
      </p>
    </form>
  )
}

export type ResultsProps = Pick<FilterProps, 'choice' | 'stats' | 'say'> & {
  kind: StatsState['kind']
  query: string
  attempt: Attempt
  seconds: number
  /** How many proxies match; `null` when the statistics do not say. */
  count: number | null
}

/** Why the demo key returned less than matches; `null` when it did not. */
function shortfallOf(answer: Answer, { choice, attempt, count, say }: ResultsProps): string | null {
  if (attempt.kind !== 'answered' || attempt.key !== DEMO || count === null) return null
  const { words, number } = say
  const returned = answer.count ?? count
  if (returned >= Math.min(count, Number(choice.count) || count)) return null
  const sentence = choice.works === '' ? words.demoWorks : words.demoMasks
  return fill(sentence, { n: number(returned), all: number(count) })
}

/** The answer to this request. Before it, and after the wait of a 429, examples of matching proxies. */
export function Results(props: ResultsProps) {
  const { kind, stats, attempt, query, seconds, say } = props
  const { words } = say
  const isCurrent = attempt.query === query
  const isOver = seconds === 0 && attempt.answer?.status === 429
  const answer = isCurrent && !isOver ? attempt.answer : null
  const isFailed = isCurrent && attempt.kind === 'failed'
  return (
    <section
      id="answer"
      class="card"
      tabIndex={-1}
      aria-label={words.answer}
      aria-busy={attempt.kind === 'asking'}
    >
      {isFailed && <p class="empty bad">{words.noAnswer}</p>}
      {answer !== null && (
        <AnswerView
          answer={answer}
          note={shortfallOf(answer, props)}
          at={stats?.at ?? unixMs() / 1000}
          say={say}
        />
      )}
      {!isFailed && answer === null && <Examples kind={kind} stats={stats} say={say} />}
    </section>
  )
}
