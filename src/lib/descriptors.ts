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

/** This many descriptors at most, else a quarter of all, stay free for what else a program opens. */
const FREE_MAX = 128

/** How many of `wanted` descriptors may be held for long; at least one. */
export function affordableDescriptors(wanted: number): number {
  const opened: number[] = []
  try {
    while (opened.length < wanted + FREE_MAX) opened.push(openSync('/dev/null', 'r'))
  } catch (error) {
    if (!/^E[MN]FILE$/.test(codeOf(error))) return wanted
    const free = Math.min(Math.ceil(((opened.at(-1) ?? 0) + 1) / 4), FREE_MAX)
    return Math.max(1, Math.min(wanted, opened.length - free))
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
  return wanted
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
