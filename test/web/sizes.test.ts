/** How much script and style a browser loads, compressed. */
import { expect, test } from 'bun:test'
import { bundle } from '../../src/web/bundle.ts'
import { CONSOLE, DOCS } from '../../src/web/files.ts'

test.each([
  ['page', bundle('page/index.html'), 26_000],
  ['reference', DOCS, 2_000],
  ['console', CONSOLE, 25_000],
] as const)('the %s loads little script, and at most 8 KB of style', (_, files, scriptMax) => {
  const sizeOf = (ending: string): number =>
    files
      .filter(({ name }) => name.endsWith(ending))
      .reduce((sum, { gzip }) => sum + Buffer.from(gzip, 'base64').length, 0)
  expect(sizeOf('.js')).toBeWithin(1, scriptMax + 1)
  expect(sizeOf('.css')).toBeWithin(1000, 8001)
})
