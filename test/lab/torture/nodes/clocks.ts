/** The clocks that a run moves: that of limits, which is the database's, and that of the nodes. */
import { renameSync, writeFileSync } from 'node:fs'
import { onCleanUp } from '../../../support/temporary.ts'
import type { SharedDatabase } from '../../support/shared-database.ts'

/** How far the clock of limits was ahead, and between which real instants it was set so. */
export type Step = { offsetMs: number; fromMs: number; byMs: number }

/** The clock of limits of a database, set by hand. */
export function createLimitsClock({ run }: SharedDatabase) {
  const steps: Step[] = [{ offsetMs: 0, fromMs: 0, byMs: 0 }]
  return {
    steps,
    /** Sets how far it is ahead of the real clock. */
    async set(offsetMs: number): Promise<void> {
      const fromMs = Date.now()
      await run(`update torture.clock set ms = ${offsetMs}`)
      steps.push({ offsetMs, fromMs, byMs: Date.now() })
    },
  }
}

/** How often the file of the nodes' clock is written. */
const TICK_MS = 10

/** Keeps a clock of nodes in a file; the returned function sets how far it is ahead of the real one. */
export function createNodeClock(file: string): (aheadMs: number) => void {
  let ahead = 0
  const write = (): void => {
    writeFileSync(`${file}.next`, String(Date.now() + ahead))
    renameSync(`${file}.next`, file) // a node never reads half of it
  }
  write()
  const timer = setInterval(write, TICK_MS)
  onCleanUp(() => clearInterval(timer))
  return aheadMs => {
    ahead = aheadMs
    write()
  }
}
