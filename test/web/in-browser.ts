/** Tests of pages in the browser of `browser.ts`. */
import { expect, test } from 'bun:test'
import { closePages, HAS_BROWSER } from './browser.ts'

/**
 * A test whose pages are closed at its end, and fail it if anything went wrong on them; skipped where there
 * is no browser.
 */
export function inBrowser(name: string, work: () => Promise<void>): void {
  test.if(HAS_BROWSER)(name, async () => {
    let problems: string[] = []
    try {
      await work()
    } finally {
      problems = await closePages()
    }
    expect(problems).toEqual([])
  })
}
