/** Owns which view the fragment of the URL names. Pure. */

export const VIEWS = ['overview', 'keys', 'plans', 'feeds', 'import', 'log'] as const
export type ViewName = (typeof VIEWS)[number]

/** A view; `id` is that of a key. */
export type Place = { view: ViewName; id: string | null }

/** The place of a fragment such as `#keys/k3x9m2ab`; what is unknown is the overview. */
export function placeOf(hash: string): Place {
  const [name = '', id = ''] = hash.replace(/^#\/?/, '').split('/')
  const view = VIEWS.find(each => each === name) ?? 'overview'
  return { view, id: view === 'keys' && /^[a-z0-9]{1,40}$/i.test(id) ? id : null }
}

export const hrefOf = ({ view, id }: Place): string => (id === null ? `#${view}` : `#${view}/${id}`)

export const keyHref = (id: string): string => hrefOf({ view: 'keys', id })
