/**
 * Owns the two databases as the server holds them: opened anew when need be, used only while
 * their files are in place, and the list only while it is known to be whole.
 */

import { join } from 'node:path'
import { createAccess } from '../access/access.ts'
import { isDatabaseFailure, messageOf, Unavailable } from '../api/errors.ts'
import { ACCESS_FILE, damagedList, openBulk, openList, openRegistry, PROXY_FILE } from '../app.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { startWorker } from '../lib/worker.ts'
import type { Filter } from '../proxies/proxy.ts'
import { explain, isDamage, isWorn } from './database.ts'
import type { Checked } from './integrity/check.worker.ts'
import {
  breakSeal,
  closeWherever,
  createWatch,
  emptyLog,
  isSameMark,
  isSealed,
  logBytes,
  type Mark,
  markOf,
  requireInPlace,
} from './integrity/file-stamp.ts'
import { createHandle } from './supervise.ts'

type Say = (sentence: string) => void

/** The list is checked this often even when nothing tells of a change, in calls of `tend`. */
const CHECK_EVERY = 3600
/** The first check leaves the start its processor. */
const FIRST_CHECK = 10
/** Calls of `tend` for which another process may leave a change of the list unsealed. */
const UNSEALED_MAX = 10

/**
 * Keys, plans and usage in `dir`; `tend` is to be called every second.
 * @throws what `openRegistry` throws when they cannot be opened to begin with.
 */
export function holdRegistry(dir: string, say: Say) {
  const file = join(dir, ACCESS_FILE)
  const open = (again: boolean) => ({
    ...openRegistry(dir, true, again),
    mark: markOf(file),
  })
  const { use, tend, close } = createHandle(open(false), {
    name: file,
    reopen: () => open(true),
    close: ({ db, mark }) => closeWherever(db, file, mark),
    look: ({ mark }) => requireInPlace(file, mark),
    probe: ({ usage }) => usage.probe(),
    isWorn,
    explain: failure => explain(file, failure),
    say,
  })
  type Opened = ReturnType<typeof open>
  /** Writes with what is open; what was written to a file that is gone does not count. */
  const write = <T>(work: (usage: Opened['usage']) => T): T =>
    use(({ usage, mark }) => {
      const result = work(usage)
      requireInPlace(file, mark)
      return result
    })
  /** What writing fails with: tried once for all who ask in a turn, because it may wait. */
  const probeOnce = oncePerTurn((): unknown => {
    try {
      write(usage => usage.probe())
      return null
    } catch (failure) {
      return failure
    }
  })
  return {
    access: createAccess(key => use(({ keys }) => keys.find(key)), {
      transaction: work => write(usage => usage.transaction(work)),
      read: subject => use(({ usage }) => usage.read(subject)),
    }),
    hasKeys: (nowMs: number): boolean => use(({ keys }) => keys.list(nowMs).length > 0),
    removeStale: (nowMs: number): boolean => use(({ usage }) => usage.removeStale(nowMs)),
    /** @throws when usage cannot be written. */
    probe(): void {
      const failure = probeOnce()
      if (failure !== null) throw failure
    },
    tend,
    close,
  }
}

/** Checks a list in a thread of its own, one check at a time. */
function createChecker(file: string, ended: (checked: Checked) => void) {
  let worker: Worker | null = null
  const end = (checked: Checked): void => {
    worker?.terminate()
    worker = null
    ended(checked)
  }
  return {
    start(): void {
      if (worker !== null) return
      worker = startWorker('sqlite/integrity/check.worker.ts')
      worker.onmessage = ({ data }: MessageEvent<Checked>) => end(data)
      worker.onerror = ({ message }) => end({ failed: message })
      worker.unref()
      worker.postMessage(file)
    },
    close: (): void => void worker?.terminate(),
  }
}

