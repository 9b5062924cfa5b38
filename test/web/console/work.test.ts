/** Plans, feeds, import and log of the console (contract G3) in a real browser. */
import { afterAll, describe, expect } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { faultsIn, keepScreenshot, type Look, openPage } from '../../support/browser.ts'
import {
  answer,
  dialog,
  openView,
  startConsole,
  startSample,
  viewOf,
} from '../../support/console-page.ts'
import { reply, startFeedServer } from '../../support/feed-server.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'
import { until } from '../../support/until.ts'

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
    await answer(page, 'Make the plan')
    await dialog(page).getByText('burst must be').waitFor()
    await keepScreenshot(page, 'console-plan-wrong')
    expect(await faultsIn(page, LOOKS.light as Look)).toEqual([])
    await page.getByLabel('Burst', { exact: true }).fill('20/1s')
    const unlimited = page.getByLabel('Unlimited: Per day')
    await unlimited.check()
    await unlimited.uncheck()
    expect(await page.getByLabel('Per day', { exact: true }).inputValue()).toBe('34560')
    await unlimited.check()
    await answer(page, 'Make the plan')
    await dialog(page).waitFor({ state: 'detached' })
    expect(await rowOf(page, 'wide').textContent()).toMatch(/20\/1sunlimited/)
    await page.getByRole('button', { name: 'Edit wide' }).click()
    await page.getByLabel('Records', { exact: true }).fill('500')
    await answer(page, 'Save')
    await dialog(page).waitFor({ state: 'detached' })
    expect(await rowOf(page, 'wide').textContent()).toMatch(/20\/1sunlimited.*500/)
  })

  test('are turned off after a confirmation, on at once, and removed where no key has them', async () => {
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

    await page.getByRole('button', { name: 'New plan' }).click()
    await page.getByLabel('Name').fill('gone')
    await answer(page, 'Make the plan')
    await dialog(page).waitFor({ state: 'detached' })
    const body = JSON.stringify({ kind: 'regular', plan: 'gone', label: 'in the way' })
    await page.evaluate(
      `fetch('/console/keys', { method: 'POST', headers: { authorization: 'Bearer ' + Object.values(sessionStorage)[0], 'content-type': 'application/json' }, body: '${body}' })`,
    )
    await page.reload()
    await page.getByRole('button', { name: 'Remove gone' }).click()
    await page.getByRole('dialog', { name: 'Plan gone is in use' }).waitFor()
    await answer(page, 'Show the keys')
    await page.getByRole('link', { name: 'in the way' }).click()
    await page.getByRole('button', { name: 'Change' }).click()
    await page.getByLabel('Plan').selectOption('standard')
    await answer(page, 'Save')
    await openView(page, 'Plans')
    await page.getByRole('button', { name: 'Remove gone' }).click()
    await answer(page, 'Remove')
    await rowOf(page, 'gone').waitFor({ state: 'detached' })
  })
})

