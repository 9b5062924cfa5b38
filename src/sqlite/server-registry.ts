/**
 * Owns keys, plans and usage as the server holds them: supervised, and used only while their file
 * is in place.
 */
import { join } from 'node:path'
import type { KeyReader, UsageStore } from '../access/store.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { type OpenMode, requireHeader } from './database.ts'
import { createCheckpointer } from './integrity/checkpoint.ts'
import { closeSafely, fingerprintOf, requireInPlace } from './integrity/file-stamp.ts'
import { ACCESS_FILE, openRegistry } from './stores.ts'
import { supervise } from './supervise.ts'

/** The file in `dir`, as it is used while it is in its place. */
const openFile = (dir: string, mode: OpenMode = {}) => ({
  ...openRegistry(dir, { isServer: true, ...mode }),
  fingerprint: fingerprintOf(join(dir, ACCESS_FILE)),
})
type Opened = ReturnType<typeof openFile>

/** How the usage of the open file is reached. */
type Reach = {
  use: <T>(work: (opened: Opened) => T) => T
  write: <T>(work: (usage: Opened['usage']) => T) => T
  tryWith: (work: (opened: Opened) => void) => void
  probeOnce: () => unknown
}

/** The usage of whichever file is open. */
const createServerUsage = ({ use, write, tryWith, probeOnce }: Reach): UsageStore => ({
  admit: batch => write(store => store.admit(batch)),
  giveBack: batch => write(store => store.giveBack(batch)),
  consume: batch => write(store => store.consume(batch)),
  peek: batch => use(registry => registry.usage.peek(batch)),
  reset: (subject, part, nowMs) => write(store => store.reset(subject, part, nowMs)),
  note: answer => tryWith(registry => registry.usage.note(answer)),
  flush: () => write(store => store.flush()),
  history: (...range) => use(registry => registry.usage.history(...range)),
  prune: nowMs => use(registry => registry.usage.prune(nowMs)),
  probe() {
    const failure = probeOnce()
    if (failure !== null) throw failure
  },
})

/**
 * Keys, plans and usage in `dir`; `tick` is to be called every second.
 * @throws what `openRegistry` throws when they cannot be opened at first.
 */
export function openServerRegistry(dir: string, say: (sentence: string) => void) {
  const file = join(dir, ACCESS_FILE)
  const open = (mode?: OpenMode) => openFile(dir, mode)
  const supervised = supervise(open(), {
    file,
    reopen: () => open({ mustExist: true }),
    close: ({ db, fingerprint }: Opened) => closeSafely(db, file, fingerprint),
    verify({ fingerprint }) {
      requireInPlace(file, fingerprint)
      requireHeader(file, 'access')
    },
    probe: ({ usage }) => usage.probe(),
    say,
  })
  const { use } = supervised
  /** Works with the open file, if there is one; failures are reported by the supervisor. */
  function tryWith(work: (opened: Opened) => void): void {
    try {
      use(work)
    } catch {
      // It is not open at the moment, or has failed.
    }
  }
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
  /** The failure of a trial write, or `null`; one for all probes of a turn, because it may wait. */
  const probeOnce = oncePerTurn((): unknown => {
    try {
      write(usage => usage.probe())
      return null
    } catch (failure) {
      return failure
    }
  })
  const keys: KeyReader = { find: key => use(registry => registry.keys.find(key)) }
  const usage = createServerUsage({ use, write, tryWith, probeOnce })
  return {
    keys,
    usage,
    hasKeys: (): boolean => use(registry => registry.keys.hasAny()),
    tick(): void {
      supervised.tick()
      tryWith(() => write(store => store.flush()))
      tryWith(({ db }) => checkpointer.tick(db))
    },
    close(): void {
      checkpointer.close()
      tryWith(() => write(store => store.flush()))
      supervised.close()
    },
  }
}
