/** The view of a key (contract F6, F3) in a real browser. */
import { afterAll, expect } from 'bun:test'
import { inBrowser as test } from '../../support/in-browser.ts'
import { fulfill, pageOf } from '../../support/page.ts'
import { startChild } from '../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

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
const STATS = { '/stats': { status: 404, body: {} } }

const open = pageOf(() => startChild(temporaryDirectory(), {}, ['--sample']), STATS)

const show = async (stub: { status?: number; body: unknown }) => {
  const opened = await open({ at: '/#my-key', stubs: { '/key': stub } })
  const asked = opened.page.waitForRequest('**/key')
  await opened.page.fill('[name=key]', ' pl_own ')
  await opened.page.getByRole('button', { name: 'Show' }).click()
  return { ...opened, asked: await asked }
}

test('draws plan, state, expiry, limits and the use of the day', async () => {
  const { page, asked } = await show({ body: USAGE })
  expect(asked.headers().authorization).toBe('Bearer pl_own')
  await page.getByRole('heading', { name: '<b>first</b>' }).waitFor()
  const text = (await page.locator('main').textContent()) ?? ''
  for (const part of ['standard', 'active', 'Mar 1, 2027', '3,320', '41,200', '12', 'today, UTC']) {
    expect(text).toContain(part)
  }
  expect(await page.locator('.levels li').allTextContents()).toEqual([
    expect.stringMatching(/^burst2 \/ 5(?:90|[678]\d) sec/), // a busy machine is slow
    expect.stringContaining('today31,240 / 34,56011 hr 10 min'),
    expect.stringContaining('networks of ours1 / 1011 hr 10 min'),
  ])
  expect(await page.locator('.bar').count()).toBe(24)
  expect(await page.locator('.bar').last().getAttribute('data-tip')).toBe('23: 230')
  expect(await page.locator('.bars').getAttribute('aria-label')).toContain('22: 220, 23: 230')
  expect(page.url()).toEndWith('/#my-key')
})

test('resets count down, and a limit that is over is full again', async () => {
  const { page } = await open({
    at: '/#my-key',
    stubs: { '/key': { body: USAGE } },
    prepare: each => each.clock.install(),
  })
  await page.fill('[name=key]', 'pl_own')
  await page.getByRole('button', { name: 'Show' }).click()
  const burst = page.locator('.levels li').first()
  await burst.waitFor()
  await page.clock.runFor(30_000)
  expect(await burst.textContent()).toMatch(/^burst2 \/ 5(?:60|[2345]\d) sec/)
  await page.clock.runFor(62_000)
  expect(await burst.textContent()).toStartWith('burst5 / 55 of 5 left')
})

test('a key without limits and use, a wrong one, and a service that does not answer are said', async () => {
  const { page } = await show({ body: { ...USAGE, limits: [], today: null } })
  await page.getByText('This key has no limits.').waitFor()
  expect(await page.locator('.bars').count()).toBe(0)
  const button = page.getByRole('button', { name: 'Show' })
  const body = { status: 'error', code: 'INVALID_KEY', message: 'the key <i>is</i> not valid' }
  await page.route('**/key', route => fulfill(route, { status: 403, body }))
  await button.click()
  await page.locator('.problem', { hasText: 'the key <i>is</i> not valid' }).waitFor()
  await page.getByText('Compare the key with the one you were given').waitFor()
  await page.route('**/key', route => route.abort())
  await button.click()
  await page.locator('main', { hasText: 'The service did not answer' }).waitFor()
})

test('the choice is still there when one comes back from it', async () => {
  const { page } = await open({ at: '/#type=socks5&get=json' })
  await page.getByRole('link', { name: 'My key' }).click()
  await page.getByRole('heading', { name: 'What a key has left' }).waitFor()
  expect(await page.getByRole('link', { name: 'My key' }).getAttribute('aria-current')).toBe('page')
  await page.getByRole('link', { name: 'Query' }).click()
  expect(await page.isChecked('[name=type][value=socks5]')).toBe(true)
})
