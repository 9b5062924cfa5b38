/** Owns keys, plans and usage in PostgreSQL, as commands and servers use them: the port joined. */
import type { Registry, UsageStore } from '../../access/ports.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import type { Connection } from '../connection.ts'
import { createChange } from './changes.ts'
import { createKeyStore } from './keys.ts'
import { createPlanStore } from './plans.ts'

/** The most that a patient connection waits for a statement: one on all keys, or on a whole list. */
export const PATIENT_MS = 10 * MINUTE_MS

/** Keys and plans on a connection, with the usage of their keys; `patient` moves many keys at once. */
export function createRegistry<U extends UsageStore>(
  connection: Connection,
  usage: U,
  patient: Connection = connection,
) {
  const change = createChange(connection)
  return {
    usage,
    keys: createKeyStore(connection.query, change, patient),
    plans: createPlanStore(connection.query, change),
  } satisfies Registry
}
