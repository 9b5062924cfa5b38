/** The reference page, /docs (contract F5): what it shows, that it is safe, and how it looks. */
import { afterAll, describe, expect, test } from 'bun:test'
import { STATUS } from '../../src/api/errors.ts'
import { createDocument, type DocumentOptions } from '../../src/api/openapi/document.ts'
import { describeParameters } from '../../src/api/query.ts'
import { memberNames } from '../../src/api/render.ts'
import { docsPage } from '../../src/web/docs/page.ts'
import { wordsOf } from '../../src/web/docs/translations.ts'
import { startInProcess } from '../support/in-process.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { faultsIn, type Look } from './browser.ts'
import { inBrowser } from './in-browser.ts'
import { pageOf } from './page.ts'

afterAll(cleanUp)

const OPTIONS: DocumentOptions = {
  ...{ version: '1.2.3', provider: 'the service', errors: 'json', stats: 'full', lang: 'en' },
}
const FILES = [
  { name: 'index.html' },
  { name: 'index-abc.css' },
  { name: 'icon-abc.svg' },
  { name: 'index-abc.js' },
]
/** All that an operator says. */
const OPERATOR = {
  ...{ siteName: 'Acme & Sons', contact: 'mailto:ops@example.com' },
  keyUrl: 'https://example.com/keys?a=1&b=2',
}
/** The one script of the page, which is a file. */
const OWN_SCRIPT = '<script type="module" blocking="render" src="/-/index-abc.js"></script>'
const docsOf = (options: Partial<DocumentOptions> = {}): string => {
  const all = { ...OPTIONS, ...options }
  return docsPage(createDocument(all), all.lang, FILES, OPERATOR)
}
const idsOf = (text: string): string[] =>
  [...text.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id)

describe('the page', () => {
  const text = docsOf()
  const ids = new Set(idsOf(text))

  test.each([
    ...describeParameters('the service').map(({ name }) => `parameter-${name}`),
    ...memberNames('the service').map(name => `member-${name.replaceAll(' ', '-')}`),
    ...Object.keys(STATUS).map(code => `error-${code}`),
    ...['status', 'count', 'timestamp', 'filters', 'data'].map(name => `envelope-${name}`),
    ...['retry_after', 'daily_limit', 'used_subnets'].map(name => `error-body-${name}`),
    ...['id', 'label', 'plan', 'state', 'expires', 'limits', 'today'].map(name => `key-${name}`),
    ...['total', 'matching', 'facets', 'histograms', 'cities', 'examples'].map(n => `stats-${n}`),
    ...['RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id'].map(n => `header-${n}`),
    ...['start', 'keys', 'api', 'forms', 'record', 'errors', 'limits', 'key', 'stats'],
    ...['clients'],
  ])('has an anchor %s', id => expect(ids).toContain(id))

  test('has each anchor once, and no broken link', () => {
    expect(idsOf(text)).toHaveLength(ids.size)
    const targets = [...text.matchAll(/href="#([^"]*)"/g)].map(([, id = '']) =>
      decodeURIComponent(id),
    )
    expect(targets.length).toBeGreaterThan(100)
    expect(targets.filter(id => !ids.has(id))).toEqual([])
  })

  test('shows every value that a parameter accepts, and no broken value', () => {
    for (const { values = [] } of describeParameters('the service')) {
      for (const value of values) expect(text).toContain(`<code>${value}</code>`)
    }
    expect(text).toContain('curl -H &quot;Authorization: Bearer $PROXYLIST_KEY&quot;')
    expect(text).not.toContain('undefined')
    expect(text).not.toContain('[object')
  })

  test('has no inline script or style, and loads from no other site', () => {
    expect(text).toContain(OWN_SCRIPT)
    expect(text.replace(OWN_SCRIPT, '')).not.toMatch(
      /<script|\son\w+=|\sstyle=|<style|javascript:|src=|<iframe|<base/i,
    )
    const links = [...text.matchAll(/href="([^"#][^"]*)"/g)].map(([, link = '']) => link)
    const own = [OPERATOR.contact, Bun.escapeHTML(OPERATOR.keyUrl)]
    expect(own.filter(link => !links.includes(link))).toEqual([])
    for (const link of links) expect(own.includes(link) || /^\/(?!\/)/.test(link)).toBeTrue()
  })
})

describe('the page escapes', () => {
  const EVIL = `<img src=x onerror=alert(1)>"'&</code></script>`
  test('a name of the provider’s service that looks like markup', () => {
    for (const lang of ['en', 'ru'] as const) {
      const text = docsOf({ provider: EVIL, lang }).replace(OWN_SCRIPT, '')
      expect(text).not.toContain('<img')
      expect(text).not.toMatch(/"'&<|<\/script>/)
      expect(text).toContain(`<code>${Bun.escapeHTML(EVIL)}</code>`)
    }
  })
  test('a version, and every text of a document', () => {
    expect(docsOf({ version: EVIL })).not.toContain('<img')
    const spoil = (value: unknown): unknown => {
      if (typeof value === 'string') return value + EVIL
      if (Array.isArray(value)) return value.map(spoil)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, spoil(each)]))
    }
    const spoiled = spoil(createDocument(OPTIONS)) as ReturnType<typeof createDocument>
    expect(docsPage(spoiled, 'en', FILES, OPERATOR)).not.toContain('<img')
  })
})

