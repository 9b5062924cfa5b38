/**
 * A paying customer, who asks the server under attack and another one on the same data at the same
 * time: what is slow on both is the machine. A script, see `runAsScript`; it ends after `seconds`.
 */
import { runAsScript } from '../../support/script.ts'

export type ProbeInput = { attacked: number; control: number; key: string; seconds: number }
/** How long an answer took on both servers, in milliseconds. */
export type Pair = [attackedMs: number, controlMs: number]
export type ProbeResult = { small: Pair[]; long: Pair[]; refused: number }

const PAUSE_MS = 20

async function run({ attacked, control, key, seconds }: ProbeInput): Promise<ProbeResult> {
  const result: ProbeResult = { small: [], long: [], refused: 0 }
  const endMs = performance.now() + seconds * 1000
  let sent = 0

  /** Asks for an answer that is not cached; gives the time to its first bytes. */
  async function timeOf(port: number, query: string): Promise<number> {
    const startMs = performance.now()
    const reading = new AbortController()
    const { signal } = reading
    const response = await fetch(`http://127.0.0.1:${port}/api?key=${key}&${query}`, { signal })
    await response.body?.getReader().read()
    const ms = performance.now() - startMs
    if (response.status !== 200) result.refused += 1
    reading.abort()
    return ms
  }
  async function both(query: string): Promise<Pair> {
    const timed = `${query}&time=${86_400 + sent++}`
    return await Promise.all([timeOf(attacked, timed), timeOf(control, timed)])
  }
  while (performance.now() < endMs) {
    result.small.push(await both('count=1'))
    result.long.push(await both('get=json'))
    await Bun.sleep(PAUSE_MS)
  }
  return result
}

if (import.meta.main) await runAsScript(run)
