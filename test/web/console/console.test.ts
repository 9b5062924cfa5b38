/** The console itself (contract G3) in a real browser: its token, its overview, and all views in all looks. */
import { afterAll, describe, expect } from 'bun:test'
import { version } from '../../../package.json'
import { cleanUp } from '../../support/temporary.ts'
import { faultsIn, type Look, openPage, violationsOf } from '../browser.ts'
import { heading, openView, startSample, viewOf, withHistory } from '../console-page.ts'
import { inBrowser as test } from '../in-browser.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

const LOOKS: { readonly [name: string]: Look } = {
  light: { width: 1440, rules: 'all' },
  dark: { width: 1440, colorScheme: 'dark', rules: 'colours' },
  phone: { width: 390, rules: 'structure' },
  wide: { width: 2560, colorScheme: 'dark', rules: null },
}

describe('the token', () => {
  test('moves from the fragment into the tab, is in no URL, history, referrer or other storage, and is gone after sign-out', async () => {
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

  test('is missing at first: a page shows the whole command, and accepts the link', async () => {
    const { page, url, admin } = await view('Overview', { at: '#plans' })
    await heading(page, 'Open the console').waitFor()
    const command = page.locator('.copyable pre')
    await command.getByText('--data').waitFor()
    expect(await command.textContent()).toMatch(
      new RegExp(`^proxylist console --data /\\S+ --admin-listen ${new URL(admin).host}$`),
    )
    expect(await violationsOf(page)).toEqual([])
    await page.getByLabel('Or paste the link').fill(` ${url}\n`)
    await page.keyboard.press('Enter')
    await heading(page, 'Plans').waitFor()
  })

  test('is wrong: the page shows the message of the server, and the field again', async () => {
    const { page } = await view('Overview', { at: '#token=wrong' })
    expect(await page.getByRole('alert').textContent()).toContain('proxylist console')
    expect(await page.getByLabel('Or paste the link').isVisible()).toBe(true)
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  })
})

describe('the token, while the console is open', () => {
  test('is replaced: the console requests the new one, and opens the same view again', async () => {
    const { url, signIn } = await startSample()
    const { page } = await openPage(url)
    await openView(page, 'Keys')
    const next = await signIn()
    await page.getByLabel('Search').fill('x')
    await heading(page, 'Open the console').waitFor()
    await page.getByRole('alert').getByText('has ended').waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.getByLabel('Or paste the link').fill(next)
    await page.keyboard.press('Enter')
    await heading(page, 'Keys').waitFor()
  })
})

describe('the overview', () => {
  test('shows the state of the server', async () => {
    const { page } = await view()
    const cards = page.locator('.cards')
    await cards.waitFor()
    expect(await cards.textContent()).toMatch(/Proxies[\d,]+.*fresh.*Requests.*Memory\d+ MB/)
    expect(await page.locator('.top .status').textContent()).toBe('all is well')
    await page.getByText(`proxylist ${version}, up for `).waitFor()
    expect(await page.title()).toBe('Overview · proxylist console')
  })

  test('draws charts, with the values of each point in a title and in a table', async () => {
    const { page } = await view('Overview', { prepare: withHistory })
    const chart = page.getByRole('region', { name: 'Requests', exact: true })
    await chart.locator('.legend').waitFor()
    const titles = await chart.locator('title').allTextContents()
    expect(titles).toHaveLength(288)
    expect(titles[1]).toMatch(/^\d+ \w+, \d\d:\d\d: 200 301, 404 51, /)
    // The server was down at these points: no values, and a gap in the line.
    expect(titles[132]).toContain('200 –')
    expect(await chart.locator('.line').first().getAttribute('d')).toMatch(/^M0 .*M5\d\d/)
    expect(await chart.getByRole('img').getAttribute('aria-label')).toMatch(/Now: 200 30\d/)
    await chart.getByText('As a table').click()
    const rows = chart.getByRole('row')
    await rows.nth(1).waitFor()
    expect(await rows.count()).toBe(1 + 288 - 24)
    expect(await rows.nth(1).textContent()).toMatch(/^\d+ \w+, \d\d:\d\d30\d/)
  })
})

describe('the overview, as time passes', () => {
  test('says that its figures are old while the server does not answer, and then continues', async () => {
    const { page } = await view('Overview', { prepare: page => page.clock.install() })
    await page.locator('.cards').waitFor()
    await page.route(/console\/(?:overview|state)/, route => route.abort())
    await page.clock.runFor(10_000)
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain(
      'does not answer. These figures are old.',
    )
    expect(await page.locator('.top .status').textContent()).toBe('no answer')
    expect(await page.locator('.cards').isVisible()).toBe(true)
    await page.unroute(/console\/(?:overview|state)/)
    await page.clock.runFor(10_000)
    await page.getByRole('alert').waitFor({ state: 'detached' })
  })
})

const READY: { readonly [view: string]: string } = {
  overview: '.cards',
  keys: '.keys tbody tr',
  plans: '.plans tbody tr',
  feeds: '.empty',
  import: '.drop',
  log: '.log tbody tr',
}

test('every view is accessible and fits, in every theme and width', async () => {
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
    }
  }
})

describe('the console', () => {
  test('works with the keyboard alone, and announces its views', async () => {
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
})
