/** The customers of a run: their keys and plans, and the lists of requests they send. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys, UNLIMITED } from '../../support/fixtures.ts'
import { asJson, TYPICAL, UNBOUNDED } from './queries.ts'

/** A key whose plan admits one request an hour: its other requests are refused. */
export const SPENT_KEY = `pl_${'S'.repeat(32)}`
const BENCH_BURST = { requests: 5, seconds: 1 }
const SPENT_BURST = { requests: 1, seconds: 3600 }
/** A daily limit that is counted and never reached. */
const PLENTY = 1_000_000_000

export const keyOf = (n: number): string => `pl_${String(n).padStart(32, '0')}`

const PLANS = {
  bench: { ...UNLIMITED, burst: BENCH_BURST, daily: PLENTY },
  spent: { ...UNLIMITED, burst: SPENT_BURST, daily: PLENTY },
}

/** The plans, and so many keys beside the spent one. */
export const customers = (keys: number) => ({
  plans: PLANS,
  keys: [
    { key: SPENT_KEY, plan: 'spent' },
    ...Array.from({ length: keys }, (_, n) => ({ key: keyOf(n), plan: 'bench' })),
  ],
})

/** Adds the plans and keys to a data directory. */
export function addCustomers(data: string, keys: number): void {
  const all = customers(keys)
  addKeys(data, all.plans, all.keys)
}

export type Targets = ReturnType<typeof writeTargets>

/** Writes files of request targets, one a line; the keys go through the filters in turn. */
export function writeTargets(dir: string, keys: number) {
  const write = (name: string, targets: readonly string[]): string => {
    const file = join(dir, `${name}.targets`)
    writeFileSync(file, `${targets.join('\n')}\n`)
    return file
  }
  const everyKey = (queries: readonly string[]): string[] =>
    Array.from({ length: keys }, (_, n) => `/api?key=${keyOf(n)}&${queries[n % queries.length]}`)
  return {
    repeated: write('repeated', everyKey(TYPICAL)),
    distinct: write('distinct', everyKey(UNBOUNDED)),
    distinctJson: write('distinct-json', everyKey(UNBOUNDED.map(asJson))),
    refused: write('refused', [`/api?key=${SPENT_KEY}&${TYPICAL[0]}`]),
  }
}
