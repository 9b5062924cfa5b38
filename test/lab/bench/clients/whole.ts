/**
 * A client that downloads the full list a few times, or repeatedly for some seconds.
 * A script, see `runAsScript`.
 */
import { readFileSync } from 'node:fs'
import { runAsScript } from '../../support/script.ts'

export type WholeInput = {
  port: number
  targetsFile: string
  /** Downloads until one of these is reached. */
  downloads: number
  seconds: number
}
export type WholeResult = {
  /** Bytes a second of each complete download. */
  bytesPerSecond: number[]
  /** Size of the full list; 0 without a complete download. */
  bytes: number
  /** Downloads that were truncated, or had another status. */
  errors: number
  /** All bytes, also of the download that is truncated at the end, and their time. */
  totalBytes: number
  seconds: number
}

const CLOSING_BRACKET = 0x5d
/** A server that fails at once is not asked in a tight loop. */
const AFTER_ERROR_MS = 100

/** One download; `count` is called with the size of every chunk. Gives its bytes, 0 on failure. */
async function download(url: string, signal: AbortSignal, count: (bytes: number) => void) {
  let bytes = 0
  let last = 0
  const response = await fetch(url, { headers: { 'accept-encoding': 'identity' }, signal })
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    count(chunk.length)
    last = chunk.at(-1) ?? last
  }
  return response.status === 200 && last === CLOSING_BRACKET ? bytes : 0
}

async function run({ port, targetsFile, downloads, seconds }: WholeInput): Promise<WholeResult> {
  const targets = readFileSync(targetsFile, 'utf8').trimEnd().split('\n')
  const result: WholeResult = {
    bytesPerSecond: [],
    bytes: 0,
    errors: 0,
    totalBytes: 0,
    seconds: 0,
  }
  const signal = AbortSignal.timeout(seconds * 1000)
  const count = (bytes: number): void => {
    result.totalBytes += bytes
  }
  const startMs = performance.now()
  for (let n = 0; n < downloads && !signal.aborted; n += 1) {
    const url = `http://127.0.0.1:${port}${targets[n % targets.length]}`
    const beganMs = performance.now()
    const bytes = await download(url, signal, count).catch(() => 0)
    if (bytes > 0) {
      result.bytes = bytes
      result.bytesPerSecond.push((bytes * 1000) / (performance.now() - beganMs))
    } else if (!signal.aborted) {
      result.errors += 1
      await Bun.sleep(AFTER_ERROR_MS)
    }
  }
  result.seconds = (performance.now() - startMs) / 1000
  return result
}

if (import.meta.main) await runAsScript(run)
