/** The page for people (contract F6) in a real browser. */
import { afterAll, expect, test } from 'bun:test'
import { HAS_BROWSER, openPage, violationsOf } from '../support/browser.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

test.if(HAS_BROWSER)('shows itself', async () => {
  const server = await startChild(temporaryDirectory(), {}, ['--sample'])
  const { page, problems, close } = await openPage(`${server.url}/`)
  expect(await page.locator('main').count()).toBe(1)
  expect(problems).toEqual([])
  expect(await violationsOf(page)).toEqual([])
  await close()
})
