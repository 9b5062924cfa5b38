/** The query builder of the page (contract F6) in a real browser: filters, counts, hash, request. */
import { afterAll, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { dataDirectory } from '../../support/fixtures.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp } from '../../support/temporary.ts'
import { until } from '../../support/until.ts'
import { inBrowser as test } from '../in-browser.ts'
import { pageOf, requestOn } from '../page.ts'
import { pageRows } from '../page-rows.ts'

afterAll(cleanUp)

const LIST = pageRows(4000)
type Listed = (typeof LIST)[number]
const fresh = LIST.filter(({ age }) => age <= 600)
const figure = (n: number): string => new Intl.NumberFormat('en').format(n)
/** How many of the last ten minutes there are, as the page writes it. */
const count = (isCounted: (row: Listed) => boolean): string =>
  figure(fresh.filter(isCounted).length)

const open = pageOf(() => startChild(dataDirectory(LIST)))

/** Waits until the page says how many match. */
const untilCount = (page: Page, matching: string): Promise<void> =>
  page.locator('.count', { hasText: `${matching} proxies match` }).waitFor()
const optionOn = (page: Page, name: string, value: string): Promise<string | null> =>
  page.locator(`label.option:has([name=${name}][value=${value}]) .option-count`).textContent()

test('a choice in a chart or the map counts all other filters again, exactly', async () => {
  const { page } = await open()
  await page.locator('h1', { hasText: figure(fresh.length) }).waitFor()
  await page.check('[name=type][value=socks5]')
  await page.check('[name=country][value=de]')
  const ofType = ({ type }: Listed) => type === 'socks5'
  const isGerman = ({ country }: Listed) => country === 'DE'
  await untilCount(
    page,
    count(row => ofType(row) && isGerman(row)),
  )
  expect(await optionOn(page, 'country', 'nl')).toBe(
    count(row => ofType(row) && row.country === 'NL'),
  )
  expect(await optionOn(page, 'type', 'http')).toBe(
    count(row => isGerman(row) && row.type === 'http'),
  )
  await page.fill('[name=ping]', '700')
  const isFast = ({ ping }: Listed) => ping <= 0.7
  await untilCount(
    page,
    count(row => ofType(row) && isGerman(row) && isFast(row)),
  )
  expect(await optionOn(page, 'type', 'http')).toBe(
    count(row => isGerman(row) && isFast(row) && row.type === 'http'),
  )
  expect(await page.locator('body').textContent()).not.toMatch(/[≥≤]|hidden/)
  await page.getByRole('button', { name: 'Clear all' }).click()
  await page.locator('.place[data-code=BR] text').click()
  expect(await page.isChecked('[name=country][value=br]')).toBe(true)
})

test('the page queries when a choice has settled, and shows the old numbers until then', async () => {
  const waiting: (() => void)[] = []
  const { page, requests } = await open({
    prepare: each =>
      each.route(/stats\?type/, route => {
        waiting.push(() => void route.continue())
      }),
  })
  await untilCount(page, figure(fresh.length))
  await page.evaluate(`for (const option of ['type][value=http', 'time][value="3600"', 'country][value=de'])
    document.querySelector('[name=' + option + ']').click()`)
  await until(() => waiting.length === 1) // of three changes
  expect(requests.at(-1)).toEndWith('/stats?type=http&time=3600&country=de&lang=en')
  await page.check('[name=anon][value=elite]')
  await until(() => waiting.length === 2)
  await untilCount(page, figure(fresh.length))
  waiting[1]?.()
  const chosen = LIST.filter(
    ({ type, anon, country, age }) =>
      type === 'http' && anon === 'elite' && country === 'DE' && age <= 3600,
  )
  await untilCount(page, figure(chosen.length))
  waiting[0]?.() // an older answer comes last, and changes nothing
  await page.waitForResponse(/country=de&lang=en$/)
  await page.evaluate('new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)))')
  await untilCount(page, figure(chosen.length))
})

test('with a port, an address or unique the page claims no number of matches', async () => {
  const { page } = await open()
  await untilCount(page, figure(fresh.length))
  await page.fill('[name=port]', '1080')
  await page.locator('.count .title', { hasText: 'Your request' }).waitFor()
  await page.getByText('counts ignore port and address').waitFor()
  expect(await optionOn(page, 'type', 'http')).toBe(count(({ type }) => type === 'http'))
  await page.fill('[name=port]', '')
  await untilCount(page, figure(fresh.length))
  await page.locator('summary').click()
  await page.check('[name=unique]')
  await page.locator('.count .title').waitFor()
})

test('filters write the request, one parameter each, and the hash has it too', async () => {
  const { page } = await open()
  await page.check('[name=type][value=socks5]')
  await page.check('[name=anon][value=elite]')
  await page.fill('[name=ping]', '700')
  await page.fill('[name=speed]', '50000')
  await page.check('[name=time][value="3600"]')
  await page.fill('[name=works]', '80')
  await page.check('[name=country][value=de]')
  await page.check('[name=country_mode][value=except]')
  await page.fill('[name=city]', "L'Aquila")
  await page.fill('[name=port]', '1080')
  await page.fill('[name=ip]', '1.2.3.4:80')
  await page.check('[name=service][value="the service"]')
  await page.selectOption('[name=sort]', 'ping')
  await page.fill('[name=count]', '7')
  await page.locator('summary').click()
  await page.check('[name=lang][value=ru]')
  await page.check('[name=wrap]')
  await page.check('[name=split_ip]')
  await page.check('[name=format]')
  const query =
    'type=socks5&anon=elite&ping=700&speed=50000&time=3600&works=80&country=de' +
    '&country_mode=except&city=L%27Aquila&port=1080&ip=1.2.3.4:80&service=the%20service' +
    '&sort=ping&count=7&lang=ru&get=json&split_ip=1&format=object&wrap=1'
  expect(await requestOn(page)).toBe(`/api?${query.replaceAll(':', '%3A')}`)
  await page.waitForURL(({ hash }) => hash === `#${query.replaceAll(':', '%3A')}`)
  await page.check('[name=get][value=csv]')
  expect(await requestOn(page)).toEndWith('&get=csv&split_ip=1')
  await page.check('[name=fields][value=ip]')
  expect(await requestOn(page)).toEndWith('&get=csv&fields=ip&split_ip=1')
})

test('a value that the API refuses is marked, and the message of the API is shown', async () => {
  const { page } = await open()
  await untilCount(page, figure(fresh.length))
  await page.fill('[name=port]', '70000')
  await page.fill('[name=ip]', '999.1')
  expect(await page.locator('input:invalid').count()).toBe(2)
  await page.fill('[name=works]', '101')
  await page.getByText('works must be an integer from 0 to 100').waitFor()
  expect(await page.locator('.count').textContent()).not.toMatch(/\d/)
  await page.fill('[name=works]', '')
  await page.fill('[name=port]', '')
  await page.fill('[name=ip]', '')
  await untilCount(page, figure(fresh.length))
})

test('the hash restores a choice, chips remove parts of it, another hash replaces it', async () => {
  const at = '/#type=socks5&country=de,nl&ping=700&get=txt&type_prefix=1'
  const { page } = await open({ at })
  expect(await page.isChecked('[name=type][value=socks5]')).toBe(true)
  expect(await page.isChecked('[name=country][value=nl]')).toBe(true)
  expect(await page.inputValue('[name=ping]')).toBe('700')
  await page.getByRole('button', { name: 'Remove type=socks5' }).click()
  expect(await requestOn(page)).toBe('/api?ping=700&country=de,nl&lang=en&type_prefix=1')
  await page.getByRole('button', { name: 'Clear all' }).click()
  expect(await requestOn(page)).toBe('/api?lang=en&type_prefix=1')
  await page.evaluate("location.hash = 'anon=elite&get=json'")
  await page.locator('[name=anon][value=elite]:checked').waitFor()
  expect(await requestOn(page)).toBe('/api?anon=elite&lang=en&get=json')
  await page.evaluate("location.hash = 'cuntry=%%%'") // damaged: the whole list
  await page.locator('[name=anon][value=elite]:not(:checked)').waitFor()
  await untilCount(page, figure(fresh.length))
  expect(await requestOn(page)).toBe('/api?lang=en&get=json')
  await page.evaluate("location.hash = 'country=xxxx'")
  await page.getByText('country must be').waitFor()
  expect(await optionOn(page, 'type', 'http')).toBe(count(({ type }) => type === 'http'))
})

test('without statistics filters work, without counts, and the page says why', async () => {
  const options = { publicStats: 'off', providerService: 'my shop' } as const
  const { page } = await pageOf(() => startChild(dataDirectory(LIST), options))()
  await page.getByText('This server publishes no statistics').waitFor()
  await page.locator('#answer', { hasText: 'Press Try it' }).waitFor()
  await page.check('[name=service][value="my shop"]')
  await page.check('[name=country][value=de]')
  expect(await requestOn(page)).toBe('/api?country=de&service=my%20shop&lang=en&get=json')
  expect(await page.locator('.option-count', { hasText: /\d/ }).count()).toBe(0)
})

test('the page says when statistics fail or have another shape', async () => {
  for (const stats of [{ status: 503, body: {} }, { body: { rows: [] } }]) {
    const { page } = await open({ stubs: { '/stats': stats } })
    await page.getByText('Statistics are not available now').waitFor()
    await page.check('[name=service][value="the service"]')
    expect(await requestOn(page)).toBe('/api?service=the%20service&lang=en&get=json')
  }
})
