/** The worker that checks a database, with a low priority: requests do not notice. */
import { doTask, lowerPriority } from '../lib/worker.ts'
import { openAccessFile } from './access/file.ts'
import { type CheckTask, checkUsable } from './check.ts'
import { checkListFile } from './proxies/store.ts'

declare const self: Worker

/** The problems of keys, plans and usage in `file`. @throws StoreError when it cannot be opened. */
function checkAccessFile(file: string, isInUse: boolean): string[] {
  const db = openAccessFile(file, { isServer: true, mustExist: true })
  try {
    return checkUsable(db, isInUse)
  } finally {
    db.close(true)
  }
}

lowerPriority()
self.onmessage = ({ data: { file, holds, isInUse } }: MessageEvent<CheckTask>) =>
  doTask(self, () => (holds === 'proxies' ? checkListFile(file) : checkAccessFile(file, isInUse)))
