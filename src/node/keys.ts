/**
 * The keys and plans of a node, in its memory: loaded from the database when it is reached, and read again when
 * they change. A database that did not answer for 5 s may have revoked keys meanwhile (contract I3).
 */
import type { KeyReader } from '../access/ports.ts'
import type { SetTimer } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Connection, onlyRow, SNAPSHOT } from '../postgres/connection.ts'
import { newer, SCHEMA_VERSION } from '../postgres/migrate.ts'
import { readStoredKeys, selectPlans } from '../postgres/registry.ts'
import { openKnownKeys } from '../sqlite/access/known-keys.ts'

/** How often a node asks, whether or not something was announced, and how often while the database is away. */
const ASK_EVERY_MS = SECOND_MS
const ASK_AGAIN_MS = SECOND_MS / 4
/** A node whose keys are not known to be the newest for so long answers nobody. */
const UNKNOWN_MS_MAX = 5 * SECOND_MS

/** Where keys and plans stand; another start of the server may be a failover, which can lose versions. */
type Standing = { schema: number; version: number; started: string }
const STANDING = `select schema, keys_version::float8 as version,
  pg_postmaster_start_time()::text as started from proxylist.installation`

type KeysOptions = {
  quick: Connection
  /** For reading keys. */
  patient: Connection
  elapsedMs: () => number
  later: SetTimer
  /** Makes the schema, once the database is there. */
  prepare: () => Promise<void>
  /** Called after each attempt, with what has failed, or `null`. */
  onAsked: (failure: unknown) => void
}

/** Begins to follow keys and plans. */
export function followKeys(options: KeysOptions) {
  const { quick, patient, elapsedMs, later, prepare, onAsked } = options
  let keys = openKnownKeys()
  let known: Standing | null = null
  /** When the keys were last known to be the newest. */
  let knownMs: number | null = null
  let isWoken = false
  let isStopped = false
  let running: Promise<void> | null = null
  let cancel = (): void => {}

  /** Reads what has changed, or all after a gap. Both are as of one moment. */
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
    if (newest.started !== known?.started) await read(null)
    else if (newest.version !== known.version) {
      await read(known.version).catch(failure => {
        if (failure instanceof StoreError) throw failure
        return read(null) // a removed key's secret belongs to another key now
      })
    }
    knownMs = askedMs
  }

  async function turn(): Promise<void> {
    isWoken = false
    const failure = await ask().then(
      () => null,
      (thrown: unknown) => thrown ?? new Error(),
    )
    if (isStopped) return
    onAsked(failure)
    if (isWoken && failure === null) return turn()
    cancel = later(wake, failure === null ? ASK_EVERY_MS : ASK_AGAIN_MS)
  }

  function wake(): void {
    isWoken = true
    if (running !== null || isStopped) return
    cancel()
    running = turn().finally(() => {
      running = null
    })
  }

  wake()
  return {
    wake,
    find: (key => keys.find(key)) satisfies KeyReader['find'],
    /** Why keys may not be used; `null`: they may. */
    problem(): string | null {
      if (knownMs === null) return 'the database was not reached yet'
      if (elapsedMs() - knownMs <= UNKNOWN_MS_MAX) return null
      return `the database was not reached for ${UNKNOWN_MS_MAX / SECOND_MS} s`
    },
    /** How long ago the keys were known to be the newest; since the start when they never were. */
    ageMs: (): number => elapsedMs() - (knownMs ?? 0),
    async stop(): Promise<void> {
      isStopped = true
      cancel()
      await running
      keys.close()
    },
  }
}
