/**
 * The checker: a day of proxies that come and go, on the clock of a test, and ten million candidates, of which the
 * memory of a process must not notice much.
 */

import { afterFailure, newCandidate } from '../../../src/checker/candidate.ts'
import type { Candidate } from '../../../src/checker/ports.ts'
import { SECOND_MS } from '../../../src/lib/time.ts'
import { toAddress } from '../../../src/proxies/row.ts'
import { openCandidates } from '../../../src/sqlite/candidates.ts'
import { simulate } from '../../support/checker-simulation.ts'
import { T0 } from '../../support/fixtures.ts'
import { randomOf } from '../../support/random.ts'
import { percentile } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

/** Of 10,000 candidates at 5/s as many are fresh as of 100,000 at 50/s. */
const CANDIDATES = 10_000
const PER_SECOND = 5
const HOURS = 24
const COVERAGE_MIN = 0.88

async function day(run: Run): Promise<Finding> {
  const candidates = Math.max(500, scaled(CANDIDATES, run))
  const perSecond = (PER_SECOND * candidates) / CANDIDATES
  const { coverage } = await simulate({
    ...{ candidates, perSecond, hours: HOURS, seed: run.seed },
    onHour: (hour, share) => run.say(`hour ${hour}: ${(100 * share).toFixed(1)} % so far`),
  })
  return {
    promise: `of ${candidates} candidates at ${perSecond}/s, those that are up are fresh for ${HOURS} h`,
    figure: `${(100 * coverage).toFixed(1)} %`,
    bound: `≥ ${100 * COVERAGE_MIN} %`,
    holds: coverage >= COVERAGE_MIN,
  }
}

const MANY = 10_000_000
/** So many are added at once: more cost less time each, and more memory. */
const ADDED = 2 ** 16
/** So many are found, checked and stored, again and again; a checker does that once a second. */
const BATCH = 500
const BATCHES = 200
const PAUSE_MS = 100
const MEMORY_MB_MAX = 400
const FIND_MS_MAX = 50
const SAVE_MS_MAX = 250

async function many(run: Run): Promise<Finding[]> {
  const count = scaled(MANY, run)
  const random = randomOf(run.seed, 'checker')
  const before = process.memoryUsage.rss()
  using checks = openCandidates(run.directory('checks'))
  const anybody = (): Candidate => {
    const address = toAddress(Math.floor(random() * 2 ** 32) * 65536 + 8080)
    return newCandidate({ ...address, types: 0, works: null, checkedAt: 0 }, T0, false)
  }
  for (let left = count; left > 0; left -= ADDED) {
    checks.add(Array.from({ length: Math.min(left, ADDED) }, anybody))
    if (left % (10 * ADDED) < ADDED) run.say(`${left} candidates are to be added`)
  }
  const attempts = [1, 2].map(() => {
    return { type: 'http', purpose: 'judge', result: 'timeout', ms: 5_000, detail: '' } as const
  })
  const [dueMs, saveMs]: number[][] = [[], []]
  for (let n = 0; n < BATCHES; n += 1) {
    const nowMs = T0 + n * SECOND_MS
    const startMs = performance.now()
    const ids: number[] = []
    checks.due('raw', nowMs, id => ids.push(id) < BATCH)
    const found = ids.flatMap(id => checks.find(id) ?? [])
    const foundMs = performance.now()
    const ended = { nowMs, at: nowMs, attempts }
    const checked = found.map(each => afterFailure(each, 'timeout', ended, random()))
    checks.save({
      ...{ checked, forgotten: [], postponed: [] },
      ledger: { day: 0, speedBytes: 0 },
    })
    dueMs?.push(foundMs - startMs)
    saveMs?.push(performance.now() - foundMs)
    await Bun.sleep(PAUSE_MS) // in which a worker copies what was stored
  }
  const usedMb = (process.memoryUsage.rss() - before) / 2 ** 20
  const quick = (promise: string, times: number[] = [], most: number): Finding => {
    const [half = 0, nearly = 0] = [0.5, 0.99].map(share => percentile(times, share))
    return {
      promise: `of ${count} candidates, ${BATCH} are ${promise}`,
      figure: `p50 ${half.toFixed(1)} ms, p99 ${nearly.toFixed(1)} ms`,
      bound: `p50 ≤ ${most} ms`,
      holds: half <= most,
    }
  }
  return [
    {
      promise: `${count} candidates are on the disk, not in memory`,
      figure: `${usedMb.toFixed(0)} MB more`,
      bound: `≤ ${MEMORY_MB_MAX} MB`,
      holds: usedMb <= MEMORY_MB_MAX,
    },
    quick('found', dueMs, FIND_MS_MAX),
    quick('stored', saveMs, SAVE_MS_MAX),
  ]
}

export const checker: Part = async run => [await day(run), ...(await many(run))]
