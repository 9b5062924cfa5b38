/** The first day: what is to be set up, which ticks itself and goes when all of it is. */
import { useState } from 'preact/hooks'
import type { Overview, Setup } from '../../admin/api-types.ts'
import { remember, remembered } from '../parts/browser.ts'

const STEPS = {
  list: ['Drop a list', '#import', 'CSV, JSON or plain lines, from any tool'],
  feed: ['Add a feed', '#feeds', 'a list that is fetched again and again'],
  plan: ['Make a plan', '#plans', 'what a customer may ask for; there are some to begin with'],
  key: ['Make a key', '#keys', 'for the first customer'],
  page: ['Open the page', '', 'what anybody sees of the list'],
} as const

/** Whether a list or a key was missing since this tab was opened: the rest may be done after that. */
let hasBegun = false

function Steps({ setup, pageUrl }: { setup: Setup; pageUrl: string }) {
  const [isHidden, setHidden] = useState(remembered('first-day') === 'hidden')
  const steps = Object.entries(STEPS).flatMap(([step, words]) => {
    const isDone = setup[step as keyof typeof STEPS] // of this very table
    return isDone === undefined ? [] : [{ step, words, isDone }]
  })
  if (isHidden || steps.every(({ isDone }) => isDone)) return null
  const hide = (): void => {
    remember('first-day', 'hidden')
    setHidden(true)
  }
  return (
    <section class="card first-day" aria-label="First day">
      <h2>
        First day
        <button type="button" class="quiet" onClick={hide}>
          Hide
        </button>
      </h2>
      <ul>
        {steps.map(({ step, words: [name, link, hint], isDone }) => (
          <li key={step} data-done={isDone || undefined}>
            <a href={link || pageUrl} target={link ? undefined : '_blank'} rel="noreferrer">
              {name}
            </a>
            {isDone && <span class="hidden"> (done)</span>} <small>{hint}</small>
          </li>
        ))}
      </ul>
    </section>
  )
}

export function FirstDay({ list, keys, setup, pageUrl }: Overview & { pageUrl: string }) {
  hasBegun ||= list.rows === 0 || keys.total === 0
  return hasBegun ? <Steps setup={setup} pageUrl={pageUrl} /> : null
}
