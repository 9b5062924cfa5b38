/** Keys of the console (contract G3) in a real browser, against the real server. */
import { afterAll, describe, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { answer, dialog, heading, startSample, viewOf } from '../../support/console-page.ts'
import { inBrowser as test } from '../../support/in-browser.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)
const view = viewOf(startSample)

/** The list of keys of a server, opened. */
async function openKeys() {
  const opened = await view('Keys')
  const statusOf = async (key: string): Promise<number> =>
    (await fetch(opened.api, { headers: { authorization: `Bearer ${key}` } })).status
  return { ...opened, statusOf }
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

const secretOf = (page: Page): Promise<string> =>
  dialog(page).getByRole('textbox', { name: 'The key' }).inputValue()

/** Makes a key in the dialog; returns the secret that it shows. */
async function makeKey(page: Page, label: string): Promise<string> {
  await press(page, 'New key')
  await page.getByLabel('Label').fill(label)
  await answer(page, 'Make the key')
  const secret = await secretOf(page)
  await answer(page, 'Done')
  return secret
}

/** Opens a key by its label. */
async function openKey(page: Page, label: string): Promise<void> {
  await page.getByRole('link', { name: label }).click()
  await page.getByRole('heading', { level: 2, name: label }).waitFor()
}

const stateOf = (page: Page) => page.locator('.about .status').textContent()

describe('a key', () => {
  test('is made, shown once with a button that copies it, and works', async () => {
    const { page, requests, statusOf } = await openKeys()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await press(page, 'New key')
    await page.getByLabel('Label').fill('first customer')
    await answer(page, 'Make the key')
    const secret = await secretOf(page)
    expect(secret).toMatch(/^pl_\w{32}$/)
    expect(await dialog(page).textContent()).toContain('cannot be shown again')
    await answer(page, 'Copy')
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret)
    await page.keyboard.press('Escape')
    expect(await dialog(page).isVisible()).toBe(true)
    await answer(page, 'Done')
    await page.getByRole('link', { name: 'first customer' }).waitFor()
    expect(await statusOf(secret)).toBe(200)
    const kept = await page.evaluate(
      'document.documentElement.outerHTML + JSON.stringify([sessionStorage, localStorage, history.state, location.href])',
    )
    expect(kept).not.toContain(secret.slice(10))
    expect(requests.join()).not.toContain(secret.slice(10))
  })

  test('that is temporary ends by itself, one that is wrong is refused in the words of the server', async () => {
    const { page, statusOf } = await openKeys()
    await press(page, 'New key')
    await page.getByLabel('Temporary').check()
    await page.getByLabel('Valid for').fill('2h')
    await answer(page, 'Make the key')
    const secret = await secretOf(page)
    expect(secret).toMatch(/^temp_/)
    expect(await statusOf(secret)).toBe(200)
    await answer(page, 'Done')
    const label = '<img src=x onerror=alert(1)>&amp;'
    await press(page, 'New key')
    await page.getByLabel('Label').fill(label)
    await page.getByLabel('Expires').fill('soon')
    await answer(page, 'Make the key')
    expect(await dialog(page).getByRole('alert').textContent()).toContain('expires must be')
    expect(await page.getByLabel('Label').inputValue()).toBe(label)
    await page.getByLabel('Expires').fill('')
    await answer(page, 'Make the key')
    await answer(page, 'Done')
    await openKey(page, label) // markup is shown as text
    expect(await page.locator('main img').count()).toBe(0)
  })
})

test('a key is changed, rotated, given a fresh start, revoked and removed', async () => {
  const { page, statusOf } = await openKeys()
  const first = await makeKey(page, 'before')
  await openKey(page, 'before')
  await press(page, 'Change')
  await page.getByLabel('Label').fill('after')
  await page.getByLabel('Expires').fill('2001-01-01')
  await answer(page, 'Save')
  expect(await dialog(page).getByRole('alert').textContent()).toContain('expires')
  await page.getByLabel('Expires').fill('30d')
  await page.getByLabel('Note').fill('pays late')
  await answer(page, 'Save')
  await page.getByRole('heading', { level: 2, name: 'after' }).waitFor()
  const facts = page.locator('.key-facts')
  expect(await facts.textContent()).toMatch(/Notepays latePlanstandard.*Ends\d+ \w+ \d{4}/)

  const rotate = async (overlap: string): Promise<string> => {
    await press(page, 'Rotate')
    await page.getByLabel('The old key works for').selectOption(overlap)
    await answer(page, 'Rotate')
    const secret = await secretOf(page)
    await answer(page, 'Done')
    return secret
  }
  const statusesOf = (...secrets: string[]) => Promise.all(secrets.map(statusOf))
  const second = await rotate('24h')
  expect(await statusesOf(first, second)).toEqual([200, 200])
  await page.locator('.key-facts', { hasText: 'Old keyworks until' }).waitFor()
  const third = await rotate('0s')
  expect(await statusesOf(first, second, third)).toEqual([403, 403, 200])

  const limits = page.getByRole('region', { name: 'Limits' })
  expect(await limits.textContent()).toContain('34,558 of 34,560 left')
  await press(page, 'Reset')
  await answer(page, 'Reset')
  await dialog(page).waitFor({ state: 'detached' })
  expect(await limits.textContent()).toContain('34,560 of 34,560 left')
  const hours = page.getByRole('region', { name: 'Requests by hour' })
  expect(await hours.textContent()).toMatch(/requests 3/)

  await press(page, 'Revoke')
  expect(await dialog(page).textContent()).toContain('cannot be undone')
  await answer(page, 'Cancel')
  expect([await statusOf(third), await stateOf(page)]).toEqual([200, 'active'])
  await press(page, 'Revoke')
  await answer(page, 'Revoke')
  await dialog(page).waitFor({ state: 'detached' })
  expect([await statusOf(third), await stateOf(page)]).toEqual([403, 'revoked'])
  await press(page, 'Remove')
  await answer(page, 'Remove')
  await heading(page, 'Keys').waitFor()
  await page.getByText(/^\d+ of \d+$/).waitFor()
  expect(await page.getByRole('link', { name: 'after' }).count()).toBe(0)
})

test('the plan of a key is changed', async () => {
  const { page } = await openKeys()
  await makeKey(page, 'moved')
  await openKey(page, 'moved')
  await press(page, 'Change')
  await page.getByLabel('Plan').selectOption('classic')
  await answer(page, 'Save')
  await page.locator('.key-facts', { hasText: 'Planclassic' }).waitFor()
})

describe('thousands of keys', () => {
  const keys = Array.from({ length: 5000 }, (_, n) => ({
    ...{ id: `k${n}`, prefix: 'pl_abc', label: `customer ${n}`, plan: 'standard', state: 'active' },
    ...{ created: '2026-01-01T00:00:00Z', expires: null, requests_today: n },
    ...{ daily_limit: 34_560, last_seen: null },
  }))

  test('stay quick: 200 rows are drawn, and more when asked for; search and sort work on all', async () => {
    const { page } = await view('Keys', {
      prepare: each => each.route('**/console/keys', route => route.fulfill({ json: { keys } })),
    })
    const rows = page.locator('.keys tbody tr')
    await rows.first().waitFor()
    expect(await rows.count()).toBe(200)
    expect(await rows.first().textContent()).toContain('customer 4999')
    await press(page, 'Show 200 more')
    expect(await rows.count()).toBe(400)
    await page.getByRole('button', { name: 'Today' }).click()
    expect(await page.getByRole('columnheader', { name: 'Today' }).getAttribute('aria-sort')).toBe(
      'ascending',
    )
    expect(await rows.first().textContent()).toContain('customer 0')
    await page.getByLabel('Search').fill('k4321')
    await page.getByText('1 of 5,000').waitFor()
    expect(await rows.count()).toBe(1)
    // A look at the key leaves the list as it was.
    await page.evaluate("location.hash = '#plans'")
    await heading(page, 'Plans').waitFor()
    await page.getByRole('link', { name: 'Keys' }).click()
    await page.getByText('1 of 5,000').waitFor()
  })
})
