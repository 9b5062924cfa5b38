/** Owns the customers of a run: their keys and plans, and the lists of requests they send. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openRegistry } from '../../../src/app.ts'
import { TYPICAL, UNBOUNDED } from './queries.ts'

/** A key whose plan admits one request an hour: all others of it are refused. */
export const SPENT_KEY = `pl_${'S'.repeat(32)}`
const BENCH_BURST = { requests: 5, seconds: 1 }
const SPENT_BURST = { requests: 1, seconds: 3600 }
/** A daily limit that is counted, and never reached. */
const PLENTY = 1_000_000_000

export const keyOf = (n: number): string => `pl_${String(n).padStart(32, '0')}`

/** Adds the keys to the registry in `data`, in one transaction. */
export function addKeys(data: string, keys: number): void {
  const registry = openRegistry(data)
  const common = { subnets: null, clients: null, count: null }
  const nowMs = Date.now()
  const add = (key: string, plan: string): void => {
    registry.keys.add({ key, label: 'bench', plan, expiresAt: null }, nowMs)
  }
  try {
    registry.usage.transaction(() => {
      registry.plans.set({ name: 'bench', burst: BENCH_BURST, daily: PLENTY, ...common })
      registry.plans.set({ name: 'spent', burst: SPENT_BURST, daily: PLENTY, ...common })
      add(SPENT_KEY, 'spent')
      for (let n = 0; n < keys; n += 1) add(keyOf(n), 'bench')
    })
  } finally {
    registry.close()
  }
}

export type Targets = { repeated: string; distinct: string; refused: string; whole: string }

/** Writes files of request targets, one a line: each key with a filter of its own. */
export function writeTargets(dir: string, keys: number): Targets {
  const write = (name: string, targets: readonly string[]): string => {
    const file = join(dir, `${name}.targets`)
    writeFileSync(file, `${targets.join('\n')}\n`)
    return file
  }
  const everyKey = (queries: readonly string[]): string[] =>
    Array.from({ length: keys }, (_, n) => `/api?key=${keyOf(n)}&${queries[n % queries.length]}`)
  // The same rows for each `time`, and yet another filter: no download finds the last one's answer.
  const wholeLists = Array.from({ length: 1000 }, (_, n) => `time=${86_400 + n}&get=json`)
  return {
    repeated: write('repeated', everyKey(TYPICAL)),
    distinct: write('distinct', everyKey(UNBOUNDED)),
    refused: write('refused', [`/api?key=${SPENT_KEY}&${TYPICAL[0]}`]),
    whole: write('whole', everyKey(wholeLists)),
  }
}
