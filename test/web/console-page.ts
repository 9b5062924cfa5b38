/** The console as tests open it: a server with an admin listener, and its URL with a token. */
import type { Page } from 'playwright-core'
import type { Overview, State } from '../../src/admin/api-types.ts'
import { startConsole } from '../support/service.ts'
import { temporaryDirectory } from '../support/temporary.ts'
import { openPage } from './browser.ts'

/** The console of a server with the sample list. */
export const startSample = () => startConsole(temporaryDirectory(), ['--sample'])

type Setting = Parameters<typeof openPage>[1] & {
  /** A fragment instead of the token's. */
  at?: string
}

/**
 * Opens a view of the console of one server for all tests of a file that do not mind each other, started
 * by the first.
 */
export function viewOf(start: typeof startSample) {
  let started: ReturnType<typeof start> | null = null
  return async (view = 'Overview', { at, ...setting }: Setting = {}) => {
    started ??= start()
    const server = await started
    const opened = await openPage(at === undefined ? server.url : `${server.admin}/${at}`, setting)
    if (view !== 'Overview') await openView(opened.page, view)
    return { ...server, ...opened }
  }
}

export const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name })

/** Opens a view by its link. */
export async function openView(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name, exact: true }).click()
  await heading(page, name).waitFor()
}

export const dialog = (page: Page) => page.getByRole('dialog')
/** Presses a button of the dialog. */
export const answer = (page: Page, name: string): Promise<void> =>
  dialog(page).getByRole('button', { name, exact: true }).click()

/** What the server says of itself, changed. */
export const withState = (page: Page, change: Partial<State>): Promise<unknown> =>
  page.route('**/console/state', async route => {
    const state = (await (await route.fetch()).json()) as State
    await route.fulfill({ json: { ...state, ...change } })
  })

/** What the server answers, with a history of a day (or of its last `points`) that has a gap of two hours. */
export async function withHistory(
  page: Page,
  change: Partial<Overview> = {},
  points = 288,
): Promise<void> {
  await page.route('**/console/overview*', async route => {
    const overview = (await (await route.fetch()).json()) as Overview
    const end = Math.floor(Date.now() / 300_000) * 300
    const at = Array.from({ length: points }, (_, n) => end - (points - 1 - n) * 300)
    const series = (n: number) => at.map((_, i) => (i >= 120 && i < 144 ? null : n + (i % 7)))
    const history = {
      ...{
        range: '24h',
        every_seconds: 300,
        at,
        ok: series(300),
        not_found: series(50),
        rejected: series(5),
      },
      ...{ refused: series(20), failed: series(0), p50_ms: series(1), p99_ms: series(9) },
      ...{ rows: series(18_000), fresh: series(9000) },
    }
    await route.fulfill({ json: { ...overview, ...change, history } })
  })
}
