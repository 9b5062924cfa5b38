/** The page: holds the choice of the visitor and the statistics, and shows the views. */
import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { useSettled } from '../parts/form.tsx'
import { fill } from '../parts/format.ts'
import { Header, LangSwitch, operatorSetting, siteName, useLang } from '../parts/header.tsx'
import { Filters } from './filters.tsx'
import { KeyView } from './key.tsx'
import { type Choice, paramsOf, queryString, readChoice, START, servicesOf } from './model/query.ts'
import {
  askStats,
  countedOf,
  LOADING,
  POLL_MS,
  RETRY_MS,
  SETTLE_MS,
  type StatsState,
} from './model/service.ts'
import { goToRequest, isCounted, matchText, Panel } from './request.tsx'
import { createSay, type Say } from './translations.ts'
import { DEMO } from './try.tsx'

/** The statistics for a query. The previous ones stay until the next are loaded. */
function useStats(query: string): StatsState {
  const [known, setKnown] = useState(LOADING)
  useEffect(() => {
    let isOver = false
    let isKnown = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = async (): Promise<void> => {
      const found = await askStats(query)
      if (isOver) return
      isKnown ||= found.kind !== 'failed'
      const keep = (last: StatsState) =>
        last.stats === null ? found : { ...last, isOld: !isKnown }
      setKnown(found.kind === 'failed' ? keep : found)
      again(found.kind === 'failed' ? RETRY_MS : POLL_MS)
    }
    const again = (ms: number): void => {
      timer = setTimeout(() => {
        if (document.visibilityState === 'visible') void ask()
        else again(ms)
      }, ms)
    }
    timer = setTimeout(() => void ask(), known === LOADING ? 0 : SETTLE_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [query])
  return known
}

const fullOf = (known: StatsState): StatsDocument | null =>
  known.kind === 'full' ? known.stats : null

const SERVICES = servicesOf(operatorSetting('providerService'))

/** The hash of the key view; any other holds a choice. */
const KEY_HASH = 'my-key'
const hashOf = (): string => location.hash.slice(1)
const START_QUERY = queryString(paramsOf(START))

/** The view and the choice in the hash of the page, and the choice written there. */
function useAddress() {
  const [isKeyView, setKeyView] = useState(() => hashOf() === KEY_HASH)
  const [choice, setChoice] = useState<Choice>(() => (isKeyView ? START : readChoice(hashOf())))
  // A layout effect: the first click can come before the next frame.
  useLayoutEffect(() => {
    const follow = (): void => {
      const isKey = hashOf() === KEY_HASH
      setKeyView(isKey)
      if (!isKey) setChoice(readChoice(hashOf()))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const query = queryString(paramsOf(choice))
  const hash = query === START_QUERY ? '' : query
  useLayoutEffect(() => {
    if (isKeyView || hash === hashOf()) return
    history.replaceState(null, '', hash === '' ? location.pathname : `#${hash}`)
  }, [hash, isKeyView])
  const set = (change: Partial<Choice>): void => setChoice(now => ({ ...now, ...change }))
  return { isKeyView, choice, set, hash }
}

/** How long a count must be unchanged before a screen reader hears it. */
const SETTLED_MS = 700

/** The facts about the list, between dots. */
function factsOf({ total, facets, at }: StatsDocument, { words, number, plural, time }: Say) {
  const countries = Object.keys(facets.country).filter(code => code !== '').length
  return [
    `${number(countries)} ${plural(countries, words.countries)}`,
    fill(words.inList, { total: number(total) }),
    fill(words.updated, { time: time(at) }),
  ].join(' · ')
}

/** The purpose of the page, and the size of the list; `known` are the numbers without filters. */
function Intro({ known, say }: { known: StatsState; say: Say }) {
  const { words, number, plural, utc } = say
  const { stats } = known
  return (
    <div class="intro">
      {stats === null && known.kind !== 'loading' ? (
        <h1>{words.tagline}</h1>
      ) : (
        <h1 style={{ visibility: stats === null ? 'hidden' : 'visible' }}>
          {stats === null ? '00,000' : number(stats.matching)}{' '}
          {plural(stats?.matching ?? 0, words.headline)}
        </h1>
      )}
      <p>{words.about}</p>
      <p title={stats === null ? undefined : utc(stats.at * 1000)}>
        {stats?.total === 0
          ? words.isEmptyList
          : known.kind === 'full'
            ? factsOf(known.stats, say)
            : words[`stats_${known.kind}`]}
      </p>
    </div>
  )
}

function App() {
  const [lang, setLang] = useLang()
  const say = useMemo(() => createSay(lang), [lang])
  const { words } = say
  const { isKeyView, choice, set, hash } = useAddress()
  const [apiKey, setKey] = useState(DEMO)
  // By default, names of cities are in the language of the page. Russian is the default of the API.
  const cities = lang === 'ru' ? '' : lang
  const startQuery = cities && `lang=${cities}`
  const start = useStats(startQuery)
  const params = paramsOf({ ...choice, lang: choice.lang || cities })
  const query = queryString(params)
  const takesFilters = start.kind !== 'off' && start.kind !== 'totals'
  const known = useStats(takesFilters ? queryString(countedOf(params)) : startQuery)
  const stats = fullOf(known)
  useEffect(() => {
    document.title = `${siteName()} · ${isKeyView ? words.myKey : words.tagline}`
  }, [words, isKeyView])
  const current = known.isOld || known.refusal || !isCounted(params) ? null : stats
  const count = current?.matching ?? null
  // A screen reader hears an event at once, and a count once it is settled.
  const [spoken, speak] = useState('')
  useSettled(count === null ? null : matchText(count, say), SETTLED_MS, speak)
  const own = { apiKey, setKey, speak, say }
  const links = [
    { href: `#${hash}`, text: words.query, isCurrent: !isKeyView },
    { href: `/docs?lang=${lang}`, text: words.reference, isCurrent: false },
    { href: `#${KEY_HASH}`, text: words.myKey, isCurrent: isKeyView },
  ]
  const filters = { choice, set, stats, whole: fullOf(start), services: SERVICES, say }
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
          <Intro known={start} say={say} />
          <Filters {...filters} isPlain={stats === null && known.kind !== 'loading'} />
          <Panel
            {...filters}
            {...own}
            {...{ stats: current, count, params, query }}
            note={known.refusal ? say.problem(known.refusal) : known.isOld ? words.isOld : null}
            kind={known.kind}
          />
        </main>
      )}
      <output class="hidden">{spoken}</output>
    </>
  )
}

render(<App />, document.body)
