/** Small disks in memory, for tests of full and of read-only ones. */
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** An empty file system of a size such as `300k`; `null` where this user may not mount one. */
export function smallDisk(size: string): string | null {
  const dir = temporaryDirectory()
  const { exitCode } = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', dir])
  if (exitCode !== 0) return null
  onCleanUp(() => void Bun.spawnSync(['umount', '-l', dir]))
  return dir
}

/** Makes a small disk read-only, as an input/output error does. */
export const makeReadOnly = (disk: string): unknown =>
  Bun.spawnSync(['mount', '-o', 'remount,ro', disk])
