/** Copying, wherever a page is served from. */

/** Copies text, also where the page is not served over HTTPS and so has no clipboard of its own. */
export async function copyText(text: string, from: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    if (from === null) return false
    getSelection()?.selectAllChildren(from)
    const isCopied = document.execCommand('copy')
    if (isCopied) getSelection()?.removeAllRanges()
    return isCopied
  }
}
