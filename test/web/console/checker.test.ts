/** The checker on the overview, in a real browser. */
import { afterAll, expect } from 'bun:test'
import { openCandidates } from '../../../src/sqlite/candidates.ts'
import { CHECKER_STATUS } from '../../support/checker-status.ts'
import { dataDirectory } from '../../support/fixtures.ts'
import { createClock } from '../../support/program.ts'
import { startConsole } from '../../support/service.ts'
import { cleanUp } from '../../support/temporary.ts'
import { faultsIn, type Look, openPage } from '../browser.ts'
import { inBrowser as test } from '../in-browser.ts'

afterAll(cleanUp)

const LOOKS: { readonly [name: string]: Look } = {
  light: { width: 1440, rules: 'all' },
  dark: { width: 1440, colorScheme: 'dark', rules: 'colours' },
  phone: { width: 390, rules: 'structure' },
}

test('the overview shows the checker and its failures, and nothing when none ran', async () => {
  const dir = dataDirectory()
  const server = await startConsole(dir, [], createClock().env)
  const { page } = await openPage(server.url, {})
  await page.locator('.cards').waitFor()
  expect(await page.getByRole('region', { name: 'Checker' }).count()).toBe(0)
  using checks = openCandidates(dir)
  void checks.status.write(CHECKER_STATUS)
  await page.reload()
  const card = page.getByRole('region', { name: 'Checker' })
  await card.waitFor()
  const text = (await card.textContent()) ?? ''
  expect(text).toContain('5,120 living, 700 down, 94,000 never alive')
  expect(text).toContain('97% of the living')
  expect(text).toContain('400,000 timeout, 150,000 refused, 3 forged')
  for (const [name, look] of Object.entries(LOOKS)) {
    expect([name, await faultsIn(page, look)]).toEqual([name, []])
  }
})
