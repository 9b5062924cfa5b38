/** The file descriptors that a process has left. To count those that are open would take longer, and one more. */
import { closeSync, openSync } from 'node:fs'
import { codeOf } from './errors.ts'

/** @throws Error when the process cannot open so many more files. */
export function requireDescriptors(count: number): void {
  const opened: number[] = []
  try {
    while (opened.length < count) opened.push(openSync('/dev/null', 'r'))
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

/** Whether the process can open so many more files; true also when that cannot be found out. */
export function areDescriptorsLeft(count: number): boolean {
  try {
    requireDescriptors(count)
    return true
  } catch (error) {
    return !/^E[MN]FILE$/.test(codeOf(error))
  }
}
