/** Owns the panel of the request: how many proxies match, the request as code, and trying it. */

import { Chips } from './chips.tsx'
import { RequestCode } from './code.tsx'
import type { Facets } from './model/facets.ts'
import { type Choice, formOf, type Param, START } from './model/query.ts'
import type { RequestParts } from './model/snippets.ts'
import { Outputs } from './outputs.tsx'
import { Try, type TryProps } from './try.tsx'
import type { Say } from './words/say.ts'

/** How many match, as far as the statistics tell. */
export const countText = ({ matches }: Facets, { words, range, plural }: Say) => ({
  figure: range(matches),
  word: plural(matches.most, words.matches),
})

type CountProps = { facets: Facets | null; clear: (() => void) | null; say: Say }

/** The number that matches, and taking all filters away. On a narrow screen it stays in view. */
function Count({ facets, clear, say }: CountProps) {
  const { words } = say
  const count = facets === null ? null : countText(facets, say)
  return (
    <div class="count">
      <p>
        {count === null ? (
          <b class="title">{words.request}</b>
        ) : (
          <>
            <b>{count.figure}</b> {count.word}
          </>
        )}
      </p>
      {clear !== null && (
        <button type="button" class="quiet" onClick={clear}>
          {words.clear}
        </button>
      )}
      <button type="button" class="primary jump" onClick={goToRequest}>
        {words.request}
      </button>
    </div>
  )
}

/** Brings the request into view and the focus to it. */
export function goToRequest(): void {
  const request = document.getElementById('request')
  request?.focus({ preventScroll: true })
  request?.scrollIntoView({ block: 'start' })
}

type PanelProps = Omit<TryProps, 'query'> & {
  set: (change: Partial<Choice>) => void
  params: readonly Param[]
  query: string
  services: readonly string[]
  facets: Facets | null
}

/** Parameters that say how the answer looks: clearing the filters leaves them. */
const OUTPUTS = new Set(['count', 'lang', 'get', 'type_prefix', 'fields', 'split_ip'])
const FORMATS = new Set(['format', 'wrap', 'pretty'])
const isOutput = (name: string): boolean => OUTPUTS.has(name) || FORMATS.has(name)

export function Panel(props: PanelProps) {
  const { choice, set, params, query, services, facets, say } = props
  const filters = params.filter(([name]) => !isOutput(name))
  const parts: RequestParts = {
    ...{ origin: location.origin, params, query, form: formOf(choice) },
    ...{ isWrapped: choice.wrap === '1', isObject: choice.format === 'object' },
  }
  const clear = (): void =>
    set(Object.fromEntries(Object.entries(START).filter(([name]) => !isOutput(name))))
  return (
    <aside class="request" id="request" tabIndex={-1} aria-label={say.words.request}>
      <Count facets={facets} clear={filters.length === 0 ? null : clear} say={say} />
      <Chips choice={choice} params={filters} set={set} say={say} />
      <RequestCode parts={parts} say={say} />
      <Outputs choice={choice} set={set} services={services} say={say} />
      <Try {...props} />
    </aside>
  )
}
