/**
 * Wires the stores to the rules: opens the two database files, builds what commands and server
 * work with, and closes everything in reverse. Knows no command and no HTTP.
 */
import { join } from 'node:path'
import { createAccess } from './access.ts'
import { beginImport } from './sqlite/importer.ts'
import { createKeyStore, createPlanStore, seedPlans } from './sqlite/keys.ts'
import { createProxyStore, openProxyFile } from './sqlite/proxies.ts'
import { createUsageStore, openAccessFile } from './sqlite/usage.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'

/** The list of proxies in `dir`, or in memory when `dir` is null. */
export function openList(dir: string | null, serving = false) {
  const db = openProxyFile(dir === null ? ':memory:' : join(dir, PROXY_FILE), serving)
  return {
    db,
    proxies: createProxyStore(db),
    beginImport: (replace: boolean) => beginImport(db, replace),
    close: () => db.close(true),
  }
}

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

export { sqliteVersion } from './sqlite/open.ts'
