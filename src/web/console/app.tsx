/** The console: the token, the header, and the view that the URL fragment names. */
import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { State } from '../../admin/api-types.ts'
import { TextField } from '../parts/form.tsx'
import { Header } from '../parts/header.tsx'
import { type Route, routeOf, tokenIn, VIEWS } from './address.ts'
import { type Client, createClient } from './client.ts'
import { Context } from './context.ts'
import { Alert, Copyable } from './dialog.tsx'
import { FeedsView } from './feeds.tsx'
import { ImportView } from './import.tsx'
import { KeyView } from './key.tsx'
import { ALL_KEYS } from './key-filter.ts'
import { KeysView } from './keys.tsx'
import { type Live, useLive } from './live.ts'
import { LogView } from './log.tsx'
import { OverviewView } from './overview.tsx'
import { PlansView } from './plans.tsx'
import { forgetToken, keepToken, readToken, takeToken } from './token.ts'
import { useUpload } from './upload.ts'

const TITLE = 'proxylist console'
const HEADER_WORDS = { pages: 'Console' }
/** The server checks what needs attention every 10 seconds, so this shows it within 15. */
const STATE_SECONDS = 5

/** The status in the header of every view. */
function ServerState({ live: { value, problem } }: { live: Live<State> }) {
  if (problem === null && value === null) return null
  const { ready = false, attention = [] } = value ?? {}
  const needs = attention.length === 1 ? '1 needs' : `${attention.length} need`
  const [text, look] =
    problem !== null
      ? ['no answer', 'data-bad']
      : !ready
        ? ['not ready', 'data-bad']
        : attention.length > 0
          ? [`${needs} attention`, 'data-attention']
          : ['all is well', 'data-ok']
  return (
    <a class="status" href="#overview" {...{ [look]: true }}>
      {text}
    </a>
  )
}

const VIEW_PARTS: { readonly [view in Route['view']]: typeof OverviewView } = {
  ...{ overview: OverviewView, keys: KeysView, plans: PlansView },
  ...{ feeds: FeedsView, import: ImportView, log: LogView },
}

const titleOf = (view: string): string => view.charAt(0).toUpperCase() + view.slice(1)

type SignedInProps = { client: Client; route: Route; onSignOut(): void }

function SignedIn({ client, route, onSignOut }: SignedInProps) {
  const [keyFilter, setKeyFilter] = useState(ALL_KEYS)
  const upload = useUpload(client)
  const heading = useRef<HTMLHeadingElement>(null)
  const { view, id } = route
  const state = useLive<State>(client, '/console/state', STATE_SECONDS)
  const name = id === null ? titleOf(view) : `Key ${id}`
  const Part = VIEW_PARTS[view]
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
    document.title = `${name} · ${TITLE}`
  }, [name])
  const links = VIEWS.map(each => ({
    ...{ href: `#${each}`, text: titleOf(each), isCurrent: each === view },
  }))
  return (
    <Context.Provider value={{ client, upload, keyFilter, setKeyFilter }}>
      <button type="button" class="skip" onClick={() => heading.current?.focus()}>
        Skip to content
      </button>
      <Header links={links} words={HEADER_WORDS}>
        <ServerState live={state} />
        <button type="button" class="quiet" onClick={onSignOut}>
          Sign out
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
        {id === null ? <Part state={state} /> : <KeyView key={id} id={id} />}
      </main>
    </Context.Provider>
  )
}

/** The command that makes a token, with the options of this server. */
function useCommand(): string {
  const [command, setCommand] = useState('proxylist console')
  useEffect(() => {
    fetch('/console/state')
      .then(response => response.json())
      .then((body: { command?: string }) => setCommand(body.command ?? command))
      .catch(() => {})
  }, [])
  return command
}

function SignIn({ problem, onToken }: { problem: string; onToken(token: string): void }) {
  const [text, setText] = useState('')
  const command = useCommand()
  const submit = (event: Event): void => {
    event.preventDefault()
    const token = tokenIn(text)
    if (token !== '') onToken(token)
  }
  document.title = TITLE
  return (
    <>
      <Header links={[]} words={HEADER_WORDS} />
      <main id="content" class="card">
        <h1>Open the console</h1>
        <form class="fields" onSubmit={submit}>
          {problem && <Alert>{problem}</Alert>}
          <p class="soft">Run this on the server. It prints a link that opens the console.</p>
          <Copyable value={command} action="Copy the command" />
          <TextField
            label="Or paste the link, or the token in it"
            name="token"
            input={{ class: 'secret' }}
            value={text}
            onChange={setText}
            hint="The token stays in this tab. The console sends it in a header field, never in a URL."
          />
          <button type="submit" class="primary">
            Open
          </button>
        </form>
      </main>
    </>
  )
}

/** The route in the URL fragment. A token in the fragment is stored instead. */
function useRoute(onToken: () => void): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash))
  // A plain effect would miss changes before the next frame.
  useLayoutEffect(() => {
    const change = (): void => {
      if (takeToken()) onToken()
      setRoute(routeOf(location.hash))
    }
    window.addEventListener('hashchange', change)
    return () => window.removeEventListener('hashchange', change)
  }, [])
  return route
}

function App() {
  /** `problem`: why the server refused the last token. */
  const [{ token, problem }, setSession] = useState(() => ({ token: readToken(), problem: '' }))
  const route = useRoute(() => setSession({ token: readToken(), problem: '' }))
  const signOut = (problem = ''): void => {
    forgetToken()
    setSession({ token: null, problem })
  }
  const signIn = (token: string): void => {
    keepToken(token)
    setSession({ token, problem: '' })
  }
  const client = useMemo(() => token && createClient(token, signOut), [token])
  if (client) return <SignedIn client={client} route={route} onSignOut={() => signOut()} />
  return <SignIn problem={problem} onToken={signIn} />
}

takeToken()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
