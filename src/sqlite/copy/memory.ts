/**
 * A copy of a list in memory: for a command that reads a shared list, with the code that reads one
 * of a data directory.
 */
import type { ListChanges } from '../../node/ports.ts'
import { type List, openList } from '../stores.ts'
import { writeList } from './list.ts'

/** Opens a list that holds what `changes`, which are a whole list, bring. */
export async function openListInMemory(changes: ListChanges): Promise<List> {
  const list = openList(null)
  list.db.run('begin')
  await writeList(list.db, changes)
  list.db.run('commit')
  return list
}
