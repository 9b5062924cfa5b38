/** The worker that copies the WAL of a database into its file: a thread that waits for the disk answers nobody. */
import { doTask } from '../lib/worker.ts'
import { openAccessFile } from './access/file.ts'
import { openListFile } from './proxies/store.ts'
import type { CheckpointTask } from './wal.ts'

declare const self: Worker

/** A small cache: what is copied is read from the WAL. */
const MODE = { isServer: true, mustExist: true, cacheKib: 256 } as const

self.onmessage = ({ data: { file, holds } }: MessageEvent<CheckpointTask>) =>
  doTask(self, () => {
    const db = holds === 'proxies' ? openListFile(file, MODE) : openAccessFile(file, MODE)
    try {
      // Passive: writers go on. The second call copies what they have written during the first.
      for (let n = 0; n < 2; n += 1) db.run('pragma wal_checkpoint(passive)')
    } finally {
      db.close(true)
    }
  })
