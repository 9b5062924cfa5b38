/** Owns hiding secrets in the sources of feeds, where they are shown (contract G1). Pure. */

const HIDDEN = '***'

/** A part of a path that looks like a token: long, of letters and digits mixed. */
const TOKEN = /^(?=.*\d)(?=.*[a-z])[\w-]{20,}$/i
/** Words and dates joined by dashes, as names of lists are. */
const NAME = /^(?:[a-z]{1,15}|\d{1,8})(?:[-_](?:[a-z]{1,15}\d{0,2}|\d{1,8}))*$/i

const maskSegment = (segment: string): string =>
  TOKEN.test(segment) && !NAME.test(segment) ? HIDDEN : segment

/**
 * A source as it may be shown: of a URL without user, password, values of the query, fragment, and
 * parts of the path that look like tokens. A path is shown as it is.
 */
export function maskSource(source: string): string {
  if (!/^[a-z][a-z\d+.-]*:\/\//i.test(source)) return source
  const url = URL.parse(source)
  if (url === null) return source.replace(/\/\/.*/s, `//${HIDDEN}`)
  const user = url.username || url.password ? `${HIDDEN}@` : ''
  const path = url.pathname.split('/').map(maskSegment).join('/')
  const names = [...url.searchParams.keys()].map(name => encodeURIComponent(maskSegment(name)))
  const query = names.map(name => `${name}=${HIDDEN}`).join('&')
  return `${url.protocol}//${user}${url.host}${path}${query && `?${query}`}`
}
