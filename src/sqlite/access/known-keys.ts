/** The keys and plans of a shared database in the memory of a node, found by the code of one machine. */
import type { StoredKey } from '../../access/key.ts'
import type { Plan } from '../../access/plan.ts'
import { writeTransaction } from '../database.ts'
import { openAccessFile } from './file.ts'
import { createKeyReader, createKeyWriter } from './keys.ts'
import { createPlanStore } from './plans.ts'

export function openKnownKeys() {
  const db = openAccessFile(':memory:')
  const { find, forget } = createKeyReader(db)
  const write = createKeyWriter(db)
  const plans = createPlanStore(db)
  const remove = db.prepare<never, [string]>('delete from keys where id = ?')
  return {
    find,
    /** Stores keys, and all plans, which are few. A removed key may stay: it was revoked before. */
    store(keys: readonly StoredKey[], allPlans: readonly Plan[]): void {
      writeTransaction(db, () => {
        db.run('pragma defer_foreign_keys = on')
        for (const { id } of keys) remove.run(id) // first: secrets may change places
        db.run('delete from plans')
        allPlans.forEach(plans.set)
        keys.forEach(write)
      })
      forget()
    },
    close: (): void => db.close(true),
  }
}
