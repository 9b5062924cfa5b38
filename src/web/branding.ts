/** What an operator says of the service on its pages (contract F6), put into the HTML of the page. */
import type { Settings } from '../config/settings.ts'

type Said = Settings<'siteName' | 'contact' | 'keyUrl' | 'providerService'>
export type Branding = Omit<Said, 'providerService'>

/** A file of the page; its HTML has the name as its title, and what is set as `meta`, for the script. */
export function withBranding<F extends { name: string; gzip: string; zstd: string }>(
  file: F,
  { siteName, contact, keyUrl, providerService }: Said,
): F {
  if (!file.name.endsWith('.html')) return file
  const said = { siteName, contact, keyUrl, providerService }
  const metas = Object.entries(said).map(([name, value = '']) =>
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
