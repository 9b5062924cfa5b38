/**
 * The fragment of the URL, which no request carries: a token, or the view that is shown. A token is moved
 * to `sessionStorage`, which ends with the tab; other tabs that are open may have it, and no disk has.
 */

const NAME = 'proxylist-console-token'

/** The parts of a window that are used, so that tests need none. */
export type Tab = {
  location: { hash: string; pathname: string }
  history: { replaceState(data: null, unused: string, url: string): void }
  sessionStorage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
}

/** The token in what was pasted: the token alone, or the URL that `proxylist console` prints. */
export function tokenIn(text: string): string {
  const fragment = /#token=([^&\s]*)/.exec(text)?.[1]
  if (fragment === undefined) return text.trim()
  try {
    return decodeURIComponent(fragment)
  } catch {
    return fragment
  }
}

/**
 * Moves a token from the fragment into the storage of the tab, and replaces the entry of the
 * history that holds it. Returns whether there was one.
 */
export function takeToken({ location, history, sessionStorage }: Tab): boolean {
  if (!location.hash.startsWith('#token=')) return false
  const token = tokenIn(location.hash)
  history.replaceState(null, '', location.pathname)
  if (token !== '') sessionStorage.setItem(NAME, token)
  return token !== ''
}

export const readToken = ({ sessionStorage }: Tab): string | null => sessionStorage.getItem(NAME)

export const keepToken = ({ sessionStorage }: Tab, token: string): void =>
  sessionStorage.setItem(NAME, token)

export const forgetToken = ({ sessionStorage }: Tab): void => sessionStorage.removeItem(NAME)

export const VIEWS = ['overview', 'keys', 'plans', 'feeds', 'import', 'log'] as const

/** A view, which the fragment of the URL names; `id` is that of a key. */
export type Route = { view: (typeof VIEWS)[number]; id: string | null }

/** The route of a fragment such as `#keys/k3x9m2ab`; what is unknown is the overview. */
export function routeOf(hash: string): Route {
  const [name = '', id = ''] = hash.replace(/^#\/?|\?.*/g, '').split('/')
  const view = VIEWS.find(each => each === name) ?? 'overview'
  return { view, id: view === 'keys' && /^[a-z0-9]{1,40}$/i.test(id) ? id : null }
}

/** What a fragment such as `#log?code=INVALID_KEY` has besides its route. */
export const paramsOf = (hash: string): URLSearchParams =>
  new URLSearchParams(/\?.*/s.exec(hash)?.[0])

export const hrefOf = ({ view, id }: Route): string => (id === null ? `#${view}` : `#${view}/${id}`)

export const keyHref = (id: string): string => hrefOf({ view: 'keys', id })
