/** Keys of the console (contract G3) in a real browser, against the real server. */
import { afterAll, describe, expect } from 'bun:test'
import type { Page } from 'playwright-core'
import { hashKey } from '../../../src/access/key.ts'
import { openRegistry } from '../../../src/sqlite/stores.ts'
import { startConsole } from '../../support/service.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'
import { answer, dialog, heading, startSample, viewOf } from '../console-page.ts'
import { inBrowser as test } from '../in-browser.ts'

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

const secretOf = async (page: Page): Promise<string> =>
  (await dialog(page).locator('pre').first().textContent()) ?? ''

/** Makes a key in the dialog; returns the secret that it shows. */
async function makeKey(page: Page, label: string): Promise<string> {
  await press(page, 'New key')
  await page.getByLabel('Label').fill(label)
  await answer(page, 'Create the key')
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
    await answer(page, 'Create the key')
    const secret = await secretOf(page)
    expect(secret).toMatch(/^pl_\w{32}$/)
    expect(await dialog(page).textContent()).toContain('cannot show the key again')
    await answer(page, 'Copy the key')
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret)
    await answer(page, 'Copy the message')
    await page.getByRole('button', { name: 'Copied' }).nth(1).waitFor()
    const message = String(await page.evaluate('navigator.clipboard.readText()'))
    expect(message.split('\n')).toEqual([
      `Your key: ${secret}`,
      `Try it: curl -H 'Authorization: Bearer ${secret}' 'https://ADDRESS/api?count=10'`,
    ])
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

  test('that is temporary ends by itself, and a wrong one gets the message of the server', async () => {
    const { page, statusOf } = await openKeys()
    await press(page, 'New key')
    await page.getByLabel('Temporary').check()
    await page.getByLabel('Valid for').fill('2h')
    await answer(page, 'Create the key')
    const secret = await secretOf(page)
    expect(secret).toMatch(/^temp_/)
    expect(await statusOf(secret)).toBe(200)
    await answer(page, 'Done')
    const label = '<img src=x onerror=alert(1)>&amp;'
    await press(page, 'New key')
    await page.getByLabel('Label').fill(label)
    await page.getByLabel('Expires').fill('soon')
    await answer(page, 'Create the key')
    await dialog(page).getByText('expires must be').waitFor()
    expect(await page.getByLabel('Label').inputValue()).toBe(label)
    await page.getByLabel('Expires').fill('')
    await answer(page, 'Create the key')
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
  await dialog(page).getByText('expires must lie in the future').waitFor()
  await page.getByLabel('Expires').fill('30d')
  await page.getByLabel('Note').fill('pays late')
  await page.getByLabel('Only from').fill('127.0.0.0/8')
  await answer(page, 'Save')
  await page.getByRole('heading', { level: 2, name: 'after' }).waitFor()
  const facts = page.locator('.key-facts')
  expect(await facts.textContent()).toMatch(
    /Notepays lateOnly from127\.0\.0\.0\/8Planstandard.*Ends\d+ \w+ \d{4}/,
  )

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
  await page.locator('.key-facts', { hasText: 'Old key works until' }).waitFor()
  const third = await rotate('0s')
  expect(await statusesOf(first, second, third)).toEqual([403, 403, 200])

  const limits = page.getByRole('region', { name: 'Limits' })
  await limits.filter({ hasText: '34,558 left of 34,560' }).waitFor()
  await press(page, 'Reset limits')
  await answer(page, 'Reset limits')
  await dialog(page).waitFor({ state: 'detached' })
  expect(await limits.textContent()).toContain('34,560 left of 34,560')
  const today = page.getByRole('region', { name: 'Today' })
  expect(await today.textContent()).toMatch(/requests 3/)

  await press(page, 'Revoke')
  expect(await dialog(page).textContent()).toMatch(/Revoke key after \(\w{8}\).*cannot be undone/)
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

describe('the list of keys', () => {
  test('of thousands is quick, because the server sorts, searches and pages', async () => {
    const dir = temporaryDirectory()
    {
      using registry = openRegistry(dir)
      const keys = Array.from({ length: 5000 }, (_, n) => ({
        ...{ id: `k${n}`, hash: hashKey(`${n}`), prefix: 'pl_abc', label: `customer ${n}` },
        ...{ note: '', from: '', plan: 'standard', createdAt: n, expiresAt: null, revokedAt: null },
        oldSecrets: [],
      }))
      registry.keys.load(keys, false)
    }
    const { page } = await viewOf(() => startConsole(dir, ['--sample']))('Keys')
    const rows = page.locator('.keys tbody tr')
    await page.getByText('1–50 of 5,000').waitFor()
    expect(await rows.count()).toBe(50)
    await page.getByRole('button', { name: 'Key', exact: true }).click()
    await rows.first().getByRole('link', { name: 'customer 0' }).waitFor()
    const head = page.getByRole('columnheader', { name: 'Key' })
    expect(await head.getAttribute('aria-sort')).toBe('ascending')
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('51–100 of 5,000').waitFor()
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
