/**
 * The keys and plans of a node, in its memory. It loads them from the database and reads changes. When the database has
 * not answered for 5 s, keys may have been revoked meanwhile, so none are valid (contract I3).
 */
import type { KeyReader } from '../access/ports.ts'
import type { SetTimer } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import { startPolling } from '../lib/poll.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Connection, onlyRow, SNAPSHOT } from '../postgres/connection.ts'
import { newer, SCHEMA_VERSION } from '../postgres/migrate.ts'
import { readStoredKeys, selectPlans } from '../postgres/registry.ts'
import { openKnownKeys } from '../sqlite/access/known-keys.ts'

/** The pause between two reads of the version, and between two attempts while the database fails. */
const ASK_EVERY_MS = SECOND_MS
const ASK_AGAIN_MS = SECOND_MS / 4
/** How old the last answer of the database may be. */
const UNKNOWN_MS_MAX = 5 * SECOND_MS

/** The version of keys and plans. A failover starts another server, and can lose versions. */
type Standing = { schema: number; version: number; started: string }
const STANDING = `select schema, keys_version::float8 as version,
  pg_postmaster_start_time()::text as started from proxylist.installation`

type KeysOptions = {
  quick: Connection
  patient: Connection
  elapsedMs: () => number
  later: SetTimer
  prepare: () => Promise<void>
  /** Called when the database has answered, before changed keys are read. */
  onReached: () => void
  /** Called after each attempt with its failure, or `null`. */
  onAsked: (failure: unknown) => void
}

export function followKeys(options: KeysOptions) {
  const { quick, patient, elapsedMs, later, prepare, onReached, onAsked } = options
  let keys = openKnownKeys()
  let known: Standing | null = null
  let knownMs: number | null = null

  /** Reads the changes since a version, or everything, from one snapshot of the database. */
  async function read(since: number | null): Promise<void> {
    await patient.transaction(async query => {
      const standing = await onlyRow<Standing>(query, STANDING)
      const stored = await readStoredKeys(query, since ?? -1)
      const plans = await selectPlans(query)
      const next = since === null ? openKnownKeys() : keys
      next.store(stored, plans)
      if (next !== keys) keys.close()
      keys = next
      known = standing
    }, SNAPSHOT)
  }

  async function ask(): Promise<void> {
    const askedMs = elapsedMs()
    await prepare()
    const newest = await onlyRow<Standing>(quick.query, STANDING)
    if (newest.schema > SCHEMA_VERSION) throw newer(newest.schema, quick.shown)
    onReached()
    if (newest.started !== known?.started) await read(null)
    else if (newest.version !== known.version) {
      await read(known.version).catch(failure => {
        if (failure instanceof StoreError) throw failure
        return read(null) // a removed key's secret belongs to another key now
      })
    }
    knownMs = askedMs
  }

  const polling = startPolling(async () => {
    const failure: unknown = await ask().then(
      () => null,
      thrown => thrown,
    )
    onAsked(failure)
    return failure === null ? ASK_EVERY_MS : ASK_AGAIN_MS
  }, later)

  return {
    wake: polling.wake,
    find: (key => keys.find(key)) satisfies KeyReader['find'],
    problem(): string | null {
      if (knownMs === null) return 'the database was not reached yet'
      if (elapsedMs() - knownMs <= UNKNOWN_MS_MAX) return null
      return `the database was not reached for ${UNKNOWN_MS_MAX / SECOND_MS} s`
    },
    /** How long ago the keys were known to be the newest; if never, the time since the start. */
    ageMs: (): number => elapsedMs() - (knownMs ?? 0),
    async stop(): Promise<void> {
      await polling.stop()
      keys.close()
    },
  }
}
