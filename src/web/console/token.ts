/** The token of this tab, in `sessionStorage`, which ends with the tab. */
import { tokenIn } from './address.ts'

const NAME = 'proxylist-console-token'

/**
 * Moves a token from the fragment to the storage of the tab, and replaces the history entry that
 * holds it. Returns whether there was one.
 */
export function takeToken(): boolean {
  if (!location.hash.startsWith('#token=')) return false
  const token = tokenIn(location.hash)
  history.replaceState(null, '', location.pathname)
  if (token !== '') keepToken(token)
  return token !== ''
}

export const readToken = (): string | null => sessionStorage.getItem(NAME)
export const keepToken = (token: string): void => sessionStorage.setItem(NAME, token)
export const forgetToken = (): void => sessionStorage.removeItem(NAME)
