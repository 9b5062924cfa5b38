/**
 * Supervising a database that is not used, once it has proved damaged, until a check in a worker passes or
 * another file is in its place: a file that can be opened, or even written, may still be damaged.
 */
import type { Database } from 'bun:sqlite'
import { StoreError } from '../lib/errors.ts'
import { startCheck } from './check.ts'
import { stateOf } from './database-files.ts'
import { damagedBy, explain, isDamage } from './errors.ts'
import { ofNewer, type ServerHolds, schemaVersion } from './migrate.ts'
import { type Parts, supervise } from './supervise.ts'

/** Calls of `tick` between two regular checks. */
const CHECK_EVERY = 3600
/** Calls of `tick` before the first check, whose ten seconds for a million rows are not those of the start. */
const FIRST_CHECK = 60
/** So many calls of `tick` are answered with a newer schema: who has brought it may be about to take over. */
const NEWER_TICKS = 5

type CheckedParts<Store> = Omit<Parts<Store>, 'onFailure'> & {
  holds: ServerHolds
  scripts: readonly string[]
  /** What is done about damage instead of refusing the file. */
  onDamage?: () => void
}

/** As `supervise`, of the database in `file`. */
export function superviseChecked<Store extends { db: Database }>(
  first: Store | null,
  { holds, scripts, onDamage, ...parts }: CheckedParts<Store>,
) {
  const { file, reopen, say } = parts
  /**
   * Why the file may not be used until a check passes, or another file is in its place. It is checked when
   * something has been written since `checkedMs`; `null`: no check has come to an end.
   */
  let damage: { failure: Error; inode: number | undefined; checkedMs: number | null } | null = null
  let checking: ReturnType<typeof startCheck> | null = null
  let ticks = 0
  let newerTicks = 0

  function check(): void {
    if (checking !== null) return
    const state = stateOf(file)
    checking = startCheck(file, holds, damage === null)
    const end = (found: readonly string[] | Error): void => {
      checking = null
      if (state?.inode === stateOf(file)?.inode) take(found, state?.writtenMs ?? null)
    }
    checking.result.then(end, end)
  }

  function endCheck(): void {
    checking?.end()
    checking = null
  }

  /** Takes what a check of the file as it was at `checkedMs` has found. */
  function take(found: readonly string[] | Error, checkedMs: number | null): void {
    const isIntact = !(found instanceof Error) && found.length === 0
    if (isIntact) {
      damage = null
      return supervisor.tick()
    }
    const failure = found instanceof Error ? found : damagedBy(file, found)
    if (!isDamage(failure)) {
      if (damage === null) say(`${file} could not be checked: ${failure.message}`)
      return
    }
    if (damage === null) supervisor.fail(failure) // else that has been said
    if (damage !== null) damage.checkedMs = checkedMs
  }

  /** @throws what is known to be wrong with the file that is in place. */
  function requireUndamaged(): void {
    if (damage === null) return
    const state = stateOf(file)
    if (state?.inode !== damage.inode) {
      damage = null
      return
    }
    if (state?.writtenMs !== damage.checkedMs) check()
    throw damage.failure
  }

  const supervisor = supervise(first, {
    ...parts,
    reopen() {
      requireUndamaged()
      return reopen()
    },
    verify(store) {
      parts.verify(store)
      const version = schemaVersion(store.db)
      newerTicks = version > scripts.length ? newerTicks + 1 : 0
      if (newerTicks > NEWER_TICKS) throw new StoreError(ofNewer(file, version, scripts.length))
    },
    onFailure(failure) {
      if (!isDamage(failure) || damage !== null) return
      if (onDamage !== undefined) return onDamage()
      endCheck() // it began before this, and may have missed it
      const said = new StoreError(explain(file, failure), { isDamage: true, cause: failure })
      damage = { failure: said, inode: stateOf(file)?.inode, checkedMs: null }
    },
  })
  return {
    ...supervisor,
    tick(): void {
      supervisor.tick()
      if (ticks++ % CHECK_EVERY === FIRST_CHECK) check()
    },
    close(): void {
      endCheck()
      supervisor.close()
    },
  }
}
