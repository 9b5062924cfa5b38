/** What needs attention (contract G3), as an operator sees it in a real browser. */
import { afterAll, describe, expect } from 'bun:test'
import { cleanUp } from '../../support/temporary.ts'
import { startTroubled } from '../../support/troubled.ts'
import { faultsIn, type Look, openPage } from '../browser.ts'
import { heading } from '../console-page.ts'
import { inBrowser as test } from '../in-browser.ts'

afterAll(cleanUp)

const LOOKS: { readonly [name: string]: Look } = {
  light: { width: 1440, rules: 'all' },
  dark: { width: 1440, colorScheme: 'dark', rules: 'colours' },
  tablet: { width: 1024, rules: null },
  phone: { width: 390, rules: 'structure' },
}

describe('an operator', () => {
  test('sees every problem on the first screen, follows its link, and sees green when all is fixed', async () => {
    const { server, reasons, readAgain, mend } = await startTroubled()
    readAgain()
    const { promise, resolve } = Promise.withResolvers<void>()
    const { page } = await openPage(server.url, {
      viewport: { width: 1440, height: 900 },
      prepare: each =>
        each.route('**/console/overview', route => promise.then(() => route.fallback())),
    })
    await page.locator('.top .status').waitFor()
    await page.getByText('Loading…').waitFor()
    expect(await page.getByRole('listitem').count()).toBe(0) // they would move what is there
    resolve()
    const causes = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem')
    await causes.first().waitFor()
    expect(await causes.count()).toBe(reasons.length)
    for (const cause of await causes.all()) {
      const { y = 900, height = 0 } = (await cause.boundingBox()) ?? {}
      expect(y + height).toBeLessThan(900)
    }
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([name, await faultsIn(page, look)]).toEqual([name, []])
    }

    const badge = page.locator('.top .status')
    expect(await badge.textContent()).toBe(`${reasons.length} need attention`)
    await causes.getByRole('link', { name: 'ends on 2026-11-24' }).click()
    await page.getByRole('heading', { level: 1, name: /^Key / }).waitFor()
    await badge.click()
    await causes.getByRole('link', { name: 'feed.txt: cannot be read' }).click()
    await heading(page, 'Feeds').waitFor()
    await page.getByText('cannot be read').first().waitFor()

    await mend()
    await badge.getByText('all is well').waitFor()
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.locator('.cards').waitFor()
    expect(await causes.count()).toBe(0)
  })
})
