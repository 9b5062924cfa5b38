/** Reading the memory of another process from /proc; gives `null` without /proc. */
import { readFileSync, writeFileSync } from 'node:fs'

/** Resident bytes now, and their maximum since the start of the process or `resetPeak`. */
export type Memory = { residentBytes: number; peakBytes: number }

export function readMemory(pid: number): Memory | null {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'utf8')
    const bytes = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? Number.NaN) * 1024
    const memory = { residentBytes: bytes('VmRSS'), peakBytes: bytes('VmHWM') }
    return Number.isNaN(memory.residentBytes + memory.peakBytes) ? null : memory
  } catch {
    return null
  }
}

/** Resets the peak of a process to its present size (see proc(5), clear_refs). */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Then the peak counts from the start of the process: it may be too high, never too low.
  }
}
