/** Trying a request on the page (contract F6): answers, limits, waiting, errors, where keys are, and the view of a key. */
import { afterAll, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { dataDirectory, KEY } from '../../support/fixtures.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp } from '../../support/temporary.ts'
import { until } from '../../support/until.ts'
import { inBrowser as test } from '../in-browser.ts'
import { pageOf } from '../page.ts'

afterAll(cleanUp)

const MARKUP = '<img src=x onerror=alert(1)>'
const ROWS = [
  { ip: '192.0.2.1:80', type: 'http', country: 'de', city: MARKUP, works: 95 },
  { ip: '192.0.2.2:1080', type: 'socks5', country: 'nl', city: 'Amsterdam', works: 99 },
]

const open = pageOf(() => startChild(dataDirectory(ROWS, { daily: 100 })))

/** Presses Try, and waits for what comes of it. */
async function tryIt(page: Page): Promise<string> {
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.locator('#answer[aria-busy=false] .status').waitFor()
  return (await page.locator('#answer').textContent()) ?? ''
}

test('demo gets a table with status, rows, time, bytes and the rest of its limit', async () => {
  const { page } = await open()
  const answer = await tryIt(page)
  expect(answer).toMatch(/^2002 records[\d.]+ ms[\d.]+ (?:bytes|kB)/)
  expect(answer).toContain('1 left of 2')
  expect(await page.locator('#answer tbody tr').count()).toBe(2)
  await page.getByRole('radio', { name: 'Raw' }).check()
  expect(JSON.parse((await page.locator('#answer pre').textContent()) ?? '')).toHaveLength(2)
})

test('masked examples fill the place of the answer before the first request and after each new choice', async () => {
  const { page, requests } = await open()
  const rows = page.locator('#answer tbody tr')
  const ips = page.locator('#answer td[data-member=ip]')
  await page.locator('#answer', { hasText: '192.0.0.0:1080' }).waitFor()
  expect((await ips.allTextContents()).toSorted()).toEqual(['192.0.0.0:1080', '192.0.0.0:80'])
  expect(requests.filter(url => url.includes('/api'))).toEqual([])
  await page.check('[name=country][value=nl]')
  await until(async () => (await rows.count()) === 1)
  expect(await rows.textContent()).toMatch(
    /^192\.0\.0\.0:1080socks5NL NetherlandsAmsterdam99%\d+ (sec|min)$/,
  )
  await page.fill('[name=key]', KEY)
  await tryIt(page)
  expect(await ips.allTextContents()).toEqual(['192.0.2.2:1080'])
  await page.uncheck('[name=country][value=nl]')
  await page.getByText('The freshest matching').waitFor()
  await until(async () => (await rows.count()) === 2)
})

test('JSON becomes a table, and other formats stay raw', async () => {
  const { page } = await open()
  await page.fill('[name=key]', KEY)
  for (const get of ['json', 'txt', 'csv', 'ndjson', 'json.file']) {
    await page.evaluate(`location.hash = 'get=${get}&count=1'`)
    await page.locator(`[name=get][value="${get}"]:checked`).waitFor()
    const answer = await tryIt(page)
    expect([get, answer]).toEqual([get, expect.stringContaining('2001 record')])
    const cells = page.locator('#answer td[data-member=ip]')
    const isTable = get.startsWith('json')
    expect([get, await cells.allTextContents()]).toEqual([get, isTable ? ['192.0.2.1:80'] : []])
    if (!isTable) expect(answer).toContain('192.0.2.1:80')
  }
})

test('the page counts down after a 429 and shows its message; another key need not wait', async () => {
  const { page } = await open()
  await page.clock.install()
  for (const status of ['200', '200', '429']) {
    expect(await tryIt(page)).toStartWith(status)
  }
  await page.getByText('DEMO_LIMIT_REACHED').waitFor()
  const button = page.locator('.ask button')
  const seconds = async (): Promise<number> =>
    Number(/^Again in (\d+) sec$/.exec((await button.textContent()) ?? '')?.[1])
  const first = await seconds()
  expect(first).toBeWithin(30, 61) // a busy machine is slow
  expect(await button.isDisabled()).toBe(true)
  await page.clock.runFor(20_000)
  expect(await seconds()).toBeWithin(1, first - 18) // it may be drawn a moment later
  await page.fill('[name=key]', KEY)
  expect(await button.isEnabled()).toBe(true)
  await page.getByText('The freshest matching').waitFor()
  await page.fill('[name=key]', 'demo')
  await page.getByText('DEMO_LIMIT_REACHED').waitFor()
  await page.clock.runFor(41_000)
  expect(await button.textContent()).toBe('Try it')
  await page.getByText('The freshest matching').waitFor()
})

test('a wrong key, and a filter without proxies, are explained', async () => {
  const { page } = await open({ at: '/#country=fr' })
  expect(await tryIt(page)).toContain('PROXIES_NOT_FOUND')
  await page.fill('[name=key]', 'wrong')
  expect(await tryIt(page)).toContain('INVALID_KEY')
  await page.fill('[name=key]', 'ключ')
  await page.getByText('A key has only Latin letters').waitFor()
  expect(await page.locator('.ask button').isDisabled()).toBe(true)
})

test('the Russian page explains an error in Russian, with the message of the API', async () => {
  const { page } = await open({ at: '/#works=101', locale: 'ru-RU' })
  const wrong = 'Неверное значение в запросе: works must be an integer from 0 to 100'
  await page.locator('.request', { hasText: wrong }).waitFor()
  await page.getByRole('button', { name: 'Попробовать' }).click()
  await page.locator('#answer .problem', { hasText: wrong }).waitFor()
})

test('the page says when a server does not answer, or not in JSON', async () => {
  const { page } = await open()
  await page.route('**/api?*', route => route.abort(), { times: 1 })
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.locator('#answer', { hasText: 'The server did not answer' }).waitFor()
  const answer = { status: 502, contentType: 'text/html', body: `<h1>${MARKUP}</h1>` }
  await page.route('**/api?*', route => route.fulfill(answer), { times: 1 })
  expect(await tryIt(page)).toContain(`<h1>${MARKUP}</h1>`)
  expect(await page.locator('#answer img').count()).toBe(0)
  expect(await tryIt(page)).toStartWith('200')
})

test('markup in cities is text, in the answer and in the list of cities', async () => {
  const { page } = await open()
  await page.fill('[name=key]', KEY)
  expect(await tryIt(page)).toContain(MARKUP)
  await page.locator(`#cities option[value="${MARKUP}"]`).waitFor({ state: 'attached' })
  await page.fill('[name=city]', MARKUP)
  expect(await page.locator('img').count()).toBe(0)
})

test('a key is sent only in a header; key and choice survive a visit to the key view', async () => {
  const { page, requests, origin } = await open()
  const sent: { url: string; authorization: string; referer: string }[] = []
  page.on('request', request => {
    const { authorization = '', referer = '' } = request.headers()
    sent.push({ url: request.url(), authorization, referer })
  })
  await page.fill('[name=key]', KEY)
  await page.check('[name=type][value=http]')
  expect(await tryIt(page)).toStartWith('200')
  const [asked] = sent.filter(({ url }) => url.includes('/api'))
  expect(asked).toEqual({
    ...{
      url: `${origin}/api?type=http&lang=en&get=json`,
      authorization: `Bearer ${KEY}`,
      referer: '',
    },
  })
  const held = await page.evaluate(`JSON.stringify([
    location.href, history.state, document.cookie, document.title,
    { ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML,
  ])`)
  expect(held).not.toContain(KEY)
  expect(requests.filter(url => url.includes(KEY))).toEqual([])
  expect(await page.evaluate('Object.keys(localStorage)')).toEqual([])
  await page.getByRole('link', { name: 'My key' }).click()
  expect(await page.inputValue('[name=key]')).toBe(KEY)
  await page.getByRole('link', { name: 'Query' }).click()
  expect(await page.isChecked('[name=type][value=http]')).toBe(true)
  await page.reload()
  expect(await page.inputValue('[name=key]')).not.toContain(KEY)
})

const USAGE = {
  ...{ id: 'wsu5jcyw', label: '<b>first</b>', plan: 'standard', state: 'active' },
  expires: '2027-03-01T12:00:00.000Z',
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 2, reset: 90 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 31_240, reset: 40_250 },
    { name: 'networks of ours', quota: 10, window: 86_400, left: 1, reset: 40_250 },
  ],
  today: {
    ...{ requests: 3320, records: 41_200, refused: 12 },
    hours: Array.from({ length: 24 }, (_, hour) => hour * 10),
  },
}
const show = async (stub: { status?: number; body: unknown }) => {
  const opened = await open({ at: '/#my-key', stubs: { '/key': stub } })
  const asked = opened.page.waitForRequest('**/key')
  await opened.page.fill('[name=key]', ' pl_own ')
  await opened.page.getByRole('button', { name: 'Show' }).click()
  return { ...opened, asked: await asked }
}

test('the key view draws plan, state, expiry, limits and the use of the day', async () => {
  const { page, asked } = await show({ body: USAGE })
  expect(asked.headers().authorization).toBe('Bearer pl_own')
  await page.getByRole('heading', { name: '<b>first</b>' }).waitFor()
  const text = (await page.locator('main').textContent()) ?? ''
  for (const part of ['standard', 'active', 'Mar 1, 2027', '3,320', '41,200', '12', 'Today UTC']) {
    expect(text).toContain(part)
  }
  expect(await page.locator('.levels li').allTextContents()).toEqual([
    'burst, 5 sec2 left of 5, resets in 90 sec',
    'today31,240 left of 34,560, resets in 11 hr 10 min',
    'networks of ours1 left of 10, resets in 11 hr 10 min',
  ])
  expect(await page.locator('.bars .columns span').count()).toBe(24)
  expect(await page.locator('.bars .columns span').last().getAttribute('title')).toBe('23: 230')
  expect(await page.locator('.bars').getAttribute('aria-label')).toContain('22: 220, 23: 230')
  expect(page.url()).toEndWith('/#my-key')
})
