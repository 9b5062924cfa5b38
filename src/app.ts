/**
 * Wires the stores to the rules: opens the two database files, builds what commands and server
 * work with, and closes everything in reverse. Knows no command and no HTTP.
 */
import { join } from 'node:path'
import { createAccess } from './access.ts'
import { createBulk } from './bulk.ts'
import { CommandError, isDatabaseFailure } from './error.ts'
import { beginImport } from './sqlite/importer.ts'
import { createKeyStore, createPlanStore, seedPlans } from './sqlite/keys.ts'
import { explain } from './sqlite/open.ts'
import { createProxyStore, openProxyFile } from './sqlite/proxies.ts'
import { createUsageStore, openAccessFile } from './sqlite/usage.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'

/** The list of proxies in `dir`, or in memory when `dir` is null. */
export function openList(dir: string | null, serving = false) {
  const db = openProxyFile(dir === null ? ':memory:' : join(dir, PROXY_FILE), serving)
  const proxies = createProxyStore(db)
  return {
    db,
    proxies,
    beginImport(replace: boolean, waiting?: () => void) {
      const { add, commit, rollback } = beginImport(db, replace, waiting)
      const commitNoted = () => {
        const counts = commit()
        proxies.noteChange()
        return counts
      }
      return { add, commit: commitNoted, rollback }
    },
    close: () => db.close(true),
  }
}

/** The thread for answers from the list in `dir` that would hold everybody up. */
export const openBulk = (dir: string, provider: string, failed: (error: unknown) => void) =>
  createBulk({ file: join(dir, PROXY_FILE), provider }, failed)

/** Keys, plans and usage in `dir`. */
export function openRegistry(dir: string, serving = false) {
  const db = openAccessFile(join(dir, ACCESS_FILE), serving)
  seedPlans(db)
  const usage = createUsageStore(db)
  const keys = createKeyStore(db)
  return {
    keys,
    plans: createPlanStore(db),
    usage,
    access: createAccess(keys.find, usage),
    close: () => db.close(true),
  }
}

export type List = ReturnType<typeof openList>
export type Registry = ReturnType<typeof openRegistry>

/** Works with the list in `dir` and closes it; a failing database becomes a `CommandError`. */
export const withList = <T>(
  dir: string | null,
  work: (list: List) => T | Promise<T>,
  serving = false,
): Promise<T> => using(join(dir ?? '', PROXY_FILE), () => openList(dir, serving), work)

/** Works with keys, plans and usage in `dir`, as `withList` does with the list. */
export const withRegistry = <T>(
  dir: string,
  work: (registry: Registry) => T | Promise<T>,
  serving = false,
): Promise<T> => using(join(dir, ACCESS_FILE), () => openRegistry(dir, serving), work)

async function using<R extends { close(): void }, T>(
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

export { sqliteVersion } from './sqlite/open.ts'
