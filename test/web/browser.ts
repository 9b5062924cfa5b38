/**
 * The browser of tests: a Chromium that is `PROXYLIST_BROWSER`, the one of the npm package, or one
 * on PATH, and pages of it that note whatever goes wrong. Without one, tests of pages are skipped, but
 * fail where `CI` is `true`.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { onCleanUp } from '../support/temporary.ts'

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
]

const PACKAGE = join(import.meta.dir, '../../node_modules/@sparticuz/chromium/bin')

/**
 * The headless shell of the npm package, unpacked beside its archive; `null` where it does not start: it
 * is for Linux on x64, and needs libraries. It takes a third of the CPU time of a whole Chromium.
 */
function packagedBrowser(): string | null {
  const path = join(PACKAGE, 'chromium')
  try {
    if (!existsSync(path)) {
      const part = `${path}-${process.pid}` // another worker may be unpacking it, too
      writeFileSync(part, brotliDecompressSync(readFileSync(`${path}.br`)), { mode: 0o755 })
      renameSync(part, path)
    }
    return Bun.spawnSync([path, '--version']).success ? path : null
  } catch {
    return null
  }
}

/** The executable of a browser; `null` when there is none. */
function findBrowser(): string | null {
  const given = process.env.PROXYLIST_BROWSER || packagedBrowser()
  if (given) return given
  const installed = ['chromium', 'google-chrome', 'chromium-browser'].map(name => Bun.which(name))
  return installed.find(path => path !== null) ?? null
}

const FOUND = findBrowser()
if (FOUND === null) {
  const why = 'no browser: set PROXYLIST_BROWSER or install chromium'
  if (process.env.CI === 'true') throw new Error(why)
  process.stderr.write(`tests of pages are skipped: ${why}\n`)
}

/** Whether there is a browser. */
export const HAS_BROWSER = FOUND !== null

/** How long a page is waited for: a busy machine is slow, not wrong. */
const WAIT_MS = 120_000

let launched: Promise<Browser> | null = null

/** The one browser of this process, closed when its tests are over. */
async function browser(): Promise<Browser> {
  if (FOUND === null) throw new Error('there is no browser')
  launched ??= chromium.launch({ executablePath: FOUND, args: FLAGS }).then(started => {
    onCleanUp(async () => {
      launched = null
      await started.close()
    })
    return started
  })
  return launched
}

/** A page, and the URLs that it asked for. */
export type Opened = { page: Page; requests: string[]; close(): Promise<void> }

/** Ends all pages that are open; gives what went wrong on each since it was opened. */
export async function closePages(): Promise<string[]> {
  const closed = [...open]
  open.clear()
  await Promise.all(closed.map(({ close }) => close()))
  return closed.flatMap(({ problems }) => problems)
}
const open = new Set<Opened & { problems: string[] }>()

/** What a page asks for by script: the browser reports a refusal, which is no fault of the page. */
const ASKED = /^https?:[^?]*\/(?:api|key|stats|openapi\.json|console\/[^?]*)(?:\?|$)/

type Setting = BrowserContextOptions & {
  /** What is done before the page is loaded. */
  prepare?: (page: Page) => Promise<unknown>
}

/**
 * Opens a URL in a fresh profile, in which nothing moves: transitions are half of what a browser computes
 * after a click. Problems are errors of scripts, messages of the console, and files that
 * do not load.
 */
export async function openPage(url: string, setting: Setting = {}): Promise<Opened> {
  const { prepare, ...options } = setting
  const still = { locale: 'en-US', reducedMotion: 'reduce' } as const
  const context = await (await browser()).newContext({ ...still, ...options })
  context.setDefaultTimeout(WAIT_MS)
  const page = await context.newPage()
  const problems: string[] = []
  const requests: string[] = []
  page.on('pageerror', error => problems.push(`error: ${error.message}`))
  page.on('console', message => {
    const isRefusal =
      message.text().startsWith('Failed to load resource') && ASKED.test(message.location().url)
    if (/error|warning/.test(message.type()) && !isRefusal) problems.push(message.text())
  })
  page.on('request', request => requests.push(request.url()))
  const opened = { page, problems, requests, close: () => context.close() }
  open.add(opened)
  await prepare?.(page)
  await page.goto(url)
  return opened
}

const COLOURS = ['color-contrast', 'link-in-text-block']
/**
 * What axe looks for: `colours` differ by theme, `structure` (all the rest) by language and width. Each takes about
 * a second of a large page.
 */
const RULES = {
  all: {},
  colours: { runOnly: { type: 'rule', values: COLOURS } },
  structure: { rules: Object.fromEntries(COLOURS.map(rule => [rule, { enabled: false }])) },
}
export type Rules = keyof typeof RULES

/** The violations that axe finds on a page, as sentences. */
export async function violationsOf(page: Page, rules: Rules = 'all'): Promise<string[]> {
  // Evaluated by the debugger, which Content-Security-Policy does not concern.
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axe.source)
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
  const options = { runOnly: tags, resultTypes: ['violations'], selectors: false, ...RULES[rules] }
  const found: { id: string; help: string; nodes: string[] }[] = await page.evaluate(
    `axe.run(${JSON.stringify(options)}).then(({ violations }) =>
       violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(n => n.html.slice(0, 200) + ' ' + n.failureSummary) })))`,
  )
  return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.join(' | ')}`)
}

type Media = Parameters<Page['emulateMedia']>[0] & object

/**
 * A look of a page: the width of its window, its colours, and the rules of axe that no look before it decides.
 */
export type Look = { width: number; rules: Rules | null } & Pick<
  Media,
  'colorScheme' | 'forcedColors'
>

/** What is wrong with an open page in a look: violations, and by how much it is wider than its window. */
export async function faultsIn(page: Page, { width, rules, ...media }: Look): Promise<string[]> {
  await page.setViewportSize({ width, height: width < 600 ? 844 : 900 })
  await page.emulateMedia({ colorScheme: 'light', forcedColors: 'none', ...media })
  const beyond = Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'))
  return [
    ...(beyond === 0 ? [] : [`${beyond} pixels wider than its window`]),
    ...(rules === null ? [] : await violationsOf(page, rules)),
  ]
}
