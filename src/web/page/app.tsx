/** Owns the page: what is chosen, what follows from it, and where it is shown. */
import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { Header, useLang } from '../parts/header.tsx'
import { Filters } from './filters.tsx'
import { Intro } from './intro.tsx'
import { KeyView } from './key.tsx'
import { DEMO } from './key-field.tsx'
import { countFacets, type Facets } from './model/facets.ts'
import { type Choice, paramsOf, queryString, readChoice, START } from './model/query.ts'
import { countText, goToRequest, Panel } from './request.tsx'
import { useServices, useStats } from './use-stats.ts'
import { createSay, type Say } from './words/say.ts'

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

const sentenceOf = (facets: Facets | null, say: Say): string | null => {
  if (facets === null) return null
  const { figure, word } = countText(facets, say)
  return `${figure} ${word}`
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
  const { spoken, speak } = useSpoken(sentenceOf(facets, say))
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
      <Header links={links} words={words} lang={lang} setLang={setLang} />
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
