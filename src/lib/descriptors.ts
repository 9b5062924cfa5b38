/** The file descriptors that a process has left. To count those that are open would take longer, and one more. */
import { closeSync, openSync } from 'node:fs'
import { codeOf } from './errors.ts'

/** Opens so many files for a moment: how many it could, the last of them, and what stopped it. */
function openMany(count: number) {
  const opened: number[] = []
  let failure: unknown = null
  try {
    while (opened.length < count) opened.push(openSync('/dev/null', 'r'))
  } catch (error) {
    failure = error
  }
  for (const descriptor of opened) closeSync(descriptor)
  return { opened: opened.length, last: opened.at(-1) ?? 0, failure }
}

const isFull = (failure: unknown): boolean =>
  failure !== null && /^E[MN]FILE$/.test(codeOf(failure))

/** @throws Error when the process cannot open so many more files. */
export function requireDescriptors(count: number): void {
  const { failure } = openMany(count)
  if (failure !== null) throw failure
}

/** Whether the process can open so many more files; true also when that cannot be found out. */
export const areDescriptorsLeft = (count: number): boolean => !isFull(openMany(count).failure)

/** This many descriptors at most, else a quarter of all, stay free for what else a program opens. */
const FREE_MAX = 128

/** How many of `wanted` descriptors may be held for long; at least one. */
export function affordableDescriptors(wanted: number): number {
  const { opened, last, failure } = openMany(wanted + FREE_MAX)
  const free = Math.min(Math.ceil((last + 1) / 4), FREE_MAX)
  return isFull(failure) ? Math.max(1, Math.min(wanted, opened - free)) : wanted
}
