/** Handing a key to the next page of a tab. */

const HANDED = 'handed-key'

/** Hands a key to the next page of this tab: a plain click on a link that `selector` finds leads there. */
export function handKeyOver(selector: string, key: () => string): () => void {
  const hand = (event: MouseEvent): void => {
    const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
    if (!isPlain || key() === '' || !(event.target as Element).closest(selector)) return
    try {
      sessionStorage.setItem(HANDED, key())
    } catch {
      // Without storage the key has to be typed again.
    }
  }
  document.addEventListener('click', hand)
  return () => document.removeEventListener('click', hand)
}

/** The key that the page before handed over, which nothing keeps any longer; `''` without one. */
export function takeKey(): string {
  try {
    const key = sessionStorage.getItem(HANDED) ?? ''
    sessionStorage.removeItem(HANDED)
    return key
  } catch {
    return ''
  }
}
