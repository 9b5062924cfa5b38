/** Reading the memory of another process from /proc; gives `null` without /proc. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

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

/** CPU time since the start of the process in nanoseconds, of its main thread and of all threads. */
export type Cpu = { mainNs: number; allNs: number }

/** The first number of schedstat: time on a CPU, to the nanosecond (sched-stats of the kernel). */
const threadNs = (pid: number, thread: string): number =>
  Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])

export function readCpu(pid: number): Cpu | null {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const allNs = threads.reduce((sum, thread) => sum + threadNs(pid, thread), 0)
    return { mainNs: threadNs(pid, String(pid)), allNs }
  } catch {
    return null
  }
}

/** CPU time in microseconds from `before` until now, divided by `units` of work. */
export function cpuPerUnit(pid: number, before: Cpu | null, units: number) {
  const after = readCpu(pid)
  if (before === null || after === null) return null
  const usPerUnit = (fromNs: number, toNs: number): number => (toNs - fromNs) / 1000 / units
  return {
    mainUs: usPerUnit(before.mainNs, after.mainNs),
    allUs: usPerUnit(before.allNs, after.allNs),
  }
}
