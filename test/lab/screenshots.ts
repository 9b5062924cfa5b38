/**
 * `make screenshots`: pictures of the page for the README, in `data/screenshots/`. The list is
 * the sample with each proxy many times, under addresses for documentation and tests: as many as a
 * service has.
 */
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { T0 } from '../support/fixtures.ts'
import { succeed } from '../support/launch.ts'
import { program, ROOT } from '../support/program.ts'
import { between, createRandom } from '../support/random.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { HAS_BROWSER, openPage } from '../web/browser.ts'

const FOLDER = join(ROOT, 'data/screenshots')
const BYTES_MAX = 120_000
const NEWEST = Date.parse('2026-11-20T08:00:00Z')

/** The sample, each proxy 5 to 60 times, checked up to T0. */
function longList(): string {
  const random = createRandom(11)
  const rows = readFileSync(join(ROOT, 'data/sample.ndjson'), 'utf8').trim().split('\n')
  let address = 0
  return rows
    .flatMap(line => {
      const row = JSON.parse(line)
      const checked_at = new Date(Date.parse(row.checked_at) - NEWEST + T0).toISOString()
      return Array.from({ length: between(random, 5, 60) }, () => {
        address += 1
        const ip = `198.${18 + (address >> 16)}.${(address >> 8) & 255}.${address & 255}`
        return JSON.stringify({ ...row, ip: `${ip}:${row.ip.split(':')[1]}`, checked_at })
      })
    })
    .join('\n')
}

const CHOICE = '/#type=socks5&anon=elite&ping=700&country=de,nl&count=20&lang=en&get=json'

/** The pictures: the file, and how the browser is set. */
const PICTURES = [
  { name: 'light', at: '/#count=20&lang=en&get=json', colorScheme: 'light' },
  { name: 'dark', at: CHOICE, colorScheme: 'dark' },
] as const

if (!HAS_BROWSER) throw new Error('no browser: set PROXYLIST_BROWSER or install chromium')
const dir = temporaryDirectory()
const env = { PROXYLIST_DATA: dir }
await succeed([...program(), 'import', '-', '--format', 'ndjson', '--strict'], {
  env,
  stdin: Buffer.from(longList()),
})
const server = await startChild(dir)
mkdirSync(FOLDER, { recursive: true })
for (const { name, at, colorScheme } of PICTURES) {
  const { page, close } = await openPage(server.url + at, {
    ...{ colorScheme, viewport: { width: 1440, height: 1010 }, deviceScaleFactor: 1 },
    extraHTTPHeaders: { 'x-forwarded-for': `198.51.100.${name.length}` },
  })
  await page.locator('.option-count', { hasText: /\d/ }).first().waitFor()
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.locator('#answer .status').waitFor()
  // What fades or grows has done so.
  await page.evaluate('Promise.all(document.getAnimations().map(({ finished }) => finished))')
  const path = join(FOLDER, `${name}.webp`)
  // As WebP, which is a third of PNG.
  const browser = await page.context().newCDPSession(page)
  const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: 80 })
  await Bun.write(path, Buffer.from(data, 'base64'))
  const { size } = statSync(path)
  if (size > BYTES_MAX) throw new Error(`${path} has ${size} bytes, more than ${BYTES_MAX}`)
  process.stdout.write(`${path}: ${size} bytes\n`)
  await close()
}
await cleanUp()
