/** Owns what is chosen in short: a button for each filter, which takes it away. */
import { fill } from '../parts/speech.ts'
import { type Choice, itemsOf, type Name, type Param, toggled } from './model/query.ts'
import type { Say } from './words/say.ts'

type ChipsProps = {
  choice: Choice
  params: readonly Param[]
  set: (change: Partial<Choice>) => void
  say: Say
}

type Chip = { id: string; text: string; change: Partial<Choice> }

/** How a value of a parameter is shown; parameters without an entry are no filters. */
const textsOf = (say: Say): { readonly [name: string]: (value: string) => string } => {
  const { words, unit, percent, rate, span, country } = say
  const atMost = (n: string): string => fill(words.atMost, { n })
  const atLeast = (n: string): string => fill(words.atLeast, { n })
  const itself = (value: string): string => value
  return {
    ...{ type: itself, city: itself, ip: itself, service: itself, country },
    anon: value => words[value as 'elite'] ?? value,
    ping: value => atMost(unit(Number(value), 'millisecond')),
    speed: value => atLeast(rate(Number(value))),
    time: value => `${words.time} ${span(Number(value))}`,
    works: value => atLeast(percent(Number(value))),
    port: value => `${words.port} ${value}`,
    sort: value => say.named('sort_', value) ?? value,
  }
}

const LISTS: readonly string[] = ['type', 'anon', 'country', 'city', 'service'] satisfies Name[]

function chipsOf({ choice, params, say }: ChipsProps): Chip[] {
  const texts = textsOf(say)
  const isExcept = choice.country_mode === 'except'
  return params.flatMap(([name, value]) => {
    const textOf = texts[name]
    if (textOf === undefined) return []
    if (!LISTS.includes(name)) return [{ id: name, text: textOf(value), change: { [name]: '' } }]
    return itemsOf(value).map(item => {
      const text = textOf(item)
      const isNot = name === 'country' && isExcept
      return {
        id: `${name} ${item}`,
        text: isNot ? fill(say.words.not, { what: text }) : text,
        change: { [name]: toggled(value, item) },
      }
    })
  })
}

export function Chips(props: ChipsProps) {
  const { set, say } = props
  const chips = chipsOf(props)
  return (
    <ul class="chips" aria-label={say.words.chosen}>
      {chips.map(({ id, text, change }) => (
        <li key={id}>
          <button
            type="button"
            class="chip"
            aria-label={fill(say.words.remove, { what: text })}
            onClick={() => set(change)}
          >
            <span>{text}</span>
            <svg viewBox="0 0 8 8" aria-hidden="true">
              <path d="M1 1l6 6M7 1l-6 6" />
            </svg>
          </button>
        </li>
      ))}
    </ul>
  )
}
