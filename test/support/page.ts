/** The page as tests open it: on a service of its own, with statistics that a test gives. */
import type { BrowserContextOptions, Page, Route } from 'playwright-core'
import { type Opened, openPage } from './browser.ts'

/** What the service says at a path, in place of what it would. */
type Stub = { status?: number; body: unknown; headers?: { [name: string]: string } }

type Setting = BrowserContextOptions & {
  /** After the origin: `/#type=socks5`. */
  at?: string
  /** Answers by path: `/stats`, `/key`. */
  stubs?: { readonly [path: string]: Stub }
}

export const fulfill = (route: Route, { status = 200, body, headers = {} }: Stub): Promise<void> =>
  route.fulfill({ status, contentType: 'application/json', headers, body: JSON.stringify(body) })

let clients = 0

/** Opens the page as a client with an address of its own, so that limits of `demo` are its own. */
export async function openAt(
  origin: string,
  { at = '/', stubs = {}, ...options }: Setting,
): Promise<Opened> {
  clients += 1
  const opened = await openPage('about:blank', {
    ...options,
    extraHTTPHeaders: { 'x-forwarded-for': `198.51.100.${clients}` },
  })
  for (const [path, stub] of Object.entries(stubs)) {
    await opened.page.route(`${origin}${path}`, route => fulfill(route, stub))
  }
  await opened.page.goto(origin + at)
  return opened
}

const textOf = async (page: Page, selector: string): Promise<string> =>
  ((await page.locator(selector).textContent()) ?? '').replace(/\s+/g, ' ')

/** The number of proxies that match, as the page shows it once it has statistics. */
export const countOn = (page: Page): Promise<string> => textOf(page, '.count p:not(:has(.title))')

/** The request as the page shows it, from its path on. */
export const requestOn = async (page: Page): Promise<string> =>
  (await textOf(page, '#request-url')).replace(/^https?:\/\/[^/]+/, '')

/** What a browser says by itself of answers that are errors; they are no fault of the page. */
export const ownProblems = (problems: readonly string[]): string[] =>
  problems.filter(text => !text.startsWith('Failed to load resource: the server responded'))
