/** Running a command to its end while its memory is measured. */
import { launch } from '../../support/launch.ts'
import { type Memory, readMemory } from '../support/memory.ts'

/** Between two readings of a running command's memory. */
const SAMPLE_EVERY_MS = 10

/** A finished command; `peakBytes` is `null` where it is unknown. */
export type Finished = { seconds: number; peakBytes: number | null; stdout: string }

/**
 * Runs a command and watches its memory; it is killed after `deadlineSeconds`.
 * @throws Error with its stderr when it fails.
 */
export async function runCommand(command: string[], deadlineSeconds?: number): Promise<Finished> {
  const startMs = performance.now()
  const child = launch(command, { ...(deadlineSeconds !== undefined && { deadlineSeconds }) })
  // The kernel counts the memory of this process into the child's maxRSS (it is forked from
  // here), so the peak is read from /proc while the child lives; maxRSS only bounds it.
  const last: { memory: Memory | null } = { memory: null }
  const timer = setInterval(() => {
    last.memory = readMemory(child.pid) ?? last.memory
  }, SAMPLE_EVERY_MS)
  const exitCode = await child.ended
  clearInterval(timer)
  const seconds = (performance.now() - startMs) / 1000
  const { stdout, stderr } = child.written
  if (exitCode !== 0) {
    throw new Error(`${command.slice(0, 2).join(' ')} exited with ${exitCode}: ${stderr}`)
  }
  const peakBytes = last.memory?.peakBytes ?? child.resourceUsage()?.maxRSS ?? null
  return { seconds, peakBytes, stdout }
}
