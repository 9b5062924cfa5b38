/** The connections that the worker reads the list through, one for each answer at a time. */
import { fingerprintOf, isSameFile } from '../file-identity.ts'
import { createListStore, openListFile } from '../proxies/store.ts'

/** Rows are read once and in order: a large cache would only cost memory, for each client. */
const CACHE_KIB = 512
/** Connections kept while they are not used. */
const IDLE_MAX = 4

function openConnection(file: string) {
  const fingerprint = fingerprintOf(file)
  const options = { isServer: true, mustExist: true, cacheKib: CACHE_KIB }
  const db = openListFile(file, options)
  return { fingerprint, db, store: createListStore(db) }
}
export type Connection = ReturnType<typeof openConnection>

/**
 * Keeps connections with their statements for reuse: opening one costs more than a small answer.
 * One that was opened before the file was replaced is closed.
 */
export function createPool(file: string) {
  let idle: Connection[] = []
  let inUse = 0
  return {
    inUse: (): number => inUse,
    take(): Connection {
      const now = fingerprintOf(file)
      for (const { db } of idle.filter(({ fingerprint }) => !isSameFile(fingerprint, now)))
        db.close()
      idle = idle.filter(({ fingerprint }) => isSameFile(fingerprint, now))
      const connection = idle.pop() ?? openConnection(file)
      inUse += 1
      return connection
    },
    /** Ends the snapshot first: it would keep the WAL from being emptied. */
    give(connection: Connection): void {
      inUse -= 1
      if (connection.db.inTransaction) connection.db.run('rollback')
      if (idle.length < IDLE_MAX) idle.push(connection)
      else connection.db.close()
    },
  }
}
