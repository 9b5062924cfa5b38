/**
 * What happens between the drawing of a page and its next frame, which on a busy machine is late: nothing
 * of it is lost, and what is drawn is right at once.
 */
import { afterAll, describe, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { heading, startSample, viewOf } from '../support/console-page.ts'
import { dataDirectory } from '../support/fixtures.ts'
import { inBrowser as test } from '../support/in-browser.ts'
import { pageRows } from '../support/list-statistics.ts'
import { fulfill, pageOf } from '../support/page.ts'
import { startChild } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)
const view = viewOf(startSample)
const open = pageOf(() => startChild(dataDirectory(pageRows(2000))))

/** Runs a statement as soon as an element is in the document, before the next task. */
const onceDrawn = (page: Page, selector: string, statement: string): Promise<unknown> =>
  page.addInitScript(`new MutationObserver((_, observer) => {
    const found = document.querySelector(${JSON.stringify(selector)})
    if (found === null) return
    observer.disconnect()
    ${statement}
  }).observe(document, { subtree: true, childList: true })`)

describe('the page, before its next frame', () => {
  test('follows a link', async () => {
    const { page } = await open({
      prepare: each => onceDrawn(each, 'a[href="#my-key"]', 'found.click()'),
    })
    await page.getByRole('heading', { name: 'Your key' }).waitFor()
  })

  test('takes a click on the map', async () => {
    const { page } = await open({ at: '/#my-key' })
    const query = page.getByRole('link', { name: 'Query' })
    await query.waitFor()
    await page.evaluate(`new MutationObserver((_, observer) => {
      const found = document.querySelector('.place[data-code=BR] .dot')
      if (found === null) return
      observer.disconnect()
      found.dispatchEvent(new MouseEvent('click', { bubbles: true }))
    }).observe(document, { subtree: true, childList: true })`)
    await query.click()
    await page.locator('[name=country][value=br]:checked').waitFor()
  })

  test('has the language that was chosen', async () => {
    const { page } = await open({
      async prepare(each) {
        await each.addInitScript(`localStorage.lang = 'ru'`)
        await onceDrawn(each, 'header', 'window.drawn = document.documentElement.lang')
      },
    })
    expect(await page.evaluate('window.drawn')).toBe('ru')
  })

  test('says how long to wait after a 429, however long it was open', async () => {
    const { page } = await open({ prepare: each => each.clock.install() })
    await page.route('**/api?*', route =>
      fulfill(route, { status: 429, body: {}, headers: { 'retry-after': '9' } }),
    )
    await page.clock.runFor(60_000)
    await page.evaluate(`new MutationObserver(() => {
      window.said ??= /Again in .*/.exec(document.querySelector('.ask button').textContent)?.[0]
    }).observe(document, { subtree: true, childList: true, characterData: true })`)
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.locator('.ask button', { hasText: 'Again' }).waitFor()
    expect(await page.evaluate('window.said')).toBe('Again in 9 sec')
  })

  test('has statistics also where it was opened in the background', async () => {
    const { page } = await open({
      prepare: each =>
        each.addInitScript(
          `Object.defineProperty(document, 'visibilityState', { value: 'hidden' })`,
        ),
    })
    await page.getByText('2,000 in the list').waitFor()
  })
})

describe('the console, before its next frame', () => {
  test('follows a link, says where it leads and gives it the focus', async () => {
    const { page } = await view('Overview', {
      prepare: each => onceDrawn(each, 'a[href="#plans"]', 'found.click()'),
    })
    await heading(page, 'Plans').waitFor()
    await page.evaluate(`new MutationObserver(() => {
      window.drawn ??= [document.title, document.activeElement.textContent]
    }).observe(document.querySelector('h1'), { subtree: true, childList: true, characterData: true })`)
    await page.getByRole('link', { name: 'Keys' }).click()
    await heading(page, 'Keys').waitFor()
    expect(await page.evaluate('window.drawn')).toEqual(['Keys · proxylist console', 'Keys'])
  })

  test('notices that its tab was hidden', async () => {
    const { page, requests } = await view('Overview', {
      async prepare(each) {
        await each.clock.install()
        await onceDrawn(
          each,
          'header',
          `Object.defineProperty(document, 'visibilityState', { value: 'hidden' })
           document.dispatchEvent(new Event('visibilitychange'))`,
        )
      },
    })
    await page.clock.runFor(120_000)
    // No more than the one that was under way.
    const asked = requests.filter(each => each.endsWith('/console/overview'))
    expect(asked.length).toBeLessThanOrEqual(1)
  })
})
