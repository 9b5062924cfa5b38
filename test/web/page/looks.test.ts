/** How the page looks and is reached (contract F6): languages, themes, widths, keyboard, readers. */
import { afterAll, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { dataDirectory } from '../../support/fixtures.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp } from '../../support/temporary.ts'
import { faultsIn, type Look } from '../browser.ts'
import { inBrowser as test } from '../in-browser.ts'
import { pageOf, requestOn } from '../page.ts'
import { pageRows } from '../page-rows.ts'

afterAll(cleanUp)

const USAGE = {
  ...{ id: 'wsu5jcyw', label: '<b>customer</b>', plan: 'standard', state: 'active', expires: null },
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 2, reset: 4 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 31_240, reset: 40_250 },
  ],
  today: { requests: 3320, records: 41_200, refused: 12, hours: Array(24).fill(7) },
}
const stubs = { '/key': { body: USAGE } }

const LIST = pageRows(6000)
/** How many of the last ten minutes there are, as the page writes it. */
const fresh = (isCounted: (row: (typeof LIST)[number]) => boolean): string =>
  new Intl.NumberFormat('en').format(LIST.filter(row => row.age <= 600 && isCounted(row)).length)

const open = pageOf(() => startChild(dataDirectory(LIST)), stubs)

const LOOKS: { readonly [locale: string]: { readonly [name: string]: Look } } = {
  'en-US': {
    light: { width: 1440, rules: 'all' },
    dark: { width: 1440, colorScheme: 'dark', rules: 'colours' },
    'forced colours': { width: 1440, forcedColors: 'active', rules: 'colours' },
    wide: { width: 2560, rules: null },
    phone: { width: 390, rules: 'structure' },
  },
  'ru-RU': {
    russian: { width: 1440, rules: 'structure' },
    'dark phone in Russian': { width: 390, colorScheme: 'dark', rules: 'structure' },
  },
}

/** Brings a view with everything in it that a visitor can see there. */
const VIEWS: { readonly [name: string]: (page: Page) => Promise<void> } = {
  async query(page) {
    await page.check('[name=type][value=socks5]')
    await page.fill('[name=port]', '0')
    await page.locator('.ask button').click()
    await page.locator('#answer .status').waitFor()
    await page.fill('[name=port]', '')
  },
  async key(page) {
    await page.evaluate(`location.hash = 'my-key'`)
    await page.fill('[name=key]', 'pl_own')
    await page.locator('.ask button').click()
    await page.locator('.bars').waitFor()
  },
}

/** Targets of less than 24 pixels that are not apart. */
const SMALL_TARGETS = `[...document.querySelectorAll('button, a, summary, input:not([type=radio], [type=checkbox]), select, label.option, label.check, .switch label, .age')]
  .filter(e => e.checkVisibility() && !e.matches('.hidden *'))
  .map(e => [e.textContent.slice(0, 20), e.getBoundingClientRect()])
  .filter(([, { width, height }]) => width < 24 || height < 24)
  .map(([text]) => text)`

for (const [locale, looks] of Object.entries(LOOKS)) {
  test(`in ${locale}, no view has a violation, a small target or a sideways scroll`, async () => {
    const { page, requests, origin } = await open({ locale })
    for (const [view, show] of Object.entries(VIEWS)) {
      await show(page)
      for (const [look, each] of Object.entries(looks)) {
        const faults = await faultsIn(page, each)
        const small = each.width === 390 ? await page.evaluate(SMALL_TARGETS) : []
        expect([look, view, faults, small]).toEqual([look, view, [], []])
      }
    }
    expect(requests.filter(url => !url.startsWith(origin))).toEqual([])
  })
}

test('the page remembers the chosen language only; the system decides colours and motion', async () => {
  const { page } = await open({ colorScheme: 'dark' })
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  expect(await requestOn(page)).toBe('/api?lang=en&get=json')
  await page.locator('#answer td', { hasText: 'Ashburn' }).first().waitFor()
  const duration = "getComputedStyle(document.querySelector('.level > span')).transitionDuration"
  expect(await page.evaluate(duration)).toBe('0s')
  await page.locator('.top').getByRole('radio', { name: 'RU' }).check()
  await page.getByText('проверенных за последние десять минут').waitFor()
  await page.locator('#answer td', { hasText: 'Ашберн' }).first().waitFor()
  expect(await requestOn(page)).toBe('/api?get=json')
  expect(await page.getAttribute('html', 'lang')).toBe('ru')
  const colour = 'getComputedStyle(document.body).backgroundColor'
  expect(await page.evaluate(colour)).toBe('rgb(12, 19, 21)')
  await page.reload()
  await page.getByText('проверенных за последние десять минут').waitFor()
  expect(await page.evaluate('Object.keys(localStorage)')).toEqual(['lang'])
})

test('the keyboard alone chooses, changes tabs, tries and reads the answer', async () => {
  const { page } = await open()
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the request')
  const press = async (key: string, until: string): Promise<void> => {
    for (let presses = 0; presses < 120; presses++) {
      if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(until)})`)) return
      await page.keyboard.press(key)
    }
    throw new Error(`${key} does not reach ${until}`)
  }
  await press('Tab', '[name=type][value=socks5]')
  await page.keyboard.press('Space')
  await press('Tab', '[name=country][value=de]')
  await page.keyboard.press('Space')
  await press('Tab', '[name=time]')
  await page.keyboard.press('ArrowRight')
  await press('Tab', '[name=code]')
  await page.keyboard.press('ArrowRight')
  expect(await page.evaluate('document.activeElement.value')).toBe('Python')
  await page.locator('#code', { hasText: 'import urllib' }).waitFor()
  expect(await requestOn(page)).toBe('/api?type=socks5&time=3600&country=de&lang=en&get=json')
  await press('Tab', '[name=key]')
  await page.keyboard.press('Enter')
  await page.locator('#answer .status').waitFor()
  await press('Tab', '#answer .scroller')
  // Many countries are skipped with one key.
  await page.getByRole('button', { name: 'Skip the countries' }).focus()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.name')).toBe('service')
})

test('a screen reader gets named views, and hears one sentence when the count has settled', async () => {
  const { page } = await open()
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  const query = await page.locator('body').ariaSnapshot()
  for (const line of [
    `- heading "${fresh(() => true)} working proxies, checked in the last ten minutes" [level=1]`,
    ...['- form "Query":', '- group "Countries":', '- group "Checked within":', '- slider "Ping"'],
    `- checkbox "socks5 ${fresh(({ type }) => type === 'socks5')}"`,
    ...['- complementary "Your request":', '- textbox "Key": demo', '- region "The answer":'],
  ]) {
    expect(query).toContain(line)
  }
  expect(await page.locator('[aria-live], output, [role=status], [role=alert]').count()).toBe(1)
  await page.check('[name=type][value=socks5]')
  const count = `${fresh(({ type }) => type === 'socks5')} proxies match`
  await page.locator('output', { hasText: count }).waitFor({ state: 'attached' })
  await page.evaluate(`location.hash = 'my-key'`)
  await page.fill('[name=key]', 'pl_own')
  await page.keyboard.press('Enter')
  await page.locator('.bars').waitFor()
  const key = await page.locator('main').ariaSnapshot()
  expect(key).toContain('- heading "Your key" [level=1]')
  expect(key).toContain('31,240 left of 34,560, resets in 11 hr 10 min')
  expect(key).toMatch(/img "Requests by hour\. 00: 7.* 23: 7"/)
})
