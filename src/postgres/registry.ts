/** Owns keys, plans and usage in PostgreSQL, as commands and servers use them: the port joined. */
import type { Registry, UsageStore } from '../access/store.ts'
import { createChange } from './access/changes.ts'
import { createKeyDump } from './access/key-dump.ts'
import { createKeyStore } from './access/keys.ts'
import { createPlanStore } from './access/plans.ts'
import { createUsageStore } from './access/usage.ts'
import type { Connection } from './connection.ts'

/** Keys and plans on a connection, with the usage of their keys; `patient` moves many keys at once. */
export function createRegistry(
  connection: Connection,
  usage: UsageStore,
  patient: Connection = connection,
): Registry {
  const change = createChange(connection)
  return {
    usage,
    keys: {
      ...createKeyStore(connection.query, change),
      ...createKeyDump(patient, createChange(patient)),
    },
    plans: createPlanStore(connection.query, change),
  }
}

/** The same for a command. */
export const openRegistry = (connection: Connection, patient: Connection): Registry =>
  createRegistry(connection, createUsageStore(connection), patient)
