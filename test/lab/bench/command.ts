/** Owns running a command of the program to its end, and how much memory it took. */
import { type Memory, readMemory } from './memory.ts'
import { childEnvironment, keepTrack } from './processes.ts'

/** How often the memory of a running command is looked at. */
const LOOK_EVERY_MS = 10

/** How a command went; `peakBytes` is `null` where it cannot be told. */
export type Finished = { seconds: number; peakBytes: number | null; stdout: string }

/**
 * Runs a command and watches its memory; it is killed after `deadlineSeconds`.
 * @throws Error with its stderr when it fails.
 */
export async function runCommand(command: string[], deadlineSeconds?: number): Promise<Finished> {
  const startMs = performance.now()
  const child = keepTrack(
    Bun.spawn(command, {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      ...(deadlineSeconds !== undefined && { timeout: deadlineSeconds * 1000 }),
    }),
  )
  // The kernel counts the memory of this process into the child's maxRSS (it is forked from
  // here), so the peak is read from /proc while the child lives; maxRSS only bounds it.
  const seen: Memory[] = []
  const timer = setInterval(() => {
    const memory = readMemory(child.pid)
    if (memory) seen[0] = memory
  }, LOOK_EVERY_MS)
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearInterval(timer)
  const seconds = (performance.now() - startMs) / 1000
  if (exitCode !== 0) {
    throw new Error(`${command.slice(0, 2).join(' ')} exited with ${exitCode}: ${stderr}`)
  }
  const peakBytes = seen[0]?.peakBytes ?? child.resourceUsage()?.maxRSS ?? null
  return { seconds, peakBytes, stdout }
}
