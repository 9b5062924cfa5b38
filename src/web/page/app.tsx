/** The page: what is chosen, what is known of the list, what follows from both, and where it is shown. */
import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { nowMs } from '../parts/browser.ts'
import { useSettled } from '../parts/form.tsx'
import { fill } from '../parts/format.ts'
import { Footer, Header, LangSwitch, operatorSetting, siteName, useLang } from '../parts/header.tsx'
import { Filters } from './filters.tsx'
import { KeyView } from './key.tsx'
import {
  type Choice,
  ignoredIn,
  paramsOf,
  queryString,
  readChoice,
  START,
  servicesOf,
} from './model/query.ts'
import {
  askStats,
  countedOf,
  type Known,
  LOADING,
  POLL_MS,
  RETRY_MS,
  SETTLE_MS,
} from './model/service.ts'
import { goToRequest, matchingOf, Panel } from './request.tsx'
import { createSay, type Say } from './translations.ts'
import { DEMO } from './try.tsx'

/** The statistics of a query. Those of the former one stay until the next are there. */
function useStats(query: string): Known {
  const [known, setKnown] = useState(LOADING)
  const isFirst = useRef(true)
  useEffect(() => {
    let isOver = false
    let isKnown = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = async (): Promise<void> => {
      const found = await askStats(query)
      if (isOver) return
      isKnown ||= found.kind !== 'failed'
      const keep = (last: Known) => (last.stats === null ? found : { ...last, isOld: !isKnown })
      setKnown(found.kind === 'failed' ? keep : found)
      again(found.kind === 'failed' ? RETRY_MS : POLL_MS)
    }
    const again = (ms: number): void => {
      timer = setTimeout(() => {
        if (document.visibilityState === 'visible') void ask()
        else again(ms)
      }, ms)
    }
    if (isFirst.current) void ask()
    else timer = setTimeout(() => void ask(), SETTLE_MS)
    isFirst.current = false
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [query])
  return known
}

const fullOf = (known: Known): StatsDocument | null => (known.kind === 'full' ? known.stats : null)

const SERVICES = servicesOf(operatorSetting('providerService'))

/** The hash of the view of a key; any other holds a choice. */
const KEY_HASH = 'my-key'
const hashOf = (): string => location.hash.slice(1)
/** The hash that holds a choice; none for the one that visitors begin with. */
const toHash = (query: string): string => (query === 'get=json' ? '' : query)

/** What is typed or dragged within this time is one step of Back. */
const TYPING_MS = 1_000
const TYPED = /^(ping|speed|works|city|port|ip|count)$/

/** The choice and the view that the address of the page holds, both ways. */
function useAddress() {
  const [isKeyView, setKeyView] = useState(() => hashOf() === KEY_HASH)
  const [choice, setChoice] = useState<Choice>(() => (isKeyView ? START : readChoice(hashOf())))
  /** The hash that the choice was read from; `''` once it was changed here. */
  const [read, setRead] = useState(hashOf)
  const changed = useRef({ name: '', ms: 0, isStep: false })
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const follow = (): void => {
      const isKey = hashOf() === KEY_HASH
      setKeyView(isKey)
      changed.current.isStep = false
      setRead(hashOf())
      if (!isKey) setChoice(readChoice(hashOf()))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const set = (change: Partial<Choice>): void => {
    const name = Object.keys(change).join()
    const last = changed.current
    const isSame = TYPED.test(name) && name === last.name && nowMs() - last.ms < TYPING_MS
    changed.current = { name, ms: nowMs(), isStep: last.isStep || !isSame }
    setRead('')
    setChoice(now => ({ ...now, ...change }))
  }
  /** Writes the hash of a choice: a step of Back where a visitor changed it. */
  const write = (hash: string): void => {
    if (hash === hashOf()) return
    const url = hash === '' ? location.pathname : `#${hash}`
    if (changed.current.isStep) history.pushState(null, '', url)
    else history.replaceState(null, '', url)
    changed.current.isStep = false
  }
  return { isKeyView, choice, set, read: isKeyView ? '' : read, write }
}

/** How long a count has to stay before a screen reader hears it. */
const SETTLED_MS = 700

type IntroProps = { known: Known; say: Say }

/** The facts about the list, between dots. */
function factsOf({ total, facets, at }: StatsDocument, say: Say): string {
  const { words, number, plural } = say
  const { length: countries } = Object.keys(facets.country).filter(code => code !== '')
  return [
    `${number(countries)} ${plural(countries, words.countries)}`, // of the last ten minutes
    fill(words.inList, { total: number(total) }),
    fill(words.updated, { time: say.time(at) }),
  ].join(' · ')
}

/** What this is, and what there is of it now; `known` is what a visitor begins with. */
function Intro({ known, say }: IntroProps) {
  const { words, number, plural } = say
  const { stats } = known
  const notes: { [K in Known['kind']]: string | null } = {
    ...{ loading: words.loading, off: words.isOff, totals: words.isTotals },
    ...{ failed: words.isFailed, full: null },
  }
  return (
    <div class="intro">
      {stats === null && known.kind !== 'loading' ? (
        <h1>{words.tagline}</h1>
      ) : (
        <h1 data-blank={stats === null || undefined}>
          <b>{stats === null ? '00,000' : number(stats.matching)}</b>{' '}
          {plural(stats?.matching ?? 0, words.headline)}
        </h1>
      )}
      <p>{words.about}</p>
      <p>
        {stats?.total === 0
          ? words.isEmptyList
          : known.kind === 'full'
            ? factsOf(known.stats, say)
            : notes[known.kind]}
      </p>
    </div>
  )
}

function App() {
  const [lang, setLang] = useLang()
  const say = useMemo(() => createSay(lang), [lang])
  const { words } = say
  const { isKeyView, choice, set, read, write } = useAddress()
  const [apiKey, setKey] = useState(DEMO)
  // Who chose no language of cities gets that of the page; requests name it where it is not their default.
  const cities = lang === 'ru' ? '' : lang
  const startQuery = cities && `lang=${cities}`
  const start = useStats(startQuery)
  // A Russian name, such as that of a link from a Russian page, is no English one.
  const hasRussian = /[а-яё]/i.test(choice.city)
  const params = paramsOf({ ...choice, lang: choice.lang || (hasRussian ? '' : cities) }, SERVICES)
  const query = queryString(params)
  const takesFilters = start.kind !== 'off' && start.kind !== 'totals'
  const known = useStats(takesFilters ? queryString(countedOf(params)) : startQuery)
  const stats = fullOf(known)
  const hash = toHash(queryString(paramsOf(choice, SERVICES)))
  useLayoutEffect(() => {
    if (!isKeyView) write(hash)
  }, [hash, isKeyView])
  useEffect(() => {
    document.title = `${siteName()} · ${isKeyView ? words.myKey : words.tagline}`
  }, [words, isKeyView])
  const ignored = ignoredIn(read, SERVICES).join(', ')
  const notes = [known.isOld && words.isOld, ignored && fill(words.ignored, { what: ignored })]
  const current = known.isOld ? null : stats
  const count = matchingOf(current, params, say)
  // What a screen reader hears: an event at once, a count when it has settled.
  const [spoken, speak] = useState('')
  useSettled(count && `${count.figure} ${count.word}`, SETTLED_MS, speak)
  const own = { apiKey, setKey, speak, say }
  const links = [
    { href: `#${hash}`, text: words.query, isCurrent: !isKeyView },
    { href: `/docs?lang=${lang}`, text: words.reference, isCurrent: false },
    { href: `#${KEY_HASH}`, text: words.myKey, isCurrent: isKeyView },
  ]
  const shown = hasRussian ? { ...choice, lang: choice.lang || 'ru' } : choice
  const filters = { choice: shown, set, stats, whole: fullOf(start), services: SERVICES, say }
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
            {...{ stats: current, count, notes, params, query }}
            kind={known.kind}
          />
        </main>
      )}
      <Footer words={words} />
      <output class="hidden">{spoken}</output>
    </>
  )
}

render(<App />, document.body)
