/** All views of the console in all looks, and by keyboard. */
import { afterAll, describe, expect } from 'bun:test'
import { keepScreenshot, violationsOf } from '../../support/browser.ts'
import { heading, startSample, viewOf, withHistory } from '../../support/console-page.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1440, height: 900 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true },
  wide: { colorScheme: 'dark', viewport: { width: 2560, height: 1200 } },
} as const

const READY: { readonly [view: string]: string } = {
  overview: '.cards',
  keys: '.keys tbody tr',
  plans: '.plans tbody tr',
  feeds: '.empty',
  import: '.drop',
  log: '.log tbody tr',
}

describe('every view', () => {
  for (const [name, look] of Object.entries(LOOKS))
    test(`is accessible and fits: ${name}`, async () => {
      const { page, api } = await view('Overview', { ...look, prepare: withHistory })
      await fetch(`${api}?key=demo`)
      await page.locator('.cards').waitFor()
      await page.evaluate(
        `fetch('/console/keys', { method: 'POST', headers: { authorization: 'Bearer ' + Object.values(sessionStorage)[0], 'content-type': 'application/json' }, body: JSON.stringify({ kind: 'regular', label: 'a label that is longer than most of the labels are' }) })`,
      )
      for (const [place, ready] of Object.entries(READY)) {
        await page.evaluate(`location.hash = '${place}'`)
        await page.locator(ready).first().waitFor()
        const wider = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        // In a wide window there are no other words or colours.
        const violations = name === 'wide' ? [] : await violationsOf(page)
        expect([place, wider, violations]).toEqual([place, 0, []])
        await keepScreenshot(page, `console-${place}-${name}`)
      }
    })
})

describe('the console', () => {
  test('is used with the keyboard alone, and announces its views', async () => {
    const { page } = await view()
    await page.locator('.cards').waitFor()
    const focused = () => page.evaluate('document.activeElement.textContent')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('Skip to content')
    for (let i = 0; i < 3; i++) await page.keyboard.press('Tab')
    expect(await focused()).toBe('Keys')
    await page.keyboard.press('Enter')
    await heading(page, 'Keys').waitFor()
    expect(await focused()).toBe('Keys')
    expect(await page.title()).toBe('Keys · proxylist console')
    await page.getByRole('button', { name: 'New key' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'New key' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await focused()).toBe('New key')
  })

  test('survives damaged fragments', async () => {
    const { page, admin } = await view()
    await page.locator('.cards').waitFor()
    for (const hash of ['#overview/<script>', '#keys/%00', '#%', '#import/../..']) {
      await page.goto(`${admin}/${hash}`)
      await page.reload()
      await page.locator('h1').waitFor({ state: 'attached' })
    }
  })
})
