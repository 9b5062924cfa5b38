/** Owns the copies of a data directory as their follower writes them: the port `CopyWriter`. */
import type { CopyWriter } from '../../replication/store.ts'
import { openKeyCopy } from './keys.ts'
import { type ListCopyOptions, openListCopy } from './list.ts'

/** Opens the copies in `dir`; `doubtKeys` has the keys copied again. */
export function openCopies(
  dir: string,
  options: ListCopyOptions,
): CopyWriter & { doubtKeys(): void; close(): void } {
  const list = openListCopy(dir, options)
  const keys = openKeyCopy(dir)
  return {
    listVersion: list.version,
    keysVersion: keys.version,
    applyList: list.apply,
    applyKeys: keys.apply,
    doubtKeys: keys.doubt,
    close() {
      list.close()
      keys.close()
    },
  }
}
