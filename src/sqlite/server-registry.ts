/**
 * Keys, plans and usage as the server holds them: supervised, used only while their file is in place, and
 * checked in a worker.
 */
import { join } from 'node:path'
import type { KeyReader, Registry, UsageStore } from '../access/ports.ts'
import { StoreError } from '../lib/errors.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { ACCESS_SCRIPTS } from './access/file.ts'
import { LOCK_WAIT, takeLock } from './access/usage.ts'
import { ACCESS_FILE } from './data-directory.ts'
import { requireHeader } from './database.ts'
import { closeSafely, filesOf, requireInPlace } from './database-files.ts'
import { replacedByEmpty } from './errors.ts'
import { openRegistry } from './stores.ts'
import { superviseChecked } from './supervise-checked.ts'
import { createCheckpointer } from './wal.ts'

/** `tick` is to be called every second. @throws what `openRegistry` throws. */
export function openServerRegistry(dir: string, say: (sentence: string) => void) {
  const file = join(dir, ACCESS_FILE)
  const open = (mustExist: boolean) => {
    const opened = openRegistry(dir, { isServer: true, mustExist })
    return { ...opened, fingerprint: filesOf(opened.db, file) }
  }
  type Opened = ReturnType<typeof open>
  let hadKeys = false
  /** Opens the file that is in place. One without keys where keys were is what another start has made. */
  function reopen(): Opened {
    const opened = open(true)
    if (!hadKeys || opened.keys.hasAny()) return opened
    opened.close()
    throw new StoreError(replacedByEmpty(file))
  }
  const supervised = superviseChecked(open(false), {
    ...{ file, holds: 'access', scripts: ACCESS_SCRIPTS, say },
    reopen,
    close: ({ db, fingerprint }) => closeSafely(db, file, fingerprint),
    verify({ fingerprint, keys }) {
      requireInPlace(file, fingerprint)
      requireHeader(file, 'access')
      hadKeys = keys.hasAny()
    },
    probe: ({ usage }) => usage.probe(),
  })
  const { use, health } = supervised
  /** Works with the open file, if there is one; failures are reported by the supervisor. */
  function tryWith(work: (opened: Opened) => void): void {
    try {
      use(work)
    } catch {
      // It is not open at the moment, or has failed.
    }
  }
  tryWith(({ keys }) => {
    hadKeys = keys.hasAny()
  })
  // When the worker has copied most of the WAL, the rest is copied here, between two commits: so
  // the next one finds all of it copied, and begins at its start.
  const checkpointer = createCheckpointer(file, 'access', () =>
    tryWith(({ db }) => db.run('pragma wal_checkpoint(passive)')),
  )
  /** Writes to the open file; throws if the file was removed, because the write is then lost. */
  const write = <T>(work: (usage: Opened['usage']) => T): T =>
    use(({ usage, fingerprint }) => {
      const result = work(usage)
      requireInPlace(file, fingerprint)
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
  /** Changes keys or plans in one transaction, which waits for those of other processes. */
  const change = <T>(work: (opened: Opened) => T): T =>
    use(opened => {
      const result = takeLock(() => work(opened), LOCK_WAIT)
      opened.keys.forget()
      requireInPlace(file, opened.fingerprint)
      return result
    })
  const keys: KeyReader & Registry['keys'] = {
    find: key => use(registry => registry.keys.find(key)),
    list: (...asked) => use(registry => registry.keys.list(...asked)),
    scan: (...asked) => use(registry => registry.keys.scan(...asked)),
    read: (id, nowMs) => use(registry => registry.keys.read(id, nowMs)),
    ending: (...range) => use(registry => registry.keys.ending(...range)),
    full: (...asked) => use(registry => registry.keys.full(...asked)),
    count: nowMs => use(registry => registry.keys.count(nowMs)),
    countByPlan: () => use(registry => registry.keys.countByPlan()),
    dump: () => use(registry => registry.keys.dump()),
    load: (stored, isTrial) => change(registry => registry.keys.load(stored, isTrial)),
    add: (key, nowMs) => change(registry => registry.keys.add(key, nowMs)),
    set: (id, changes) => change(registry => registry.keys.set(id, changes)),
    rotate: (...rotation) => change(registry => registry.keys.rotate(...rotation)),
    revoke: (id, nowMs) => change(registry => registry.keys.revoke(id, nowMs)),
    remove: id => change(registry => registry.keys.remove(id)),
  }
  const plans: Registry['plans'] = {
    list: () => use(registry => registry.plans.list()),
    set: plan => change(registry => registry.plans.set(plan)),
    remove: name => change(registry => registry.plans.remove(name)),
  }
  const usage: UsageStore = {
    admit: batch => write(store => store.admit(batch)),
    giveBack: batch => write(store => store.giveBack(batch)),
    consume: batch => write(store => store.consume(batch)),
    countNetworks: batch => use(registry => registry.usage.countNetworks(batch)),
    peek: (batch, nowMs) => use(registry => registry.usage.peek(batch, nowMs)),
    reset: (subject, part, nowMs) => write(store => store.reset(subject, part, nowMs)),
    note: answer => tryWith(registry => registry.usage.note(answer)),
    flush: keys => write(store => store.flush(keys)),
    history: (...range) => use(registry => registry.usage.history(...range)),
    prune: nowMs => use(registry => registry.usage.prune(nowMs)),
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
      supervised.tick()
      tryWith(() => write(store => store.flush('some')))
      tryWith(({ db }) => checkpointer.tick(db))
    },
    close(): void {
      checkpointer.close()
      tryWith(() => write(store => store.flush('all')))
      tryWith(() => write(store => store.fold()))
      supervised.close()
    },
  }
}
