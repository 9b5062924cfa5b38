/** Checks how many file descriptors the process can still open. Opening some is faster than counting open ones. */
import { closeSync, openSync } from 'node:fs'
import { codeOf } from './errors.ts'

/** Opens and closes `count` files. Returns how many it opened, the last descriptor, and the error that stopped it. */
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

/** @throws Error when the process cannot open `count` more files. */
export function requireDescriptors(count: number): void {
  const { failure } = openMany(count)
  if (failure !== null) throw failure
}

/** A quarter of all descriptors stays free for other files, at most this many (contract H5). */
const FREE_MAX = 128

/** How many of the `wanted` descriptors the process can use, at least one. */
export function affordableDescriptors(wanted: number): number {
  const { opened, last, failure } = openMany(wanted + FREE_MAX)
  if (!/^E[MN]FILE$/.test(codeOf(failure))) return wanted
  const free = Math.min(Math.ceil((last + 1) / 4), FREE_MAX)
  return Math.max(1, Math.min(wanted, opened - free))
}
