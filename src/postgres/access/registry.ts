/** Owns keys, plans and usage in PostgreSQL, as commands and servers use them: the port joined. */
import type { Registry, UsageStore } from '../../access/store.ts'
import { type Connection, type ConnectionOptions, openConnection } from '../connection.ts'
import { createChange } from './changes.ts'
import { createKeyDump } from './key-dump.ts'
import { createKeyStore } from './keys.ts'
import { createPlanStore } from './plans.ts'
import { createUsageStore } from './usage.ts'

/** Keys and plans on a connection, with the usage of their keys; `patient` moves many keys at once. */
export function createRegistry<U extends UsageStore>(
  connection: Connection,
  usage: U,
  patient: Connection = connection,
) {
  const change = createChange(connection)
  return {
    usage,
    keys: {
      ...createKeyStore(connection.query, change),
      ...createKeyDump(patient, createChange(patient)),
    },
    plans: createPlanStore(connection.query, change),
  } satisfies Registry
}

/** The most that is waited for many keys, in milliseconds. */
const MANY_KEYS_MS = 600_000

/**
 * Opens keys, plans and usage in a database whose schema exists, on `connection` and others; each is
 * opened when it is first used.
 */
export function openRegistry(options: ConnectionOptions, connection = openConnection(options)) {
  const patient = openConnection({ ...options, timeoutMs: MANY_KEYS_MS })
  const usage = createUsageStore(options)
  return {
    ...createRegistry(connection, usage, patient),
    async close(): Promise<void> {
      await Promise.all([connection.close(), patient.close(), usage.close()])
    },
  }
}
