/** The overview of the console (contract G3) in a real browser. */
import { afterAll, describe, expect } from 'bun:test'
import type { Page, Route } from 'playwright-core'
import { startSample, viewOf, withHistory } from '../../support/console-page.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp } from '../../support/temporary.ts'
import { until } from '../../support/until.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

describe('the overview', () => {
  test('shows what the server says of itself', async () => {
    const { page } = await view()
    const cards = page.locator('.cards')
    await cards.waitFor()
    expect(await cards.textContent()).toMatch(/Proxies[\d,]+.*fresh.*Requests.*Memory\d+ MB/)
    expect(await page.locator('.top .status').textContent()).toMatch(/^ready · /)
    expect(await page.title()).toBe('Overview · proxylist console')
  })

  test('draws charts at their real width, says the values at the cursor and has them as a table', async () => {
    const { page } = await view('Overview', { prepare: withHistory })
    const chart = page.getByRole('region', { name: 'Requests' })
    const canvas = chart.locator('canvas')
    await canvas.waitFor()
    const [drawn, place] = (await page.evaluate(
      `(() => { const c = document.querySelector('.chart canvas'); return [c.width / devicePixelRatio, c.closest('.canvas').clientWidth] })()`,
    )) as [number, number]
    expect(Math.abs(drawn - place)).toBeLessThanOrEqual(1)
    const legend = chart.locator('.legend')
    expect(await legend.textContent()).not.toContain('at ')
    await chart.locator('.u-over').hover({ position: { x: 40, y: 40 } })
    expect(await legend.textContent()).toMatch(/at \d\d:\d\d/)
    // The server was down: nothing is known there, and no line is drawn.
    const { width = 0 } = (await chart.locator('.u-over').boundingBox()) ?? {}
    await chart.locator('.u-over').hover({ position: { x: (660 / 1440) * width, y: 40 } })
    expect(await legend.textContent()).toContain('200 –')
    expect(await chart.getByRole('img').getAttribute('aria-label')).toMatch(/Now: 200 30\d/)
    await chart.getByText('As a table, by hour').click()
    const rows = chart.getByRole('row')
    await rows.nth(1).waitFor()
    expect(await rows.count()).toBeGreaterThanOrEqual(25)
    expect(await rows.nth(1).textContent()).toMatch(/^\d\d:\d\d30\d/)
    await page.setViewportSize({ width: 800, height: 800 })
    await page.evaluate(
      `new Promise(resolve => (function check() {
         const c = document.querySelector('.chart canvas')
         const fits = Math.abs(c.width / devicePixelRatio - c.closest('.canvas').clientWidth) <= 1
         return fits && c.width < 800 * devicePixelRatio ? resolve() : requestAnimationFrame(check)
       })())`,
    )
  })

  test('shows the first minute of a server that was just started', async () => {
    const { page } = await view('Overview', { prepare: each => withHistory(each, {}, 1) })
    await page.locator('.chart canvas').first().waitFor()
    // The colour of p99, which is nothing but a point.
    const pixels = await page.evaluate(
      `(() => {
        const canvas = document.querySelectorAll('.chart canvas')[1]
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
        const columns = new Set()
        for (let i = 0; i < data.length; i += 4) if (data[i + 2] - data[i] > 60) columns.add((i / 4) % canvas.width)
        return columns.size
      })()`,
    )
    expect(pixels as number).toBeGreaterThanOrEqual(2)
  })
})

describe('the overview, as time passes', () => {
  test('is asked for every 10 s while the tab is visible, and not while it is hidden', async () => {
    const openedMs = performance.now()
    const { page, requests } = await view('Overview', { prepare: each => each.clock.install() })
    /** Most requests until now, if the clock was moved so far. */
    const due = (movedMs: number): number =>
      1 + Math.floor((performance.now() - openedMs + movedMs) / 10_000)
    const asked = (): number => requests.filter(each => each.endsWith('/console/overview')).length
    const answered = () => page.waitForResponse('**/console/overview')
    await page.locator('.cards').waitFor()
    expect(asked()).toBeWithin(1, due(0) + 1)
    await Promise.all([answered(), page.clock.runFor(10_000)])
    expect(asked()).toBeWithin(2, due(10_000) + 1)
    const show = (state: string) =>
      page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await show('hidden')
    const before = asked()
    await page.clock.runFor(120_000)
    expect(asked()).toBe(before)
    await Promise.all([answered(), show('visible'), page.clock.runFor(100)])
    expect(asked()).toBe(before + 1)
  })

  test('says that its figures are old when the server does not answer, and goes on when it does', async () => {
    const { page } = await view('Overview', { prepare: page => page.clock.install() })
    await page.locator('.cards').waitFor()
    await page.route('**/console/overview', route => route.abort())
    await page.clock.runFor(10_000)
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(/from \d\d:\d\d.*does not answer/)
    expect(await page.locator('.top .status').textContent()).toBe('no answer')
    expect(await page.locator('.cards').isVisible()).toBe(true)
    await page.unroute('**/console/overview')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('alert').waitFor({ state: 'detached' })
  })
})

describe('a server in trouble', () => {
  test('is shown with why it is not ready, with markup as text', async () => {
    const problem = 'the list is <img src=x onerror=alert(1)> empty'
    const prepare = (each: Page) => withHistory(each, { ready: false, problem })
    const { page } = await view('Overview', { prepare })
    await page.locator('.cards').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain(problem)
    expect(await page.locator('main img').count()).toBe(0)
  })

  test('is shown when it answers slowly, and asked again when it does not for a minute', async () => {
    const held: Route[] = []
    const { page } = await view('Overview', {
      async prepare(each) {
        await each.clock.install()
        await each.route('**/console/overview', route => void held.push(route))
      },
    })
    const hasAsked = (times: number) => until(() => held.length === times)
    await hasAsked(1)
    await page.clock.runFor(45_000)
    expect(held.length).toBe(1)
    await page.clock.runFor(30_000)
    await hasAsked(2)
    await page.clock.runFor(45_000)
    await held[1]?.continue()
    await page.locator('.cards').waitFor()
  })
})
