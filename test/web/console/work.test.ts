/** Plans, feeds, import and log of the console (contract G3) in a real browser. */
import { afterAll, describe, expect } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { reply, startFeedServer } from '../../support/feed-server.ts'
import { startConsole } from '../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'
import { until } from '../../support/until.ts'
import { faultsIn, type Look, openPage } from '../browser.ts'
import { answer, dialog, openView, startSample, viewOf } from '../console-page.ts'
import { inBrowser as test } from '../in-browser.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

const LOOKS: { readonly [name: string]: Look } = {
  light: { width: 1440, rules: 'all' },
  dark: { width: 1024, colorScheme: 'dark', rules: 'colours' },
  phone: { width: 390, rules: 'structure' },
}

const rowOf = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) })

describe('plans', () => {
  test('are made and changed in the forms of the command line, and errors are the server’s', async () => {
    const { page } = await view('Plans')
    await page.getByRole('button', { name: 'New plan' }).click()
    await page.getByLabel('Name').fill('wide')
    await page.getByLabel('Burst', { exact: true }).fill('lots')
    await answer(page, 'Create the plan')
    await dialog(page).getByText('burst must be').waitFor()
    expect(await faultsIn(page, LOOKS.light as Look)).toEqual([])
    await page.getByLabel('Burst', { exact: true }).fill('20/1s')
    await page.getByLabel('Per day', { exact: true }).fill('unlimited')
    await answer(page, 'Create the plan')
    await dialog(page).waitFor({ state: 'detached' })
    expect(await rowOf(page, 'wide').textContent()).toMatch(/20\/1sunlimited/)
    await page.getByRole('button', { name: 'Edit wide' }).click()
    await page.getByLabel('Records', { exact: true }).fill('500')
    await answer(page, 'Save')
    await dialog(page).waitFor({ state: 'detached' })
    expect(await rowOf(page, 'wide').textContent()).toMatch(/20\/1sunlimited.*500/)
  })

  test('are turned off after a confirmation, and on at once', async () => {
    const { page, api } = await view('Plans')
    await page.getByRole('button', { name: 'Turn off demo' }).click()
    await answer(page, 'Cancel')
    await page.getByRole('button', { name: 'Turn off demo' }).click()
    const size = await page.evaluate(
      `getComputedStyle(document.querySelector('dialog h2')).fontSize`,
    )
    expect(size).toBe('18px') // as of dialogs that are in no table
    await answer(page, 'Turn off')
    await dialog(page).waitFor({ state: 'detached' })
    await rowOf(page, 'demo built in').locator('.status', { hasText: 'off' }).waitFor()
    expect((await fetch(`${api}?key=demo`)).status).toBe(403)
    await page.getByRole('button', { name: 'Turn on demo' }).click()
    await page.getByRole('button', { name: 'Turn off demo' }).waitFor()
    expect((await fetch(`${api}?key=demo`)).status).toBe(200)
    expect(await page.getByRole('button', { name: 'Remove demo' }).count()).toBe(0)
  })
})

describe('feeds', () => {
  test('are added, paused, changed, fetched now and removed; feeds of --feed stay', async () => {
    const source = await startFeedServer({
      '/a': reply(200, {}, `${lines(12, '203.0.113')}nonsense\n`),
    })
    const dir = temporaryDirectory()
    const list = join(dir, 'list.txt')
    writeFileSync(list, lines(20))
    const { url } = await startConsole(join(dir, 'data'), ['--feed', `${list} type=socks5`])
    const { page } = await openPage(url, { prepare: each => each.clock.install() })
    /** Waits through polls until it is shown. */
    const shown = (what: Locator) =>
      until(async () => {
        await page.clock.fastForward(5_000)
        return what.isVisible()
      })
    await openView(page, 'Feeds')
    const rowOf = (name: string) => page.locator('.feeds > tbody > tr').filter({ hasText: name })
    const ofOption = rowOf('list.txt')
    await ofOption.getByText('from --feed').waitFor()
    expect(await ofOption.getByRole('button').allTextContents()).toEqual([`Fetch now ${list}`])

    await page.getByRole('button', { name: 'Add a feed' }).click()
    await page.getByLabel('Source').fill(`${source.url}/a?token=SECRET`)
    await page.getByLabel('Every').fill('7d')
    await page.getByLabel('Type of bare lines').selectOption('socks5')
    await answer(page, 'Add the feed')
    const ours = rowOf('token=***')
    await shown(ours.getByText('works'))
    await ours.getByRole('button', { name: 'Pause' }).click()
    await shown(ours.getByText('paused'))
    await ours.getByRole('button', { name: 'Change' }).click()
    expect(await page.getByLabel('Every').inputValue()).toBe('1w')
    await page.getByLabel('Every').fill('soon')
    await answer(page, 'Save')
    await dialog(page).getByText('every must be a duration').waitFor()
    await page.getByLabel('Every').fill('1h')
    await answer(page, 'Save')
    await dialog(page).waitFor({ state: 'detached' })
    await ours.getByRole('button', { name: 'Resume' }).click()
    await shown(ours.getByText('works'))
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([name, await faultsIn(page, look)]).toEqual([name, []])
    }
    await ours.getByRole('button', { name: 'Change' }).click()
    await page.getByLabel('For the checker').check()
    await answer(page, 'Save')
    await dialog(page).waitFor({ state: 'detached' })
    await ours.locator('button:disabled').filter({ hasText: 'Fetch now' }).waitFor()
    await ours.getByRole('button', { name: 'Remove' }).click()
    await answer(page, 'Remove')
    await ours.waitFor({ state: 'detached' })
    expect(await page.content()).not.toContain('SECRET')
    expect(page.url()).not.toContain('SECRET')
  })
})

