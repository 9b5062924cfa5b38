/** Encodings of bodies: which one a client accepts (RFC 9110, 12.5.3), and compressing. */
import { promisify } from 'node:util'

export type Encoding = 'zstd' | 'gzip'

/** Bodies below this many bytes are sent as they are (contract A8). */
export const COMPRESS_MIN_BYTES = 1024

/** In order of preference, for equal weights. */
const ENCODINGS: readonly Encoding[] = ['zstd', 'gzip']

const COMPRESS: { [E in Encoding]: (body: string | Uint8Array) => Promise<Uint8Array> } = {
  zstd: body => Bun.zstdCompress(body),
  gzip: async body => {
    const { gzip } = await import('node:zlib') // which takes milliseconds that no command needs
    return promisify(gzip)(body)
  },
}

export const compress = (body: string | Uint8Array, encoding: Encoding): Promise<Uint8Array> =>
  COMPRESS[encoding](body)

/**
 * The best encoding that an Accept-Encoding header allows, or `null` for none. zstd only where it is
 * named: many clients that send `*` cannot read it (contract A8).
 */
export function chooseEncoding(accept: string | null): Encoding | null {
  if (accept === null) return null
  const weights = new Map<string, number>()
  for (const item of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim())
    const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    weights.set(name === 'x-gzip' ? 'gzip' : name, weight === undefined ? 1 : Number(weight) || 0)
  }
  const weightOf = (name: Encoding): number =>
    weights.get(name) ?? (name === 'gzip' ? weights.get('*') : undefined) ?? 0
  const best = ENCODINGS.reduce((a, b) => (weightOf(b) > weightOf(a) ? b : a))
  const identity = weights.get('identity') ?? 0
  return weightOf(best) > 0 && weightOf(best) >= identity ? best : null
}
