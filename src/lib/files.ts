/**
 * Files that somebody else names. One that is read whole must be a regular file: opening a named pipe would
 * wait for somebody who writes, and reading a device could last forever. No thread of JavaScript waits for a
 * disk or a network mount.
 */
import { constants, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

/** @throws Error saying what it is, unless it is a regular file. */
export function requireRegular(found: Stats): void {
  if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
  if (!found.isFile()) throw new Error('it is not a regular file')
}

/** @throws Error, also when it is not a regular file. */
export async function readRegularFile(file: string): Promise<Buffer> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    requireRegular(await handle.stat())
    return await handle.readFile()
  } finally {
    await handle.close()
  }
}
