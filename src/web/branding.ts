/** Puts the settings of the operator (contract F6) into the HTML of the page. */
import type { Settings } from '../config/settings.ts'

type PageSettings = Settings<'siteName' | 'contact' | 'keyUrl' | 'providerService'>
export type Branding = Omit<PageSettings, 'providerService'>

/** Adds title and `meta` elements to the HTML file of the page. The script reads them. */
export function withBranding<F extends { name: string; gzip: string; zstd: string }>(
  file: F,
  { siteName, contact, keyUrl, providerService }: PageSettings,
): F {
  if (!file.name.endsWith('.html')) return file
  const values = { siteName, contact, keyUrl, providerService }
  const metas = Object.entries(values).map(([name, value = '']) =>
    value === '' ? '' : `<meta name="${name}" content="${Bun.escapeHTML(value)}">`,
  )
  const title = `<title>${Bun.escapeHTML(siteName)}</title>`
  const text = Bun.zstdDecompressSync(Buffer.from(file.zstd, 'base64'))
    .toString()
    .replace(/<title>.*?<\/title>/, () => title + metas.join(''))
  return {
    ...file,
    gzip: Buffer.from(Bun.gzipSync(text)).toString('base64'),
    zstd: Bun.zstdCompressSync(text).toString('base64'),
  }
}
