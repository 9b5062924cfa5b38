/** Reading the CPU time of another process from /proc; gives `null` without it (not Linux). */
import { readdirSync, readFileSync } from 'node:fs'

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
