/** How the page looks and is reached (contract F6): languages, themes, widths, keyboard, readers. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { bundle } from '../../../src/web/bundle.ts'
import { HAS_BROWSER, keepScreenshot, violationsOf } from '../../support/browser.ts'
import { countedList, statisticsOf } from '../../support/list-statistics.ts'
import { countOn, openAt, requestOn } from '../../support/page.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const USAGE = {
  ...{ id: 'wsu5jcyw', label: '<b>customer</b>', plan: 'standard', state: 'active', expires: null },
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 2, reset: 4 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 31_240, reset: 40_250 },
  ],
  today: { requests: 3320, records: 41_200, refused: 12, hours: Array(24).fill(7) },
}
const stubs = {
  '/stats': { body: statisticsOf(countedList(18_400)) },
  '/key': { body: USAGE },
}

const inBrowser = test.if(HAS_BROWSER)
let origin = ''
beforeAll(async () => {
  if (HAS_BROWSER) origin = (await startChild(temporaryDirectory(), {}, ['--sample'])).url
})

const widthOf = (width: number, height = 900) => ({ viewport: { width, height } })
const LOOKS: { readonly [name: string]: BrowserContextOptions } = {
  light: widthOf(1440),
  dark: { ...widthOf(1440), colorScheme: 'dark' },
  phone: { ...widthOf(390, 844), hasTouch: true },
  russian: { ...widthOf(1440), locale: 'ru-RU' },
  'dark phone in Russian': { ...widthOf(390, 844), colorScheme: 'dark', locale: 'ru-RU' },
  'forced colours': { ...widthOf(1440), forcedColors: 'active' },
  wide: widthOf(2560, 1300),
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
    await page.locator('.key-use').waitFor()
  },
}

for (const [look, options] of Object.entries(LOOKS)) {
  inBrowser(
    `in the look ${look}, no view has a violation, a problem or a sideways scroll`,
    async () => {
      const opened = await openAt(origin, { stubs, ...options })
      const { page, problems, requests, close } = opened
      for (const [view, show] of Object.entries(VIEWS)) {
        await show(page)
        const beyond = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        // In a wide window there are no other words or colours.
        const violations = look === 'wide' ? [] : await violationsOf(page)
        expect([view, beyond, violations]).toEqual([view, 0, []])
        await keepScreenshot(page, `${look} ${view}`)
      }
      expect(problems).toEqual([])
      expect(requests.filter(url => !url.startsWith(origin) && url !== 'about:blank')).toEqual([])
      await close()
    },
  )
}

inBrowser('language and theme are chosen, remembered, and nothing else is', async () => {
  const { page, close } = await openAt(origin, { stubs })
  await page.getByRole('button', { name: 'RU' }).click()
  await page.getByRole('button', { name: 'Тёмная' }).click()
  await page.getByText('проверены за последние десять минут').waitFor()
  expect(await page.getAttribute('html', 'lang')).toBe('ru')
  const untilDark = () =>
    page.waitForFunction(`getComputedStyle(document.body).backgroundColor === 'rgb(12, 19, 21)'`)
  await untilDark()
  await page.reload()
  await page.getByText('проверены за последние десять минут').waitFor()
  await untilDark()
  expect(await page.evaluate('Object.keys(localStorage).sort()')).toEqual(['lang', 'theme'])
  await close()
})

inBrowser('the keyboard alone chooses, changes tabs, tries and reads the answer', async () => {
  const { page, close } = await openAt(origin, { stubs })
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('To the request')
  const press = async (key: string, until: string): Promise<void> => {
    for (let presses = 0; presses < 120; presses++) {
      if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(until)})`)) return
      await page.keyboard.press(key)
    }
    throw new Error(`${key} does not reach ${until}`)
  }
  await press('Tab', '[name=country][value=de]')
  await page.keyboard.press('Space')
  await press('Tab', '[name=type][value=socks5]')
  await page.keyboard.press('Space')
  await press('Tab', '[name=time]')
  await page.keyboard.press('ArrowRight')
  await press('Tab', '[role=tab]')
  await page.keyboard.press('ArrowRight')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Python')
  await page.keyboard.press('End')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('PHP')
  await page.keyboard.press('ArrowRight')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('URL')
  expect(await requestOn(page)).toBe('/api?type=socks5&time=3600&country=de&get=json')
  await press('Tab', '[name=key]')
  await page.keyboard.press('Enter')
  await page.locator('#answer .status').waitFor()
  await press('Tab', '#answer .scroller')
  await close()
})

inBrowser('many countries are skipped with one key', async () => {
  const { page, close } = await openAt(origin, { stubs })
  await page.getByRole('button', { name: 'Skip the countries' }).focus()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.name')).toBe('type')
  await close()
})

inBrowser('a screen reader hears one sentence, once the count has settled', async () => {
  const { page, close } = await openAt(origin, { stubs })
  expect(await page.locator('[aria-live], output, [role=status], [role=alert]').count()).toBe(1)
  await page.check('[name=type][value=socks5]')
  const count = await countOn(page)
  await page.locator('output', { hasText: count }).waitFor({ state: 'attached' })
  await close()
})

inBrowser('the views are named as a screen reader needs them', async () => {
  const { page, close } = await openAt(origin, { stubs })
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  const query = await page.locator('body').ariaSnapshot()
  for (const line of [
    '- navigation "Pages":',
    '- link "Query"',
    '- heading "≥ 11,653 checked in the last ten minutes" [level=1]',
    '- form "Query":',
    '- group "Where they are":',
    '- group "Type":',
    '- checkbox "socks5 ≥ 3,380"',
    '- group "Works with all that are chosen":',
    '- group "Checked within":',
    '- radio "10 min" [checked]',
    '- slider "Ping"',
    '- textbox "Ping, at most, ms"',
    '- complementary "Your request":',
    '- tablist "The request as code":',
    '- tab "curl" [selected]',
    '- tabpanel "curl":',
    '- textbox "Key": demo',
    '- region "The answer":',
  ]) {
    expect(query).toContain(line)
  }
  await page.goto(`${origin}/#my-key`)
  await page.fill('[name=key]', 'pl_own')
  await page.keyboard.press('Enter')
  await page.locator('.key-use').waitFor()
  const key = await page.locator('main').ariaSnapshot()
  expect(key).toContain('- heading "What a key has left" [level=1]')
  expect(key).toContain('31,240 of 34,560 left, full again in 11 hr 10 min')
  expect(key).toMatch(/img "Requests by hour, UTC\. 00: 7.* 23: 7"/)
  await close()
})

inBrowser('targets are at least 24 pixels, or apart', async () => {
  const { page, close } = await openAt(origin, { stubs, ...LOOKS.phone })
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  const small =
    await page.evaluate(`[...document.querySelectorAll('button, a, summary, .input, label.option, label.check, .switch label, .age')]
    .filter(e => e.checkVisibility() && !e.matches('.hidden *'))
    .map(e => [e.textContent.slice(0, 20), e.getBoundingClientRect()])
    .filter(([, { width, height }]) => width < 24 || height < 24)
    .map(([text]) => text)`)
  expect(small).toEqual([])
  await close()
})

inBrowser('nothing moves while the page loads', async () => {
  const { page, close } = await openAt(origin, { at: '/healthz', stubs })
  await page.addInitScript(`new PerformanceObserver(list => {
    for (const { value, hadRecentInput } of list.getEntries())
      if (!hadRecentInput) globalThis.shift = (globalThis.shift ?? 0) + value
  }).observe({ type: 'layout-shift', buffered: true })`)
  await page.goto(`${origin}/#type=socks5&country=de`)
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  await page.evaluate('new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)))')
  expect(await page.evaluate('globalThis.shift ?? 0')).toBe(0)
  await close()
})

inBrowser('without motion where that is wished', async () => {
  const { page, close } = await openAt(origin, { stubs, reducedMotion: 'reduce' })
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  const duration = "getComputedStyle(document.querySelector('.level > span')).transitionDuration"
  expect(await page.evaluate(duration)).toBe('0s')
  await close()
})

test('all script is at most 30 KB compressed, all style 8 KB', () => {
  const files = bundle('page/index.html')
  const sizeOf = (ending: string): number =>
    files
      .filter(({ name }) => name.endsWith(ending))
      .reduce((sum, { gzip }) => sum + Buffer.from(gzip, 'base64').length, 0)
  expect(sizeOf('.js')).toBeLessThanOrEqual(30_000)
  expect(sizeOf('.css')).toBeLessThanOrEqual(8000)
  expect(sizeOf('.css')).toBeGreaterThan(1000)
})
