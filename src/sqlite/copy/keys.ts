/**
 * The copy of keys and plans: writing it, each change in one transaction, and finding keys in it
 * while it is written. Usage is not copied: that of a node is in the database.
 */
import type { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { KeyReader } from '../../access/ports.ts'
import { StoreError } from '../../lib/errors.ts'
import { isSameVersion, type KeyChanges, type Version } from '../../node/ports.ts'
import { openAccessFile } from '../access/file.ts'
import { createKeyReader, createKeyWriter } from '../access/keys.ts'
import { createPlanStore } from '../access/plans.ts'
import { ACCESS_FILE } from '../data-directory.ts'
import { requireHeader } from '../database.ts'
import { isDamage, isStoreFailure, toStoreError } from '../errors.ts'
import { closeSafely, fingerprintOf, requireInPlace } from '../file-identity.ts'
import { type Health, supervise } from '../supervise.ts'
import { readCopyOf, writeCopyOf } from './copy-of.ts'
import { putFresh } from './fresh.ts'

/** Writes changes in one transaction. What changed is removed first: secrets may change places. */
function write(
  db: Database,
  { isWhole, to, plans, removed, keys }: KeyChanges,
  since: Version | null,
): void {
  const store = createKeyWriter(db)
  const planStore = createPlanStore(db)
  const remove = db.prepare<never, [string]>('delete from keys where id = ?')
  db.transaction(() => {
    if (!isSameVersion(readCopyOf(db), since)) return // another process follows too
    db.run('pragma defer_foreign_keys = on')
    if (isWhole) db.run('delete from keys')
    for (const id of removed) remove.run(id)
    for (const { id } of keys) remove.run(id)
    db.run('delete from plans')
    for (const plan of plans) planStore.set(plan)
    for (const key of keys) store(key)
    writeCopyOf(db, to)
  }).immediate()
}

const openFile = (file: string): Database => openAccessFile(file, { mustExist: true })

/** The copy of keys and plans in `dir`, to be written by its only follower in this process. */
export function openKeyCopy(dir: string) {
  const file = join(dir, ACCESS_FILE)
  let opened: { db: Database; fingerprint: ReturnType<typeof fingerprintOf> } | null = null
  let isDoubted = false

  function close(): void {
    if (opened !== null) closeSafely(opened.db, file, opened.fingerprint)
    opened = null
  }

  /** The open copy and its version; `null` when there is none that can be used. */
  function found(): { db: Database; version: Version } | null {
    try {
      if (isDoubted || !existsSync(file)) throw new StoreError(`${file} cannot be used`)
      requireHeader(file, 'access')
      if (opened !== null) requireInPlace(file, opened.fingerprint)
      opened ??= { db: openFile(file), fingerprint: fingerprintOf(file) }
      const version = readCopyOf(opened.db)
      return version && { db: opened.db, version }
    } catch (error) {
      if (!isStoreFailure(error)) throw error
      close() // one that can be opened again is, at the next call
      return null
    }
  }

  return {
    version: (): Version | null => found()?.version ?? null,
    /**
     * Applies changes; does nothing when the copy is at another version than they start from.
     * @throws StoreError; nothing has changed then.
     */
    async apply(changes: KeyChanges): Promise<void> {
      try {
        const copy = found()
        if (copy !== null) return write(copy.db, changes, changes.since)
        if (!changes.isWhole) throw new StoreError(`${file} is no copy any more`)
        await putFresh(file, {
          open: fresh => openAccessFile(fresh),
          fill: db => write(db, changes, null),
          onMove: close,
        })
        isDoubted = false
      } catch (error) {
        isDoubted ||= isDamage(error)
        throw toStoreError(file, error)
      }
    },
    /** Makes the copy again at the next change: reading it has found damage. */
    doubt(): void {
      isDoubted = true
      close()
    },
    close,
  }
}

type Parts = { say: (sentence: string) => void; onDamage: () => void }

type CopiedKeys = KeyReader & { tick(): void; health(): Health; close(): void }

/**
 * Finds keys in the copy in `dir`, which a follower writes; `tick` is to be called every second once
 * there is one. `onDamage` is called when the copy has to be made again.
 */
export function openCopiedKeys(dir: string, { say, onDamage }: Parts): CopiedKeys {
  const file = join(dir, ACCESS_FILE)
  const open = () => {
    const db = openAccessFile(file, { isServer: true, mustExist: true })
    return { db, find: createKeyReader(db).find, fingerprint: fingerprintOf(file) }
  }
  const { use, tick, health, close } = supervise<ReturnType<typeof open>>(null, {
    ...{ file, reopen: open, probe() {}, say },
    close: ({ db, fingerprint }) => closeSafely(db, file, fingerprint),
    verify({ fingerprint }) {
      requireInPlace(file, fingerprint)
      requireHeader(file, 'access')
    },
    onFailure(failure) {
      if (isDamage(failure)) onDamage()
    },
  })
  return { find: key => use(({ find }) => find(key)), tick, health, close }
}
