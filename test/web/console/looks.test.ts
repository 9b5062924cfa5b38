/** All views of the console in all looks, and by keyboard. */
import { afterAll, describe, expect } from 'bun:test'
import { faultsIn, keepScreenshot, type Look } from '../../support/browser.ts'
import { heading, startSample, viewOf, withHistory } from '../../support/console-page.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

const LOOKS: { readonly [name: string]: Look } = {
  light: { width: 1440, rules: 'all' },
  dark: { width: 1440, colorScheme: 'dark', rules: 'colours' },
  phone: { width: 390, rules: 'structure' },
  wide: { width: 2560, colorScheme: 'dark', rules: null },
}

const READY: { readonly [view: string]: string } = {
  overview: '.cards',
  keys: '.keys tbody tr',
  plans: '.plans tbody tr',
  feeds: '.empty',
  import: '.drop',
  log: '.log tbody tr',
}

test('every view is accessible and fits, in all looks', async () => {
  const { page, api } = await view('Overview', { prepare: withHistory })
  await fetch(`${api}?key=demo`)
  await page.locator('.cards').waitFor()
  await page.evaluate(
    `fetch('/console/keys', { method: 'POST', headers: { authorization: 'Bearer ' + Object.values(sessionStorage)[0], 'content-type': 'application/json' }, body: JSON.stringify({ kind: 'regular', label: 'a label that is longer than most of the labels are' }) })`,
  )
  for (const [place, ready] of Object.entries(READY)) {
    await page.evaluate(`location.hash = '${place}'`)
    await page.locator(ready).first().waitFor()
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([place, name, await faultsIn(page, look)]).toEqual([place, name, []])
      await keepScreenshot(page, `console-${place}-${name}`)
    }
  }
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