describe('feeds', () => {
  test('show source, success, rows, error and next try, with markup as text', async () => {
    const dir = temporaryDirectory()
    const list = join(dir, 'list.txt')
    writeFileSync(list, lines(20))
    const missing = join(dir, '<img/src=x/onerror=alert(1)><b>.txt')
    const given = ['--feed', `${list} type=socks5`, '--feed', missing]
    const { url } = await startConsole(join(dir, 'data'), given)
    const { page } = await openPage(url)
    await openView(page, 'Feeds')
    await page.getByText('fails').first().waitFor()
    expect(await page.locator('.feeds').textContent()).toContain(missing)
    const good = page.getByRole('row').filter({ hasText: 'list.txt' })
    await good.getByText('works').waitFor()
    expect(await good.textContent()).toMatch(/20in (?:\d+ sec|1 min)\./)
    expect(await page.locator('.feeds .bad').first().textContent()).not.toBe('')
    expect(await page.locator('.feeds img, .feeds b').count()).toBe(0)
  })

  test('are added, paused, changed, fetched now and removed; those of options are not', async () => {
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
    await ofOption.getByText('of --feed').waitFor()
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
      await keepScreenshot(page, `console-feeds-set-up-${name}`)
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

  test('say how to set one up where there is none', async () => {
    const { page } = await view('Feeds')
    expect(await page.locator('.empty').textContent()).toContain('feeds file')
  })
})

const file = (name: string, text: string) => ({
  ...{ name, mimeType: 'text/plain', buffer: Buffer.from(text) },
})
const lines = (count: number, network = '198.51.100'): string =>
  Array.from({ length: count }, (_, n) => `${network}.${n}:1080\n`).join('')

/** A server without proxies at first: each test brings what it looks for. */
const listView = viewOf(() => startConsole(temporaryDirectory()))

/** The import view. */
async function openImport() {
  const { page } = await listView('Import')
  await page.getByLabel('Type of bare lines').selectOption('socks5')
  const choose = (...files: ReturnType<typeof file>[]) =>
    page.locator('input[type=file]').setInputFiles(files)
  const item = (name: string) => page.locator('.imports > li').filter({ hasText: name })
  return { page, choose, item }
}

describe('an import', () => {
  test('takes several files one after the other, and says counts and rejected rows', async () => {
    const { page, choose, item } = await openImport()
    await choose(file('a.txt', lines(20)), file('<b>b</b>.txt', `${lines(5)}no <i>proxy</i>\n`))
    await item('<b>b</b>.txt').getByText('rejected').waitFor()
    expect(await item('a.txt').textContent()).toMatch(/read 20.*added 20/)
    expect(await item('<b>b</b>.txt').textContent()).toMatch(
      /read 6.*(?:updated|unchanged) 5.*rejected 1/,
    )
    expect(await item('<b>b</b>.txt').locator('.messages').textContent()).toContain(':6:')
    expect(await page.locator('.imports i, .imports .file b b').count()).toBe(0)
    await page.getByRole('button', { name: 'Clear' }).click()
    expect(await page.locator('.imports').count()).toBe(0)
  })

  test('that replaces the list is confirmed, takes one file, and is refused when it would shrink the list', async () => {
    const { page, choose, item } = await openImport()
    await choose(file('all.txt', lines(200)))
    await item('all.txt').getByText('added').waitFor()
    await page.getByLabel('Replace the whole list').check()
    await choose(file('a.txt', lines(9)), file('b.txt', lines(9)))
    expect(await page.getByRole('alert').textContent()).toContain('one file')
    await choose(file('few.txt', lines(9)))
    await answer(page, 'Cancel')
    expect(await page.locator('.imports > li').count()).toBe(1)
    await choose(file('few.txt', lines(9)))
    await answer(page, 'Replace')
    await item('few.txt').locator('.bad').waitFor()
    expect(await item('few.txt').locator('.bad').textContent()).toContain('nothing was imported')
    await page.getByLabel('Also by one less than half as long').check()
    await choose(file('less.txt', lines(9)))
    await answer(page, 'Replace')
    await item('less.txt').getByText('removed').waitFor()
    expect(await item('less.txt').textContent()).toMatch(/removed 191/)
  })

  test('shows how much is sent, can be cancelled, and leaves the list as it was', async () => {
    const { page, choose, item } = await openImport()
    // The server is slow: it answers nothing until the operator cancels.
    await page.route('**/console/import*', () => new Promise(() => {}))
    await choose(file('slow.txt', lines(200)), file('next.txt', lines(9)))
    const progress = page.getByRole('progressbar', { name: 'Import of slow.txt' })
    await progress.waitFor()
    expect(await item('next.txt').textContent()).toContain('waiting')
    await page.getByRole('button', { name: 'Cancel next.txt' }).click()
    await page.getByRole('button', { name: 'Cancel slow.txt' }).click()
    expect(await item('slow.txt').textContent()).toContain('cancelled, nothing was imported')
    expect(await item('next.txt').textContent()).toContain('cancelled, nothing was imported')
  })
})

describe('an import in the background', () => {
  test('by drop goes on while another view is shown', async () => {
    const { page, item } = await openImport()
    await page.evaluate(
      `(() => { const data = new DataTransfer(); data.items.add(new File([${JSON.stringify(lines(9, '192.0.2'))}], 'dropped.txt'))
        document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data })) })()`,
    )
    await openView(page, 'Plans')
    await openView(page, 'Import')
    await item('dropped.txt').getByText('added').waitFor()
  })

  test('that ends while its view is being drawn is shown as done', async () => {
    const { page, choose, item } = await openImport()
    // The end of a request is held back until the list of imports has been drawn, and comes at once then.
    await page.evaluate(
      `(() => {
        window.held = new Promise(resolve => {
          window.XMLHttpRequest = class extends XMLHttpRequest {
            set onload(end) { super.onload = () => { window.end = end; resolve() } }
          }
        })
        new MutationObserver(() => document.querySelector('.imports') && window.end?.())
          .observe(document, { subtree: true, childList: true })
      })()`,
    )
    await choose(file('a.txt', lines(9, '203.0.113')))
    await openView(page, 'Plans')
    await page.evaluate('window.held')
    await openView(page, 'Import')
    await item('a.txt').getByText('added').waitFor()
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
    expect(await page.locator('.empty').textContent()).toBe('None of these yet.')
    expect(await page.evaluate('location.hash')).toBe('#log?code=INVALID_KEY&text=no+such+thing')
    await page.evaluate(`location.hash = '#log?code=INVALID_PARAMETER'`)
    expect(await page.getByRole('searchbox').inputValue()).toBe('')
    await fetch(`${api}?key=demo&works=101`)
    await rows.getByText('bad parameter').first().waitFor()
    await page.evaluate(`location.hash = '#log?key=demo'`)
    expect(await page.getByLabel('Key').inputValue()).toBe('demo')
  })

  test('has the details of a request: why, as curl, in the page', async () => {
    const { page, api } = await view('Log')
    await fetch(`${api}?key=demo&country=aq&get=json&works=101`)
    await page.getByRole('searchbox').fill('country=aq&get=json')
    await page
      .getByRole('button', { name: /^Details/ })
      .first()
      .click()
    const details = page.locator('.log .details')
    await details.getByText('works must be').waitFor()
    const origin = api.replace('/api', '')
    const link = details.getByRole('link', { name: 'Open in the page' })
    await link.waitFor()
    expect(await link.getAttribute('href')).toBe(`${origin}/#country=aq&get=json`)
    expect(await details.getByLabel('As curl').inputValue()).toBe(
      `curl -H "Authorization: Bearer $KEY" '${api}?country=aq&get=json'`,
    )
    for (const [name, look] of Object.entries(LOOKS)) {
      expect([name, await faultsIn(page, look)]).toEqual([name, []])
      await keepScreenshot(page, `console-log-details-${name}`)
    }
  })

  test('has the last requests of a key on its own page, under its label in the log', async () => {
    const { page, api, admin } = await view('Log')
    const token = String(await page.evaluate('Object.values(sessionStorage)[0]'))
    const made = await fetch(`${admin}/console/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ kind: 'regular', label: 'Acme' }),
    })
    const { id, key } = (await made.json()) as { id: string; key: string }
    await fetch(`${api}?key=${key}&type=http`)
    await fetch(`${api}?key=demo&works=101`)
    await page.locator('.log').getByRole('link', { name: 'Acme' }).click()
    const card = page.getByRole('region', { name: 'Last requests' })
    await card.getByText('/api?type=http').waitFor()
    expect(await card.locator('tbody tr').count()).toBe(1)
    await card.getByRole('link', { name: 'All in the log' }).click()
    await page.getByRole('searchbox').waitFor()
    expect(await page.evaluate('location.hash')).toBe(`#log?key=${id}`)
  })

  test('is paused without losing what arrives', async () => {
    const { page, api } = await view('Log')
    await fetch(`${api}?key=demo`)
    const rows = page.locator('.log tbody tr')
    await rows.first().waitFor()
    const before = await rows.count()
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('paused').waitFor()
    await fetch(`${api}?key=demo&count=1`)
    expect(await rows.count()).toBe(before)
    await page.getByRole('button', { name: 'Resume' }).click()
    await rows.nth(before).waitFor()
  })

  test('shows where requests may be missing, after the server was started again', async () => {
    const pages = [1, 900].map(first => ({
      ...{ missed: first === 1 ? 0 : null, next: `s${first}-2` },
      lines: [first, first + 1].map(id => ({
        ...{ time: '2026-01-01T00:00:00.000Z', id: `r${id}`, method: 'GET', path: '/api' },
        ...{ status: 200, key: null, records: 1, bytes: 1, ms: 1, client: '192.0.2.1' },
        ...{ query: '', code: null, message: null, label: '' },
      })),
    }))
    const { page } = await view('Log', {
      prepare: each =>
        each.route('**/console/log*', route => {
          const json = pages.shift()
          return json === undefined ? new Promise(() => {}) : route.fulfill({ json })
        }),
    })
    await page.getByText('The server was started again here').waitFor()
    expect(await page.locator('.log tbody tr').count()).toBe(5)
  })
})