const file = (name: string, text: string) => ({
  ...{ name, mimeType: 'text/plain', buffer: Buffer.from(text) },
})
const lines = (count: number, network = '198.51.100'): string =>
  Array.from({ length: count }, (_, n) => `${network}.${n}:1080\n`).join('')

/** A server without proxies at first: each test brings what it looks for. */
const listView = viewOf(() => startConsole(temporaryDirectory()))

/** The import view. `send` chooses a file and imports it. */
async function openImport() {
  const { page } = await listView('Import')
  await page.getByLabel('Type of bare lines').selectOption('socks5')
  const result = page.getByRole('region', { name: 'Last import' })
  const send = async (name: string, text: string, button = 'Import') => {
    await page.locator('input[type=file]').setInputFiles(file(name, text))
    await page.getByRole('button', { name: button, exact: true }).click()
    await result.getByRole('heading', { name }).waitFor()
  }
  return { page, send, result }
}

describe('an import', () => {
  test('says counts and rejected rows, with markup as text', async () => {
    const { page, send, result } = await openImport()
    await send('<b>b</b>.txt', `${lines(20)}no <i>proxy</i>\n`)
    await result.getByText('rejected').waitFor()
    expect(await result.textContent()).toMatch(/read 21added 20rejected 1/)
    expect(await result.locator('pre').textContent()).toContain(':21:')
    expect(await page.locator('.imports :is(i, h2 b)').count()).toBe(0)
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([name, await faultsIn(page, look)]).toEqual([name, []])
    }
  })

  test('shows its upload, can be cancelled, and then changes nothing', async () => {
    const { page, send, result } = await openImport()
    // The server is slow: it answers nothing until the operator cancels.
    await page.route('**/console/import*', () => new Promise(() => {}))
    await send('slow.txt', lines(200))
    await page.getByRole('progressbar', { name: 'Import of slow.txt' }).waitFor()
    expect(await result.textContent()).toContain('uploading')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await result.getByText('cancelled; nothing was imported').waitFor()
  })
})

describe('the log', () => {
  test('is live, shows filters and no key, and is filtered by code, key and text in the fragment', async () => {
    const { page, api } = await view('Log')
    await fetch(`${api}?key=demo&type=socks5&country=de`)
    await fetch(`${api}?key=pl_SECRETSECRETSECRETSECRETSECRET12`)
    const rows = page.locator('.log tbody tr')
    await rows.first().getByText('403').waitFor()
    expect(await rows.nth(1).textContent()).toContain('demo')
    const shown = await page.evaluate('document.documentElement.outerHTML')
    expect(await rows.nth(1).textContent()).toContain('/api?type=socks5&country=de')
    expect(shown).not.toContain('SECRET')
    await page.getByLabel('Answer').selectOption('INVALID_KEY')
    await page.locator('.log .status[data-ok]').waitFor({ state: 'detached' })
    expect(await rows.first().textContent()).toContain('403 unknown or ended key')
    await page.getByRole('searchbox').fill('no such thing')
    expect(await page.locator('.empty').textContent()).toBe('No request matches.')
    expect(await page.evaluate('location.hash')).toBe('#log?code=INVALID_KEY&text=no+such+thing')
    await page.evaluate(`location.hash = '#log?code=INVALID_PARAMETER'`)
    expect(await page.getByRole('searchbox').inputValue()).toBe('/api')
    await fetch(`${api}?key=demo&works=101`)
    await rows.getByText('bad parameter').first().waitFor()
    await page.evaluate(`location.hash = '#log?key=demo'`)
    expect(await page.getByLabel('Key').inputValue()).toBe('demo')
  })

  test('explains a request in its details', async () => {
    const { page, api } = await view('Log')
    await fetch(`${api}?key=demo&country=aq&get=json&works=101`)
    await page.getByRole('searchbox').fill('country=aq&get=json')
    await page
      .getByRole('button', { name: /^Details/ })
      .first()
      .click()
    const details = page.locator('.log .details')
    await details.getByText('works must be').waitFor()
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([name, await faultsIn(page, look)]).toEqual([name, []])
    }
  })
})
