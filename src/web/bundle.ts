/** Bundles the pages, as a macro: at build time, or when `bun run` loads the module that calls it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** 4 % smaller than the best of zlib. It is slow, which does not matter at build time. */
const DENSE = { level: 12, library: 'libdeflate' } as const

/**
 * The files of a page: its HTML as `index.html`, and the files that it loads, named by a hash. Only compressed:
 * the program would hold plain text twice, because its bytecode has it, too.
 */
export function bundle(page: string): { name: string; gzip: string; zstd: string }[] {
  const folder = mkdtempSync(join(tmpdir(), 'proxylist-page-'))
  const { exitCode, stderr } = Bun.spawnSync([
    ...[process.execPath, 'build', join(import.meta.dir, page), '--minify', '--target=browser'],
    ...['--public-path=/-/', '--define=process.env.NODE_ENV="production"', `--outdir=${folder}`],
  ])
  if (exitCode !== 0) throw new Error(`${page} cannot be bundled: ${stderr.toString()}`)
  const files = readdirSync(folder).map(name => {
    const text = readFileSync(join(folder, name))
    return {
      name,
      gzip: Buffer.from(Bun.gzipSync(text, DENSE)).toString('base64'),
      zstd: Bun.zstdCompressSync(text, { level: 19 }).toString('base64'),
    }
  })
  rmSync(folder, { recursive: true })
  return files
}
