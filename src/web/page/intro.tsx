/** Owns the headline: how many proxies there are now, or why that is not shown. */
import { fill } from '../parts/speech.ts'
import type { Facets } from './model/facets.ts'
import type { Known } from './model/service.ts'
import { MERGED } from './model/stats.ts'
import type { Say } from './words/say.ts'

type IntroProps = { known: Known; whole: Facets | null; say: Say }

/** The facts about the list, between dots. */
function factsOf({ known: { stats }, whole, say }: IntroProps): string[] {
  const { words, number, plural } = say
  if (stats === null) return []
  // Where many places are merged, too little is known of their number.
  const merged = whole?.country.get(MERGED)?.most ?? 0
  const isKnown = merged * 8 < (whole?.matches.size ?? 0)
  const countries = [...(whole?.country ?? [])].filter(
    ([code, { size }]) => /^[A-Z]{2}$/.test(code) && size > 0,
  )
  return [
    ...(whole === null ? [] : [fill(words.ofTotal, { total: number(stats.total) })]),
    ...(countries.length === 0 || !isKnown
      ? []
      : [
          `${merged > 0 ? '≥ ' : ''}${number(countries.length)} ${plural(countries.length, words.countries)}`,
        ]),
    ...(stats.hidden === 0 ? [] : [fill(words.hidden, { n: number(stats.hidden) })]),
    ...(stats.at === null ? [] : [fill(words.updated, { time: say.time(stats.at) })]),
  ]
}

export function Intro(props: IntroProps) {
  const { known, whole, say } = props
  const { words, number, bound } = say
  const total = known.stats === null ? null : number(known.stats.total)
  const count = whole === null ? total : bound(whole.matches)
  const notes: { [K in Known['kind']]: string | null } = {
    ...{ loading: words.loading, off: words.isOff, totals: words.isTotals },
    ...{ failed: words.isFailed, full: null },
  }
  const note = notes[known.kind]
  return (
    <div class="intro">
      {count === null ? (
        <h1>{known.kind === 'loading' ? <b class="blank">&nbsp;</b> : words.tagline}</h1>
      ) : (
        <h1>
          <b>{count}</b> {whole === null ? words.inTotal : words.headline}
        </h1>
      )}
      <p>{note === null ? factsOf(props).join(' · ') : note}</p>
    </div>
  )
}
