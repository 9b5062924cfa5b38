/** Owns the console as a whole: the token, the view that the fragment names, the bar above. */
import { render } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Overview } from '../../admin/wire.ts'
import { Header, useLang } from '../parts/header.tsx'
import { type Client, createClient } from './client.ts'
import { Context } from './context.ts'
import { FeedsView } from './feeds.tsx'
import { ImportView } from './import.tsx'
import { createImportQueue, type ImportQueue } from './import-queue.ts'
import { KeyView } from './key.tsx'
import { ALL_KEYS } from './key-filter.ts'
import { KeysView } from './keys.tsx'
import { type Live, useLive } from './live.ts'
import { LogView } from './log.tsx'
import { OverviewView } from './overview.tsx'
import { hrefOf, type Place, placeOf, VIEWS } from './place.ts'
import { PlansView } from './plans.tsx'
import { forgetToken, keepToken, readToken, takeToken } from './session.ts'
import { SignIn } from './sign-in.tsx'
import { type ConsoleSpeech, createConsoleSpeech } from './speech.ts'

/** Where the first link of the page goes: to its content, which is no view. */
const SKIP = '#content'

/** How often the overview is asked for, while it is shown and for the bar above. */
const [SHOWN_SECONDS, ELSE_SECONDS] = [10, 60]

/** Whether the server is ready, for all views. */
function ServerState({ live, speech }: { live: Live<Overview>; speech: ConsoleSpeech }) {
  const { words, countdown } = speech
  const { value, problem } = live
  if (value === null && problem === null) return null
  const isReady = problem === null && value?.ready === true
  const state = problem !== null ? words.noAnswer : isReady ? words.ready : words.notReady
  return (
    <span class="status" data-ok={isReady || undefined}>
      {state}
      {isReady && value && <span class="uptime"> · {countdown(value.uptime_seconds)}</span>}
    </span>
  )
}

function View({ place, overview }: { place: Place; overview: Live<Overview> }) {
  switch (place.view) {
    case 'overview':
      return <OverviewView live={overview} />
    case 'keys':
      return place.id === null ? <KeysView /> : <KeyView key={place.id} id={place.id} />
    case 'plans':
      return <PlansView />
    case 'feeds':
      return <FeedsView />
    case 'import':
      return <ImportView />
    case 'log':
      return <LogView />
  }
}

type SignedInProps = {
  client: Client
  place: Place
  speech: ConsoleSpeech
  imports: ImportQueue
  header: Omit<Parameters<typeof Header>[0], 'links' | 'words'>
  onSignOut(): void
}

/** The console of an operator whose token is taken. */
function SignedIn({ client, place, speech, imports, header, onSignOut }: SignedInProps) {
  const { words } = speech
  const [keyFilter, setKeyFilter] = useState(ALL_KEYS)
  const heading = useRef<HTMLHeadingElement>(null)
  const load = useCallback(
    (signal: AbortSignal) => client.get<Overview>('/console/overview', signal),
    [client],
  )
  const isShown = place.view === 'overview'
  const overview = useLive(load, isShown ? SHOWN_SECONDS : ELSE_SECONDS)
  const { view, id } = place
  const name = id === null ? words[view] : `${words.key} ${id}`
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
  }, [view, id])
  useLayoutEffect(() => {
    document.title = `${name} · ${words.title}`
  }, [name, words])
  const links = VIEWS.map(each => ({
    href: `#${each}`,
    text: words[each],
    isCurrent: each === view,
  }))
  const surroundings = { client, speech, imports, keyFilter, setKeyFilter }
  return (
    <Context.Provider value={surroundings}>
      <a class="skip" href={SKIP}>
        {words.skip}
      </a>
      <Header {...{ ...header, links, words }}>
        <ServerState live={overview} speech={speech} />
        <button type="button" class="quiet" onClick={onSignOut}>
          {words.signOut}
        </button>
      </Header>
      <main id="content">
        <h1
          ref={heading}
          tabIndex={-1}
          class={view === 'overview' || id !== null ? 'hidden' : undefined}
        >
          {name}
        </h1>
        <View place={place} overview={overview} />
      </main>
    </Context.Provider>
  )
}

/** The place that the fragment names; a token in it is taken and is no place. */
function usePlace(onToken: () => void): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash))
  const current = useRef(place)
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const change = (): void => {
      if (takeToken(window)) onToken()
      if (location.hash === SKIP) return history.replaceState(null, '', hrefOf(current.current))
      current.current = placeOf(location.hash)
      setPlace(current.current)
    }
    window.addEventListener('hashchange', change)
    return () => window.removeEventListener('hashchange', change)
  }, [onToken])
  return place
}

/** Asks before the tab is closed while an import runs. */
function useLeaveWarning(imports: ImportQueue): void {
  useEffect(() => {
    const ask = (event: Event): void => {
      if (imports.isBusy()) event.preventDefault()
    }
    window.addEventListener('beforeunload', ask)
    return () => window.removeEventListener('beforeunload', ask)
  }, [imports])
}

function App() {
  const [lang, setLang] = useLang()
  const speech = useMemo(() => createConsoleSpeech(lang), [lang])
  const { words } = speech
  const [token, setToken] = useState(() => readToken(window))
  const [problem, setProblem] = useState<string | null>(null)
  const takeNew = useCallback(() => {
    setToken(readToken(window))
    setProblem(null)
  }, [])
  const place = usePlace(takeNew)
  const imports = useMemo(createImportQueue, [])
  useLeaveWarning(imports)
  const leave = useCallback((message: string | null) => {
    forgetToken(window)
    setToken(null)
    setProblem(message)
  }, [])
  const sentences = useRef(words)
  sentences.current = words
  const client = useMemo(() => {
    if (token === null) return null
    const refused = (message: string): void => {
      // Of an earlier token, with which an import may still be under way, it says nothing.
      if (readToken(window) === token) leave(message)
    }
    return createClient(token, refused, () => sentences.current.unreachable)
  }, [token, leave])
  const header = { lang, setLang }
  if (client !== null) {
    return (
      <SignedIn {...{ client, place, speech, imports, header, onSignOut: () => leave(null) }} />
    )
  }
  const signIn = (given: string): void => {
    keepToken(window, given)
    takeNew()
  }
  document.title = words.title
  return (
    <>
      <Header {...{ ...header, links: [], words }} />
      <SignIn words={words} problem={problem} onToken={signIn} />
    </>
  )
}

takeToken(window)
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