describe('the words of the page', () => {
  const [en, ru] = [wordsOf('en'), wordsOf('ru')]
  test('exist in both languages', () => {
    expect(Object.keys(ru)).toEqual(Object.keys(en))
    for (const [name, word] of Object.entries(ru))
      expect([name, word]).toEqual([name, expect.stringMatching(/[а-я]/i)])
    for (const [name, word] of Object.entries(en))
      expect([name, word]).toEqual([name, expect.not.stringMatching(/[а-я]/i)])
  })
})

test('/docs over HTTP has the Content-Security-Policy of the page, and both languages', async () => {
  const service = await startInProcess(temporaryDirectory(), OPERATOR)
  const page = await service.request('/docs', { headers: { 'accept-encoding': 'identity' } })
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toStartWith("default-src 'none'; script-src 'self'; style-src 'self';")
  expect(policy).not.toContain('unsafe')
  expect(page.text).toContain('<title>Reference · Acme &amp; Sons</title>')
  expect(page.text).toContain('<a href="mailto:ops@example.com">Contact</a>')
  const { text: front } = await service.request('/')
  expect(front).toContain('<title>Acme &amp; Sons</title><meta name="siteName"')
  expect(front).toContain('<meta name="keyUrl" content="https://example.com/keys?a=1&amp;b=2">')
  const russian = await service.request('/docs?lang=ru')
  expect(russian.text).toContain('<html lang="ru">')
  expect(russian.headers.get('etag')).not.toBe(page.headers.get('etag'))
  for (const [query, accepted, is] of [
    ['?lang=xx', 'en', page.text],
    ['?lang=%ff', 'en', page.text],
    ['', 'ru-RU,ru;q=0.9,en;q=0.8', russian.text],
    ['', 'en-GB,ru;q=0.5', page.text],
    ['', 'trumpet', page.text],
    ['?lang=en', 'ru', page.text],
  ] as const) {
    const headers = { 'accept-language': accepted }
    expect((await service.request(`/docs${query}`, { headers })).text).toBe(is)
  }
  const [, style = ''] = /<link rel="stylesheet" href="([^"]*)">/.exec(page.text) ?? []
  const css = await service.request(style)
  expect([css.status, css.headers.get('content-type')]).toEqual([200, 'text/css; charset=utf-8'])
  expect(css.headers.get('cache-control')).toContain('immutable')
  const off = await startInProcess(temporaryDirectory(), { page: 'off' })
  for (const path of ['/', '/docs', '/docs?lang=ru', style]) {
    expect([path, (await off.request(path)).status]).toEqual([path, 404])
  }
  expect((await off.request('/openapi.json')).status).toBe(200)
})

const LOOKS: { readonly [at: string]: readonly Look[] } = {
  '/docs': [
    { width: 1440, rules: 'all' },
    { width: 1440, colorScheme: 'dark', rules: 'colours' },
    { width: 390, rules: 'structure' },
  ],
  '/docs?lang=ru': [{ width: 1440, rules: 'structure' }],
}
const WIDTHS = [320, 390, 768, 901, 1180, 2560].map(width => ({ width, rules: null }))

const open = pageOf(() => startChild(temporaryDirectory(), {}, ['--sample']))

for (const [at, looks] of Object.entries(LOOKS)) {
  inBrowser(`${at} looks right, and fits its window`, async () => {
    const { page, requests, origin } = await open({ at })
    for (const look of [...looks, ...WIDTHS]) {
      expect([look, await faultsIn(page, look)]).toEqual([look, []])
    }
    for (const request of requests) expect(request).toStartWith(`${origin}/`)
  })
}

inBrowser('its script: origin, copying, one language everywhere', async () => {
  const { page, origin } = await open({ at: '/docs', viewport: { width: 1440, height: 900 } })
  const start = page.locator('#start .sample').nth(1)
  const shown = start.locator('.command:visible')
  expect(await shown.textContent()).toContain(`'${origin}/api?type=socks5&count=3'`)
  expect(await page.locator('main').textContent()).not.toContain('proxies.example.com')
  await start.getByLabel('Python').check()
  expect(await shown.textContent()).toContain('import urllib.request')
  expect(await page.locator('#forms [value=Python]:not(:checked)').count()).toBe(0)
  await page.evaluate(
    'navigator.clipboard.writeText = text => { globalThis.copied = text; return Promise.resolve() }',
  )
  await start.getByText('Copy', { exact: true }).click()
  expect(await start.locator('.copy').textContent()).toBe('Copied')
  expect(await page.evaluate<string>('copied')).toBe((await shown.textContent()) ?? '')
  expect(await page.getByText('Try this').first().getAttribute('href')).toBe(
    '/#type=socks5&count=3',
  )
  expect(await page.evaluate('({ ...localStorage })')).toEqual({ code: 'Python' })
  await page.locator('.top a', { hasText: 'RU' }).click()
  await page.waitForURL(/lang=ru/)
  await page.goto(`${origin}/docs`)
  await page.waitForURL(/lang=ru/)
  expect(await page.locator('#start [value=Python]').isChecked()).toBeTrue()
  await page.goto(origin)
  expect(await page.getByRole('radio', { name: 'Python' }).isChecked()).toBeTrue()
  expect(await page.getAttribute('html', 'lang')).toBe('ru')
})
