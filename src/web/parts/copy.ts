/** Copies text. Without HTTPS, a page has no clipboard: then it copies the selected element `from`. */
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