/** The list in `dir` behind a handle, and the check that decides whether it may be used. */
function createWholeList(dir: string, say: Say) {
  const file = join(dir, PROXY_FILE)
  /** Why the list may not be used until its files change, or a check finds it whole. */
  let damage: { failure: Unavailable; mark: Mark | null } | null = null
  let doubt: Unavailable | null = null
  /** The files as a check has found them whole: not every file system keeps a seal. */
  let cleared: Mark | null = null

  const checker = createChecker(file, checked => {
    if ('failed' in checked) return say(`${file} could not be checked: ${checked.failed}`)
    doubt = null
    cleared = checked.mark
    if (checked.problems.length > 0) {
      const failure = damagedList(file, checked.problems)
      damage = { failure, mark: markOf(file) }
      handle.fail(failure)
    }
    handle.tend()
  })

  function open(again: boolean) {
    if (damage && isSameMark(damage.mark, markOf(file))) throw damage.failure
    const list = openList(dir, true, again)
    const opened = { ...list, mark: markOf(file), watch: createWatch(list.db, file) }
    const isWhole = isSealed(list.db, file) || (cleared && isSameMark(cleared, opened.mark))
    if (isWhole) return { ...opened, look: oncePerTurn(opened.watch.look) }
    list.close()
    doubt ??= new Unavailable(`${file} was not left in order and is being checked`)
    checker.start()
    throw doubt
  }
  function begin(): ReturnType<typeof open> | null {
    try {
      return open(false)
    } catch (failure) {
      if (!isDatabaseFailure(failure)) throw failure
      return null // the handle says why when it is tended
    }
  }
  const handle = createHandle(begin(), {
    name: file,
    reopen: () => open(true),
    close({ db, mark }) {
      try {
        if (logBytes(file) > 0 && isSealed(db, file)) emptyLog(db, file)
      } catch {
        // It is closed because it fails.
      }
      closeWherever(db, file, mark)
    },
    look: ({ watch }) => watch.look(),
    probe: ({ proxies }) => void proxies.isEmpty(),
    isWorn(failure) {
      if (failure instanceof Unavailable) doubt ??= failure
      if (isDamage(failure)) breakSeal(file)
      return isWorn(failure)
    },
    explain: failure => explain(file, failure),
    say,
  })
  return { ...handle, check: checker.start, closeChecker: checker.close }
}

/** The list in `dir`; `tend` is to be called every second. */
export function holdList(dir: string, provider: string, say: Say) {
  const whole = createWholeList(dir, say)
  const { use, generation, check } = whole
  let tended = 0
  let unsealed = 0
  let isSwept = true

  /** @throws Unavailable unless the list is whole, as far as that can be told at once. */
  const look = (): void => use(({ look }) => look())

  const bulk = openBulk(dir, provider, {
    look,
    failed(failure) {
      if (isDamage(failure)) whole.fail(failure)
      else if (isDatabaseFailure(failure)) whole.report(failure)
      else say(`a long answer broke off: ${messageOf(failure)}`)
    },
  })

  return {
    bulk,
    /** A number that changes with the list. */
    version: (): number =>
      use(({ look, proxies }) => {
        look()
        return generation() * 2 ** 40 + proxies.version()
      }),
    select: (filter: Filter, masked: boolean, nowMs: number, detail: 'all' | 'address') =>
      use(({ proxies }) => proxies.selectQuickly(filter, masked, nowMs, detail)),
    isEmpty: (): boolean => use(({ proxies }) => proxies.isEmpty()),
    /** Removes a slice of rows checked before `cutoffMs`; says whether more may remain. */
    removeOlderThan: (cutoffMs: number): boolean =>
      use(({ proxies, settle }) => {
        try {
          const before = proxies.version()
          const mayRemain = proxies.removeOlderThan(cutoffMs)
          isSwept &&= proxies.version() === before
          if (mayRemain || isSwept) return mayRemain
          settle()
          isSwept = true
        } catch (failure) {
          if (isDamage(failure)) throw failure // else an import has the list, or the disk is full
        }
        return false
      }),
    tend(): void {
      whole.tend()
      if (tended++ % CHECK_EVERY === FIRST_CHECK) check()
      try {
        unsealed = use(({ watch }) => watch.isUnsealed()) ? unsealed + 1 : 0
      } catch {
        unsealed = 0 // there is no list at the moment
      }
      if (unsealed > UNSEALED_MAX) check()
    },
    close(): void {
      bulk.close()
      whole.closeChecker()
      whole.close()
    },
  }
}

/** A list in memory, which nothing but this process can change or damage. */
export function holdSample() {
  const list = openList(null)
  const { select, version, isEmpty } = list.proxies
  return { sample: list, select, version, isEmpty, tend(): void {}, close: list.close }
}
