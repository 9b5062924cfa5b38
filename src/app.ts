/**
 * Wires the stores to the rules: opens the two database files, builds what commands and server
 * work with, and closes everything in reverse. Knows no command and no HTTP.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createAccess } from './access/access.ts'
import { CommandError, isDatabaseFailure, Unavailable } from './api/errors.ts'
import { createKeyStore, createPlanStore, seedPlans } from './sqlite/access/keys.ts'
import { createUsageStore, openAccessFile } from './sqlite/access/usage.ts'
import { explain, freshFile, isDamage, moveDatabase, removeDatabase } from './sqlite/database.ts'
import { breakSeal, isSealed, seal } from './sqlite/integrity/file-stamp.ts'
import { beginImport } from './sqlite/proxies/import.ts'
import { checkListFile, createProxyStore, openProxyFile } from './sqlite/proxies/store.ts'
import { type BulkWatch, createBulk, LOG_BOUND } from './sqlite/proxies/stream.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'

/** The list of proxies in `dir`, or in memory when `dir` is null; `again`: it must be there. */
export function openList(
  dir: string | null,
  serving = false,
  again = false,
  file = join(dir ?? '', PROXY_FILE),
) {
  const db = openProxyFile(dir === null ? ':memory:' : file, { serving, again })
  const proxies = createProxyStore(db)
  const settle = (): void => {
    proxies.noteChange()
    if (dir !== null) seal(db, file)
  }
  return {
    db,
    file,
    proxies,
    /** Vouches for the list after its last change; a list in memory needs nobody to. */
    settle,
    beginImport(replace: boolean, waiting?: () => void) {
      const { add, commit, rollback } = beginImport(db, replace, waiting)
      const commitSettled = () => {
        const counts = commit()
        settle()
        return counts
      }
      return { add, commit: commitSettled, rollback }
    },
    close: () => db.close(true),
  }
}

/** The thread for answers from the list in `dir` that would hold everybody up. */
export const openBulk = (dir: string, provider: string, watch: BulkWatch) =>
  createBulk({ file: join(dir, PROXY_FILE), provider, log: LOG_BOUND }, watch)

/** Keys, plans and usage in `dir`; `again`: they must be there. */
export function openRegistry(dir: string, serving = false, again = false) {
  const db = openAccessFile(join(dir, ACCESS_FILE), { serving, again })
  if (!again) seedPlans(db)
  const usage = createUsageStore(db)
  const keys = createKeyStore(db)
  return {
    db,
    keys,
    plans: createPlanStore(db),
    usage,
    access: createAccess(keys.find, usage),
    close: () => db.close(true),
  }
}

export type List = ReturnType<typeof openList>
export type Registry = ReturnType<typeof openRegistry>

/** Opens a list that is known to be whole; reads all of it where that is not known yet. */
function openWholeList(dir: string): List {
  const list = openList(dir)
  if (isSealed(list.db, list.file)) return list
  list.close()
  const problems = checkListFile(list.file)
  if (problems.length > 0) throw damagedList(list.file, problems)
  return openList(dir)
}

/** The sentence on a list that is not what was imported. */
export const damagedList = (file: string, problems: readonly string[]): Unavailable =>
  new Unavailable(
    `${file} is damaged (${problems.join('; ')}): import the whole list anew, with --replace`,
    true,
  )

/** Works with the list in `dir` and closes it; a failing database becomes a `CommandError`. */
export const withList = <T>(dir: string, work: (list: List) => T | Promise<T>): Promise<T> =>
  using(
    join(dir, PROXY_FILE),
    () => openWholeList(dir),
    async list => {
      try {
        return await work(list)
      } catch (error) {
        if (isDamage(error)) breakSeal(list.file) // it looked whole
        throw error
      }
    },
  )

/** Whether there is a list that rows can be put into; `damaged` is told why a damaged one is not. */
function isUsable(dir: string, damaged: (sentence: string) => void): boolean {
  const file = join(dir, PROXY_FILE)
  if (!existsSync(file)) return false
  try {
    openWholeList(dir).close()
    return true
  } catch (error) {
    if (!isDamage(error)) throw error
    damaged(explain(file, error))
    return false
  }
}

/**
 * Works with a list whose rows are all to be replaced. Where there is none that can be used, a
 * new one takes its place in the end, so that a server never sees it empty.
 */
export async function withListToReplace<T>(
  dir: string,
  work: (list: List) => T | Promise<T>,
  damaged: (sentence: string) => void,
): Promise<T> {
  if (isUsable(dir, damaged)) return withList(dir, work)
  const file = join(dir, PROXY_FILE)
  const fresh = freshFile(file)
  try {
    const result = await using(fresh, () => openList(dir, false, false, fresh), work)
    moveDatabase(fresh, file)
    return result
  } finally {
    removeDatabase(fresh)
  }
}

/** Works with keys, plans and usage in `dir`, as `withList` does with the list. */
export const withRegistry = <T>(
  dir: string,
  work: (registry: Registry) => T | Promise<T>,
): Promise<T> => using(join(dir, ACCESS_FILE), () => openRegistry(dir), work)

/** Opens, works and closes; a failing database becomes a `CommandError` about `file`. */
export async function using<R extends { close(): void }, T>(
  file: string,
  open: () => R,
  work: (resource: R) => T | Promise<T>,
): Promise<T> {
  try {
    const resource = open()
    try {
      return await work(resource)
    } finally {
      resource.close()
    }
  } catch (error) {
    throw isDatabaseFailure(error) ? new CommandError(explain(file, error)) : error
  }
}

export { sqliteVersion } from './sqlite/database.ts'
