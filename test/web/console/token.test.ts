/** The token of the console (contract G3) in a real browser. */
import { afterAll, describe, expect } from 'bun:test'
import { openPage, violationsOf } from '../../support/browser.ts'
import { heading, startConsole, startSample, viewOf } from '../../support/console-page.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

describe('the token', () => {
  test('is taken from the fragment into the tab, is in no URL, history, referrer or other storage, and is forgotten at the end', async () => {
    const { page, requests, url, admin } = await view()
    const token = url.split('#token=')[1] ?? ''
    expect(token.length).toBeGreaterThan(40)
    await page.locator('.cards').waitFor()
    const seen = await page.evaluate(
      `({ href: location.href, state: history.state, length: history.length, referrer: document.referrer,
          local: JSON.stringify(localStorage), cookie: document.cookie, html: document.documentElement.outerHTML,
          session: Object.values(sessionStorage) })`,
    )
    const { session, ...rest } = seen as { session: string[] }
    expect(session).toContain(token)
    expect(JSON.stringify(rest)).not.toContain(token)
    expect(rest).toMatchObject({ href: `${admin}/`, cookie: '', state: null })
    // Going back does not bring it back.
    await page.goto(`${admin}/#keys`)
    await page.goBack()
    expect(page.url()).not.toContain('token')
    const sent = requests.filter(request => !request.startsWith('data:'))
    expect(sent.filter(request => !request.startsWith(`${admin}/`))).toEqual([])
    expect(sent.filter(request => request.includes(token) && request !== url)).toEqual([])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await heading(page, 'Open the console').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  })

  test('missing: a calm page says to run proxylist console, and takes the link', async () => {
    const { page, url } = await view('Overview', { at: '#plans' })
    await heading(page, 'Open the console').waitFor()
    expect(await page.locator('pre').textContent()).toBe('proxylist console')
    expect(await violationsOf(page)).toEqual([])
    await page.getByLabel('Or paste the link').fill(` ${url}\n`)
    await page.keyboard.press('Enter')
    await heading(page, 'Plans').waitFor()
  })

  test('wrong: the sentence of the server, and the field again', async () => {
    const { page } = await view('Overview', { at: '#token=wrong' })
    expect(await page.getByRole('alert').textContent()).toContain('proxylist console')
    expect(await page.getByLabel('Or paste the link').isVisible()).toBe(true)
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  })
})

describe('the token, while the console is open', () => {
  test('ends: the console asks for the new one and goes on where it was', async () => {
    const { url, signIn } = await startSample()
    const { page } = await openPage(url)
    await page.locator('.cards').waitFor()
    const next = await signIn()
    await page.getByRole('link', { name: 'Keys' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain('not valid')
    await page.getByLabel('Or paste the link').fill(next)
    await page.getByRole('button', { name: 'Open' }).click()
    await heading(page, 'Keys').waitFor()
  })

  test('is replaced while an import is under way, whose refusal ends nothing', async () => {
    const { url, signIn } = await startConsole(temporaryDirectory())
    const { page } = await openPage(url)
    await page.getByRole('link', { name: 'Import' }).click()
    const renewed = Promise.withResolvers<void>()
    await page.route('**/console/import*', route => renewed.promise.then(() => route.continue()))
    const file = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('192.0.2.1:80\n') }
    await page.locator('input[type=file]').setInputFiles(file)
    await page.evaluate(`location.hash = ${JSON.stringify(new URL(await signIn()).hash)}`)
    await page.locator('.cards').waitFor()
    renewed.resolve()
    await page.getByRole('link', { name: 'Import' }).click()
    await page.locator('.imports .bad', { hasText: 'not valid' }).waitFor()
    await page.getByRole('link', { name: 'Keys' }).click()
    await page.getByText('There is no key yet').waitFor()
  })
})
