/**
 * Owns what commands and tests use of the service: how it is wired, and the implementations of its
 * stores, which only this file and `wiring/` name.
 */
export { HISTORY_FILE } from './admin/history.ts'
export type { RunningImport } from './admin/import.ts'
export { createLogTap } from './admin/log-tap.ts'
export { presentToken, TOKEN_FILE } from './admin/token.ts'
export { show } from './http/listen.ts'
export { type Node, observeNode, openNode } from './node/node.ts'
export { type Examination, openExamination } from './postgres/examine.ts'
export type { NodeState } from './postgres/nodes.ts'
export { requireOwnData } from './sqlite/copy/copy-of.ts'
export { hasDirectory, missingDirectory, ORIGINS } from './sqlite/data-directory.ts'
export { sqliteVersion } from './sqlite/database.ts'
export { openServerFeeds } from './sqlite/feeds/store.ts'
export {
  leftovers,
  listProblems,
  registryProblems,
  subjectsAhead,
  tallyList,
} from './sqlite/findings.ts'
export { type Backup, type BackupTarget, backUp } from './sqlite/move/backup.ts'
export { completeRestore } from './sqlite/move/place.ts'
export { type Restored, restore } from './sqlite/move/restore.ts'
export { observeData } from './sqlite/observe.ts'
export type { Tally } from './sqlite/proxies/store.ts'
export { openMemoryList, openServerList } from './sqlite/server-list.ts'
export { openServerRegistry } from './sqlite/server-registry.ts'
export {
  ACCESS_FILE,
  FEEDS_FILE,
  listFeeds,
  PROXY_FILE,
  withFeeds,
  withResource,
} from './sqlite/stores.ts'
export type { ReadableList, Stores } from './wiring/command-stores.ts'
export { type Console, createConsole, createMetrics, makeToken } from './wiring/console.ts'
export {
  backUpDatabase,
  type Moved,
  type MoveOptions,
  moveFromDatabase,
  moveToDatabase,
  restoreDatabase,
} from './wiring/move.ts'
export { type App, type AppSettings, type AppStores, createApp } from './wiring/service.ts'
export { storesOf } from './wiring/stores.ts'
