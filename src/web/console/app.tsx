/** The console as a whole: the token, the view that the fragment names, the bar above. */
import { render } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { State } from '../../admin/api-types.ts'
import { remembered } from '../parts/browser.ts'
import { Radios, TextField } from '../parts/form.tsx'
import { Header, useRemembered } from '../parts/header.tsx'
import {
  forgetToken,
  hrefOf,
  keepToken,
  type Route,
  readToken,
  routeOf,
  takeToken,
  tokenIn,
  VIEWS,
} from './address.ts'
import { type Client, createClient } from './client.ts'
import { Context } from './context.ts'
import { Alert, Dialog } from './dialog.tsx'
import { FeedsView } from './feeds.tsx'
import { countdown, writeIn, ZONES, type Zone, zoneName } from './format.ts'
import { ImportView } from './import.tsx'
import { createImportQueue, type ImportQueue } from './import-queue.ts'
import { KeyView } from './key.tsx'
import { ALL_KEYS } from './key-filter.ts'
import { KeysView } from './keys.tsx'
import { type Live, useLive } from './live.ts'
import { LogView } from './log.tsx'
import { OverviewView } from './overview.tsx'
import { PlansView } from './plans.tsx'

const TITLE = 'proxylist console'
const HEADER_WORDS = {
  ...{ pages: 'Console', theme: 'Theme', auto: 'Auto', light: 'Light', dark: 'Dark' },
}
const VIEW_WORDS: { readonly [view in Route['view']]: string } = {
  ...{ overview: 'Overview', keys: 'Keys', plans: 'Plans' },
  ...{ feeds: 'Feeds', import: 'Import', log: 'Log' },
}

/** Where the first link of the page goes: to its content, which is no view. */
const SKIP = '#content'

/** The server reads what needs attention every ten seconds: it is shown within fifteen. */
const STATE_SECONDS = 5

/** Whether all is well, in every view. */
function ServerState({ live: { value, problem } }: { live: Live<State> }) {
  if (problem !== null) {
    return (
      <span class="status" data-bad>
        no answer
      </span>
    )
  }
  if (value === null) return null
  const { ready, attention, uptime_seconds } = value
  const count = attention.length
  if (ready && count === 0) {
    return (
      <span class="status" data-ok>
        <span class="uptime">all is </span>well
        <span class="uptime"> · {countdown(uptime_seconds)}</span>
      </span>
    )
  }
  const needs = ` need${count === 1 ? 's' : ''} attention`
  return (
    <a
      class="status"
      href="#overview"
      data-attention={ready || undefined}
      data-bad={!ready || undefined}
      aria-label={ready ? count + needs : undefined}
    >
      {ready ? count : 'not ready'}
      {ready && <span class="uptime">{needs}</span>}
    </a>
  )
}

const VIEW_PARTS = {
  ...{ overview: OverviewView, keys: KeysView, plans: PlansView },
  ...{ feeds: FeedsView, import: ImportView, log: LogView },
}

function View({ route: { view, id }, state }: { route: Route; state: Live<State> }) {
  const Part = VIEW_PARTS[view]
  return id === null ? <Part state={state} /> : <KeyView key={id} id={id} />
}

const ZONE_WORDS = { local: 'Local', utc: 'UTC' }

type SignedInProps = { client: Client; route: Route; imports: ImportQueue; onSignOut(): void }

/** The console of an operator whose token is taken. */
function SignedIn({ client, route, imports, onSignOut }: SignedInProps) {
  const [keyFilter, setKeyFilter] = useState(ALL_KEYS)
  const [zone, setZone] = useRemembered<Zone>('zone', () =>
    remembered('zone') === 'utc' ? 'utc' : 'local',
  )
  writeIn(zone) // before any view is drawn
  const heading = useRef<HTMLHeadingElement>(null)
  const { view, id } = route
  const state = useLive<State>(client, '/console/state', STATE_SECONDS)
  const pageUrl = state.value?.page_url ?? ''
  const name = id === null ? VIEW_WORDS[view] : `Key ${id}`
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
    document.title = `${name} · ${TITLE}`
  }, [name])
  const links = VIEWS.map(each => ({
    ...{ href: `#${each}`, text: VIEW_WORDS[each], isCurrent: each === view },
  }))
  return (
    <Context.Provider value={{ client, imports, pageUrl, keyFilter, setKeyFilter }}>
      <a class="skip" href={SKIP}>
        Skip to content
      </a>
      <Header links={links} words={HEADER_WORDS}>
        <ServerState live={state} />
        <button type="button" class="quiet" onClick={onSignOut}>
          Sign out
        </button>
        <Radios
          label="Times"
          name="zone"
          value={zone}
          onChange={setZone}
          options={ZONES.map(each => [each, ZONE_WORDS[each], zoneName(each)])}
        />
      </Header>
      <main id="content">
        <h1
          ref={heading}
          tabIndex={-1}
          class={view === 'overview' || id !== null ? 'hidden' : undefined}
        >
          {name}
        </h1>
        <View route={route} state={state} />
      </main>
    </Context.Provider>
  )
}

