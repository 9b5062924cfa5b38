/** The page: what is chosen, what is known of the list, what follows from both, and where it is shown. */
import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Header, LangSwitch, useLang } from '../parts/header.tsx'
import { fill } from '../parts/speech.ts'
import { Filters } from './filters.tsx'
import { KeyView } from './key.tsx'
import { countFacets, type Facets } from './model/facets.ts'
import { type Choice, paramsOf, queryString, readChoice, SERVICES, START } from './model/query.ts'
import { askServices, askStats, type Known, LOADING, POLL_MS } from './model/service.ts'
import { MERGED } from './model/stats.ts'
import { countText, goToRequest, Panel } from './request.tsx'
import { DEMO } from './try.tsx'
import { createSay, type Say } from './words.ts'

/** The statistics as they are now. */
function useStats(): Known {
  const [known, setKnown] = useState(LOADING)
  const tag = useRef<string | null>(null)
  useEffect(() => {
    let isOver = false
    const load = async (): Promise<void> => {
      const found = await askStats(tag.current)
      if (isOver || found === null) return
      tag.current = found.tag
      // Statistics that were loaded once stay when a later request for them fails.
      setKnown(last => (found.now.kind === 'failed' && last.stats !== null ? last : found.now))
    }
    void load()
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void load()
    }, POLL_MS)
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [])
  return known
}

/** The names of services: of the statistics, else of the document of the API, else as usual. */
function useServices(known: Known): { names: readonly string[]; areKnown: boolean } {
  const counted = known.stats?.counted?.dimensions.services ?? null
  const [documented, setDocumented] = useState<readonly string[] | null>(null)
  const isMissing = counted === null && known.kind !== 'loading'
  useEffect(() => {
    if (!isMissing) return
    let isOver = false
    void askServices().then(names => {
      if (!isOver) setDocumented(names ?? SERVICES)
    })
    return () => {
      isOver = true
    }
  }, [isMissing])
  const names = counted ?? documented
  return { names: names ?? SERVICES, areKnown: names !== null }
}

/** The hash of the view of a key; any other holds a choice. */
const KEY_HASH = 'my-key'
const hashOf = (): string => location.hash.slice(1)
/** The hash that holds a choice; none for the one that visitors begin with. */
const toHash = (query: string): string => (query === 'get=json' ? '' : query)

/** The choice and the view that the address of the page holds, both ways. */
function useAddress() {
  const [isKeyView, setKeyView] = useState(() => hashOf() === KEY_HASH)
  const [choice, setChoice] = useState<Choice>(() => (isKeyView ? START : readChoice(hashOf())))
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const follow = (): void => {
      const isKey = hashOf() === KEY_HASH
      setKeyView(isKey)
      if (!isKey) setChoice(readChoice(hashOf()))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const set = (change: Partial<Choice>): void => setChoice(now => ({ ...now, ...change }))
  return { isKeyView, choice, set }
}

/** How long a count has to stay before a screen reader hears it. */
const SETTLED_MS = 700

/** The one sentence that a screen reader hears: an event at once, a count when it has settled. */
function useSpoken(count: string | null): { spoken: string; speak: (sentence: string) => void } {
  const [spoken, setSpoken] = useState('')
  useEffect(() => {
    if (count === null) return
    const timer = setTimeout(() => setSpoken(count), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [count])
  return { spoken, speak: setSpoken }
}

type IntroProps = { known: Known; whole: Facets | null; say: Say }

/** The facts about the list, between dots. */
function factsOf({ known: { stats }, whole, say }: IntroProps): string {
  const { words, number, plural } = say
  if (stats === null) return ''
  // Where many places are merged, too little is known of their number.
  const merged = whole?.country.get(MERGED)?.most ?? 0
  const isKnown = merged * 8 < (whole?.matches.size ?? 0)
  const { length: countries } = [...(whole?.country ?? [])].filter(
    ([code, { size }]) => /^[A-Z]{2}$/.test(code) && size > 0,
  )
  return [
    whole && fill(words.ofTotal, { total: number(stats.total) }),
    countries > 0 &&
      isKnown &&
      `${merged > 0 ? '≥ ' : ''}${number(countries)} ${plural(countries, words.countries)}`,
    stats.hidden > 0 && fill(words.hidden, { n: number(stats.hidden) }),
    stats.at !== null && fill(words.updated, { time: say.time(stats.at) }),
  ]
    .filter(Boolean)
    .join(' · ')
}

function Intro(props: IntroProps) {
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
      <p>{note ?? factsOf(props)}</p>
    </div>
  )
}

function App() {
  const [lang, setLang] = useLang()
  const say = useMemo(() => createSay(lang), [lang])
  const { words } = say
  const { isKeyView, choice, set } = useAddress()
  const [apiKey, setKey] = useState(DEMO)
  const known = useStats()
  const { names: services, areKnown } = useServices(known)
  const { stats } = known
  const facets = useMemo(() => stats && countFacets(stats, choice), [stats, choice])
  const whole = useMemo(() => stats && countFacets(stats, START), [stats])
  const params = paramsOf(choice, areKnown ? services : null)
  const query = queryString(params)
  const hash = toHash(query)
  useLayoutEffect(() => {
    if (!isKeyView && hash !== hashOf()) {
      history.replaceState(null, '', hash === '' ? location.pathname : `#${hash}`)
    }
  }, [hash, isKeyView])
  useEffect(() => {
    document.title = `proxylist · ${isKeyView ? words.myKey : words.tagline}`
  }, [words, isKeyView])
  const count = facets && countText(facets, say)
  const { spoken, speak } = useSpoken(count && `${count.figure} ${count.word}`)
  const own = { apiKey, setKey, speak, say }
  const links = [
    { href: `#${hash}`, text: words.query, isCurrent: !isKeyView },
    { href: '/docs', text: words.reference, isCurrent: false },
    { href: `#${KEY_HASH}`, text: words.myKey, isCurrent: isKeyView },
  ]
  const filters = { choice, set, stats, facets, whole, services, say }
  return (
    <>
      {!isKeyView && (
        <button type="button" class="skip" onClick={goToRequest}>
          {words.skip}
        </button>
      )}
      <Header links={links} words={words}>
        <LangSwitch label={words.language} value={lang} onChange={setLang} />
      </Header>
      {isKeyView ? (
        <KeyView {...own} />
      ) : (
        <main id="main">
          <Intro known={known} whole={whole} say={say} />
          <Filters {...filters} />
          <Panel {...filters} {...own} params={params} query={query} />
        </main>
      )}
      <output class="hidden">{spoken}</output>
    </>
  )
}

render(<App />, document.body)
