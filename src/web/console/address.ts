/** The fragment of the URL, which browsers do not send: a token or the current view. */

/** The token in a pasted text: the token alone, or the URL that `proxylist console` prints. */
export const tokenIn = (text: string): string => /#token=([\w-]*)/.exec(text)?.[1] ?? text.trim()

export const VIEWS = ['overview', 'keys', 'plans', 'feeds', 'import', 'log'] as const

/** The current view; `id` is the id of a key. */
export type Route = { view: (typeof VIEWS)[number]; id: string | null }

/** The route of a fragment such as `#keys/k3x9m2ab`. Unknown ones are the overview. */
export function routeOf(hash: string): Route {
  const [name = '', id = ''] = hash.replace(/^#\/?|\?.*/g, '').split('/')
  const view = VIEWS.find(each => each === name) ?? 'overview'
  return { view, id: view === 'keys' && /^[a-z0-9]{1,40}$/i.test(id) ? id : null }
}

/** The parameters of a fragment such as `#log?code=INVALID_KEY`. */
export const paramsOf = (hash: string): URLSearchParams =>
  new URLSearchParams(/\?.*/s.exec(hash)?.[0])

export const keyHref = (id: string): string => `#keys/${id}`