type SignInProps = {
  /** The server's sentence about a token that it refused. */
  problem: string | null
  onToken(token: string): void
}

/** What is to be done without a token that the server takes. */
function SignIn({ problem, onToken }: SignInProps) {
  const [text, setText] = useState('')
  const submit = (event: Event): void => {
    event.preventDefault()
    const token = tokenIn(text)
    if (token !== '') onToken(token)
  }
  return (
    <form class="sign-in" onSubmit={submit}>
      {problem && <Alert>{problem}</Alert>}
      <p class="soft">Run this on the server. It prints a link that opens the console.</p>
      <pre>proxylist console</pre>
      <TextField
        label="Or paste the link, or the token in it"
        name="token"
        input={{ class: 'input secret' }}
        value={text}
        onChange={setText}
        hint="The token stays in the open tabs of this browser and is sent in a header field, never in a URL."
      />
      <button type="submit" class="primary">
        Open
      </button>
    </form>
  )
}

const SIGN_IN = 'Open the console'

/** The route that the fragment names; a token in it is taken and is no route. */
function useRoute(onToken: () => void): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash))
  const current = useRef(route)
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const change = (): void => {
      if (takeToken(window)) onToken()
      if (location.hash === SKIP) return history.replaceState(null, '', hrefOf(current.current))
      current.current = routeOf(location.hash)
      setRoute(current.current)
    }
    window.addEventListener('hashchange', change)
    return () => window.removeEventListener('hashchange', change)
  }, [onToken])
  return route
}

/** What tabs of one browser say to each other: that one has no token, or was left, or which one it has. */
type Said = 'asked' | 'left' | { token: string }

/** The token of this tab, and why the server no longer takes it; tabs that are open give it to each other. */
function useSession() {
  const [session, setSession] = useState(() => ({ token: readToken(window) }))
  const [problem, setProblem] = useState<string | null>(null)
  const refused = useRef<string | null>(null)
  const tabs = useMemo(() => new BroadcastChannel('proxylist-console'), [])
  const say = (said: Said): void => tabs.postMessage(said)
  /** Goes on with the token that is kept, or without one. */
  const goOn = useCallback(() => {
    setSession({ token: readToken(window) })
    setProblem(null)
  }, [])
  useLayoutEffect(() => {
    tabs.onmessage = ({ data }) => {
      const said: Said = data
      const own = readToken(window)
      if (said === 'asked') {
        if (own !== null) say({ token: own })
      } else if (said === 'left') {
        forgetToken(window)
        goOn()
      } else if (own === null && said.token !== refused.current) {
        keepToken(window, said.token)
        goOn()
      }
    }
    return () => tabs.close()
  }, [tabs, goOn])
  const { token } = session
  const isIn = problem === null && token !== null
  useLayoutEffect(() => say(isIn ? { token } : 'asked'), [isIn, token])
  const client = useMemo(() => {
    if (token === null) return null
    return createClient(token, message => {
      // Of an earlier token, with which an import may still be under way, it says nothing.
      if (readToken(window) !== token) return
      refused.current = token
      forgetToken(window)
      setProblem(message)
    })
  }, [session])
  return {
    ...{ client, problem, goOn },
    signIn(given: string): void {
      keepToken(window, given)
      goOn()
    },
    signOut(): void {
      say('left')
      forgetToken(window)
      goOn()
    },
  }
}

function App() {
  const { client, problem, goOn, signIn, signOut } = useSession()
  const route = useRoute(goOn)
  const imports = useMemo(createImportQueue, [])
  // Asks before the tab is closed while an import runs.
  useEffect(() => {
    const ask = (event: Event): void => {
      if (imports.isBusy()) event.preventDefault()
    }
    window.addEventListener('beforeunload', ask)
    return () => window.removeEventListener('beforeunload', ask)
  }, [imports])
  if (client !== null) {
    return (
      <>
        <SignedIn {...{ client, route, imports, onSignOut: signOut }} />
        {problem !== null && (
          <Dialog title={SIGN_IN}>
            <SignIn problem={problem} onToken={signIn} />
          </Dialog>
        )}
      </>
    )
  }
  document.title = TITLE
  return (
    <>
      <Header links={[]} words={HEADER_WORDS} />
      <main id="content" class="card">
        <h1>{SIGN_IN}</h1>
        <SignIn problem={null} onToken={signIn} />
      </main>
    </>
  )
}

takeToken(window)
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
