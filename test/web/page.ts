/** The page as tests open it: on a service of its own, with statistics that a test gives. */
import type { Page, Route } from 'playwright-core'
import { openPage } from './browser.ts'

/** An answer that replaces the answer of the service at a path. */
type Stub = { status?: number; body: unknown; headers?: { [name: string]: string } }

type Setting = Omit<Parameters<typeof openPage>[1] & object, 'extraHTTPHeaders'> & {
  /** After the origin: `/#type=socks5`. */
  at?: string
  /** Answers by path: `/stats`, `/key`. */
  stubs?: { readonly [path: string]: Stub }
}

export const fulfill = (route: Route, { status = 200, body, headers = {} }: Stub): Promise<void> =>
  route.fulfill({ status, contentType: 'application/json', headers, body: JSON.stringify(body) })

let clients = 0

/**
 * Opens the page on one service for all tests of a file, started by the first, with these answers unless a
 * test gives others; each time as a client with an address of its own, so that limits of `demo` are its own.
 */
export function pageOf(start: () => Promise<{ url: string }>, usual: Setting['stubs'] = {}) {
  let started: ReturnType<typeof start> | null = null
  return async ({ at = '/', stubs, prepare, ...options }: Setting = {}) => {
    started ??= start()
    const { url: origin } = await started
    clients += 1
    const opened = await openPage(origin + at, {
      ...options,
      extraHTTPHeaders: { 'x-forwarded-for': `198.51.100.${clients}` },
      async prepare(page) {
        for (const [path, stub] of Object.entries({ ...usual, ...stubs })) {
          const isAt = (url: URL) => url.origin === origin && url.pathname === path
          await page.route(isAt, route => fulfill(route, stub))
        }
        await prepare?.(page)
      },
    })
    return { ...opened, origin }
  }
}

const textOf = async (page: Page, selector: string): Promise<string> =>
  ((await page.locator(selector).textContent()) ?? '').replace(/\s+/g, ' ')

/** The request as the page shows it, from its path on. */
export const requestOn = async (page: Page): Promise<string> =>
  (await textOf(page, '#request-url')).replace(/^https?:\/\/[^/]+/, '')
