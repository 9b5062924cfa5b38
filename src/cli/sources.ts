/** The files that a command names, or stdin, as sources of an import. */
import { accessSync, closeSync, constants, fstatSync, statSync, writeFileSync } from 'node:fs'
import { STDIN } from '../config/parsers.ts'
import { type Source, sourceOfFile } from '../import/import.ts'
import { CommandError, chunksUntilAborted, reasonOf, unreadable } from '../lib/errors.ts'
import { openUnnamed } from '../lib/files.ts'
import { createProgress } from './progress.ts'

export type SizedSource = Source & { size: number; isFile: boolean }

/** A file of the command line, or stdin, and its size in bytes, if known. @throws CommandError */
export function toSource(file: string): SizedSource {
  const isStdin = file === STDIN
  const name = isStdin ? '(stdin)' : file
  try {
    const found = isStdin ? fstatSync(0) : statSync(file)
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    if (!isStdin) accessSync(file, constants.R_OK)
    const source = isStdin ? { name, bytes: Bun.stdin.stream() } : sourceOfFile(file, found)
    return { ...source, size: found.size, isFile: found.isFile() }
  } catch (error) {
    throw unreadable(name, error)
  }
}

/** Most bytes of a pipe, as of a feed or an upload. */
const STORED_BYTES_MAX = 2 ** 30

/**
 * Reads a pipe or a device to its end, into an open file: what writes into it may pause for as long as it
 * likes, and the list is locked only while rows are written. @throws CommandError
 */
export async function store(
  { name, bytes }: Source,
  dir: string,
  elapsedMs: () => number,
  signal: AbortSignal,
): Promise<number> {
  const progress = createProgress('reading {value} bytes', 0, elapsedMs)
  let fd: number | null = null
  let size = 0
  try {
    fd = openUnnamed(dir)
    for await (const chunk of chunksUntilAborted(bytes, signal)) {
      size += chunk.length
      if (size > STORED_BYTES_MAX) {
        const most = `${STORED_BYTES_MAX / 2 ** 20} MiB, the most that is read from a pipe`
        throw new CommandError(
          `${name} is larger than ${most}: store it in a file, and import that`,
        )
      }
      writeFileSync(fd, chunk)
      progress.update(size)
    }
    return fd
  } catch (error) {
    if (fd !== null) closeSync(fd)
    if (signal.aborted || error instanceof CommandError) throw error
    throw new CommandError(`${name}: cannot be read (${reasonOf(error)}); nothing was imported`)
  } finally {
    progress.clear()
  }
}
