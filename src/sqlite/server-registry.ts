/** Keys, plans and usage of a server: each write is lost, and so fails, when the file was removed or replaced. */
import { join } from 'node:path'
import { FLUSH_SECONDS } from '../access/history.ts'
import type { KeyReader, Registry, UsageStore } from '../access/ports.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { LOCK_WAIT, takeLock } from './access/usage.ts'
import { ACCESS_FILE } from './data-directory.ts'
import { requireNotReplaced } from './database-files.ts'
import { forward, holdOpen } from './server.ts'
import { openRegistry } from './stores.ts'
import { createCheckpointer } from './wal.ts'

/** Call `tick` every second. @throws what `openRegistry` throws. */
export function openServerRegistry(dir: string, say: (sentence: string) => void) {
  const file = join(dir, ACCESS_FILE)
  const open = (mustExist = true) => openRegistry(dir, { isServer: true, mustExist })
  type Opened = ReturnType<typeof open>
  const held = holdOpen(open(false), {
    ...{ file, open, say },
    probe: ({ usage }) => usage.probe(),
  })
  const { use, health } = held
  /** Works with the open file, if there is one. `use` reports failures. */
  function attempt(work: () => void): void {
    try {
      work()
    } catch {
      // It is not open, or has failed.
    }
  }
  // The worker leaves what was committed meanwhile. Checkpointing that here, between two commits, lets the
  // next commit start at the beginning of the WAL.
  const checkpointer = createCheckpointer(file, 'access', () =>
    attempt(() => use(({ db }) => db.run('pragma wal_checkpoint(passive)'))),
  )
  const commit = <T>(work: (opened: Opened) => T): T =>
    use(opened => {
      const result = work(opened)
      requireNotReplaced(opened.db, file)
      return result
    })
  const write = <T>(work: (usage: Opened['usage']) => T): T => commit(({ usage }) => work(usage))
  /** Changes keys or plans, waiting for the transactions of other processes. */
  const change = <T>(work: (opened: Opened) => T): T =>
    commit(opened => {
      const result = takeLock(() => work(opened), LOCK_WAIT)
      opened.keys.forget()
      return result
    })
  /** Writes once for all probes of a turn, because that may wait. */
  const failureOfProbe = oncePerTurn((): unknown => {
    try {
      write(store => store.probe())
      return null
    } catch (failure) {
      return failure
    }
  })
  const keysOf = ({ keys }: Opened) => keys
  const keys: KeyReader & Registry['keys'] = {
    find: key => use(registry => registry.keys.find(key)),
    ...forward(use, keysOf, ['list', 'scan', 'ending', 'refused', 'count', 'countByPlan', 'dump']),
    ...forward(change, keysOf, ['load', 'add', 'set', 'rotate', 'revoke', 'remove']),
  }
  let ticks = 0
  const plansOf = ({ plans }: Opened) => plans
  const plans: Registry['plans'] = {
    ...forward(use, plansOf, ['list']),
    ...forward(change, plansOf, ['set', 'remove']),
  }
  const usageOf = ({ usage }: Opened) => usage
  const usage: UsageStore = {
    ...forward(use, usageOf, ['countNetworks', 'peek', 'history', 'prune']),
    ...forward(commit, usageOf, ['admit', 'refund', 'consume', 'reset', 'flush']),
    note: answer => attempt(() => use(registry => registry.usage.note(answer))),
    probe() {
      const failure = failureOfProbe()
      if (failure !== null) throw failure
    },
  }
  return {
    keys,
    plans,
    usage,
    health,
    hasKeys: (): boolean => use(registry => registry.keys.hasAny()),
    tick(): void {
      held.tick()
      ticks += 1
      if (ticks % FLUSH_SECONDS === 0) attempt(() => write(store => store.flush()))
      attempt(() => use(({ db }) => checkpointer.tick(db)))
    },
    close(): void {
      checkpointer.close()
      attempt(() => write(store => store.flush()))
      attempt(() => write(store => store.fold()))
      held.close()
    },
  }
}
