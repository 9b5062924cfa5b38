/**
 * A crowd of client addresses with the key `demo`, each with two requests that nobody asked before.
 * A script, see `runAsScript`; it ends after `seconds`.
 */
import { runAsScript } from '../../support/script.ts'

export type DemoInput = { port: number; addresses: number; seconds: number }
export type DemoResult = { answered: number; refused: number; failed: number }

const REQUESTS_EACH = 2

/** The `n`-th address of a documentation network, or of one made up when those are used up. */
const addressOf = (n: number): string => `198.${51 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`

async function run({ port, addresses, seconds }: DemoInput): Promise<DemoResult> {
  const result: DemoResult = { answered: 0, refused: 0, failed: 0 }
  const endMs = performance.now() + seconds * 1000
  let sent = 0
  async function ask(): Promise<void> {
    while (performance.now() < endMs) {
      const n = sent++
      const from = addressOf(Math.floor(n / REQUESTS_EACH))
      try {
        const url = `http://127.0.0.1:${port}/api?key=demo&time=${86_400 + n}`
        const left = Math.max(1, endMs - performance.now())
        const response = await fetch(url, {
          headers: { 'x-forwarded-for': from },
          signal: AbortSignal.timeout(left),
        })
        await response.bytes()
        if (response.status === 200) result.answered += 1
        else result.refused += 1
      } catch {
        result.failed += 1
      }
    }
  }
  await Promise.all(Array.from({ length: addresses * REQUESTS_EACH }, ask))
  return result
}

if (import.meta.main) await runAsScript(run)
