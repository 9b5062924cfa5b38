/**
 * How many long answers are under way at once (contract B8, B9). Of one key or client address: on all servers
 * of a data directory together, counted by leases. Of all: on this server, by a semaphore; a further one
 * waits for a slot, and the next one is of who holds fewest. Knows nothing of how answers are found or sent.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Tenant } from '../../access/entitlements.ts'
import { ApiError, type ErrorCode } from '../../api/errors.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import type { Later } from '../../lib/clock.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { lockPath } from '../database-files.ts'

/** Ends a lease; calls after the first do nothing. */
export type Release = () => void
/** Counts a long answer of `tenant`; `null` if others have as many as it may have. */
export type TakeLease = (tenant: Tenant) => Release | null

/** A refusal of what may be tried again in a second. */
export const refusal = (code: ErrorCode, message: string): ApiError =>
  new ApiError(code, message, { retryAfterSeconds: 1 })

/** Without the address or id, and without characters that a file name cannot have. */
const nameOf = ({ id, isTrial }: Tenant): string =>
  `answer-${Bun.hash.xxHash64(`${isTrial} ${id}`).toString(36)}`
const LEFT_BEHIND = /^answer-[0-9a-z]+-\d+(?=\.lock$)/

/** Locks a path, in about 0.1 ms; `null` if it is locked. */
function lock(path: string): Release | null {
  try {
    return lockPath(path, 0)
  } catch {
    const what = 'long answers cannot be counted, because the data directory cannot be written'
    throw refusal('DB_EXECUTE_FAILED', what)
  }
}

/** Ends the locks of killed servers, of which the files are left. */
function removeLeftovers(dir: string): void {
  for (const file of readdirSync(dir).flatMap(name => LEFT_BEHIND.exec(name)?.[0] ?? [])) {
    try {
      lockPath(join(dir, file), 0)?.()
    } catch {
      // The directory cannot be written at the moment; the next start tries again.
    }
  }
}

/**
 * Leases in a data directory: each is the lock on one of as many files as a tenant may have answers. The
 * operating system ends a lock with its process, so nothing stays counted when a server is killed.
 */
export function createLeases(dir: string) {
  const held = new Set<Release>()
  removeLeftovers(dir)

  const take: TakeLease = tenant => {
    const { downloads } = tenant
    if (downloads === null) return () => {}
    for (let n = 0; n < downloads; n += 1) {
      const unlock = lock(join(dir, `${nameOf(tenant)}-${n}`))
      if (unlock === null) continue
      held.add(unlock)
      return () => {
        if (!held.delete(unlock)) return
        try {
          unlock()
        } catch {
          // The lock has ended; only its file could not be removed.
        }
      }
    }
    return null
  }
  return {
    /** @throws ApiError DB_EXECUTE_FAILED when the directory cannot be written. */
    take,
    close(): void {
      for (const unlock of held) unlock()
      held.clear()
    },
  }
}

/** A reader that has not asked for its next chunk for so long is slow: below 128 KB/s. */
const SLOW_MS = 2_000
/** A stream of this age may be ended when others wait, in milliseconds. */
const OLD_MS = 60_000
/** Most long answers waiting for a slot, of one tenant and of all. */
const WAITING_EACH_MAX = 64
const WAITING_MAX = 1_000
/** How often a tenant tries again whether another server has released what it may have. */
const RETRY_MS = 100

export type Sending = {
  /** How long its reader has not asked for the next chunk, and its age, in milliseconds. */
  idleMs: () => number
  ageMs: () => number
  end: () => void
}

export type Slot = {
  /** Says that the answer is being sent now: it may be ended if others wait for a slot. */
  send: (sending: Sending) => void
  /** Frees the slot; calls after the first do nothing. */
  release: () => void
}

type Held = { sending: Sending | null }
/** `grant` takes a slot if that can be had; `fail` ends the wait. */
type Waiting = { sinceMs: number; grant: () => void; fail: (error: unknown) => void }
/** A key or client address. It is blocked while other servers hold all that it may have besides. */
type Client = { tenant: Tenant; held: Set<Held>; waiting: Set<Waiting>; isBlocked: boolean }

const mayHoldMore = ({ tenant: { downloads }, held, isBlocked }: Client): boolean =>
  !isBlocked && (downloads === null || held.size < downloads)

/** The answers of a client that may be ended, in this order: those whose readers are slow, then old ones. */
function dispensable({ held }: Client): Sending[] {
  const sent = [...held].flatMap(({ sending }) => sending ?? [])
  const slow = sent.filter(each => each.idleMs() >= SLOW_MS)
  const old = sent.filter(each => each.ageMs() >= OLD_MS)
  slow.sort((a, b) => b.idleMs() - a.idleMs())
  return [...slow, ...old.sort((a, b) => b.ageMs() - a.ageMs())]
}

const stopping = (): ApiError =>
  refusal('DB_EXECUTE_FAILED', 'the server is stopping; try again shortly')

type Slots = Pick<SemaphoreOptions, 'slots' | 'what'>

/** Why an answer of a client does not get one of the slots. */
function refusalOf(client: Client, { slots, what }: Slots): ApiError {
  const { isTrial, downloads } = client.tenant
  const isOwnLimit = !mayHoldMore(client) || client.held.size === slots
  if (!isOwnLimit && !isTrial) {
    return refusal('DB_EXECUTE_FAILED', `too many ${what}s are under way; try again shortly`)
  }
  const limit = isOwnLimit ? Math.min(downloads ?? slots, slots) : slots
  const answers = `${limit} ${what}${limit === 1 ? '' : 's'}`
  const trial = isOwnLimit
    ? 'the demo and temporary keys of an address'
    : 'all demo and temporary keys'
  const whose = isTrial ? trial : 'this key'
  return refusal(
    'RATE_LIMIT_EXCEEDED',
    `${whose} may have ${answers} under way at once; retry after 1 s`,
  )
}

export type SemaphoreOptions = {
  slots: number
  /** What they are for, in the singular. */
  what: string
  waitMsMax: number
  later: Later
  elapsedMs: () => number
  takeLease: TakeLease
}

/** A semaphore that is fair between clients. */
export function createSemaphore(options: SemaphoreOptions) {
  const { slots, waitMsMax, later, elapsedMs, takeLease } = options
  const clients = new Map<string, Client>()
  let held = 0
  let waiting = 0
  let isRetryDue = false
  let isRelieving = false
  let isStopping = false

  function clientOf(tenant: Tenant): Client {
    const client = clients.get(tenant.id) ?? {
      ...{ tenant, held: new Set(), waiting: new Set(), isBlocked: false },
    }
    client.tenant = tenant // the plan may have changed
    clients.set(tenant.id, client)
    return client
  }

  function forgetUnused(client: Client): void {
    if (client.held.size === 0 && client.waiting.size === 0) clients.delete(client.tenant.id)
  }

  /** Of those that wait and may hold more, one that holds least, and waits longest of these. */
  function nextClient(): Client | null {
    let next: Client | null = null
    let nextSinceMs = Infinity
    for (const client of clients.values()) {
      const [first] = client.waiting
      if (first === undefined || !mayHoldMore(client)) continue
      const more = client.held.size - (next?.held.size ?? Infinity)
      if (more > 0 || (more === 0 && first.sinceMs >= nextSinceMs)) continue
      next = client
      nextSinceMs = first.sinceMs
    }
    return next
  }

  function grantNext(): void {
    while (held < slots && waiting > 0) {
      const [first] = nextClient()?.waiting ?? []
      if (first === undefined) return
      first.grant()
    }
  }

  /** Blocks a client, and tries again for those that are blocked, after a while. */
  function block(client: Client): null {
    client.isBlocked = true
    if (isRetryDue) return null
    isRetryDue = true
    later(() => {
      isRetryDue = false
      for (const client of clients.values()) client.isBlocked = false
      grantNext()
    }, RETRY_MS)
    return null
  }

  /** A slot; `null` if other servers hold what the client may have. */
  function take(client: Client): Slot | null {
    const endLease = takeLease(client.tenant)
    if (endLease === null) return block(client)
    const one: Held = { sending: null }
    client.held.add(one)
    held += 1
    return {
      send(sending) {
        one.sending = sending
      },
      release() {
        if (!client.held.delete(one)) return
        held -= 1
        endLease()
        client.isBlocked = false
        forgetUnused(client)
        grantNext()
      },
    }
  }

  function wait(client: Client): Promise<Slot> {
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const leave = (): void => {
      if (client.waiting.delete(one)) waiting -= 1
      cancelTimer()
    }
    const one: Waiting = {
      sinceMs: elapsedMs(),
      grant() {
        try {
          const slot = take(client)
          if (slot === null) return
          leave()
          resolve(slot)
        } catch (error) {
          one.fail(error)
        }
      },
      fail(error) {
        leave()
        forgetUnused(client)
        reject(error)
      },
    }
    const cancelTimer = later(() => one.fail(refusalOf(client, options)), waitMsMax)
    client.waiting.add(one)
    waiting += 1
    return promise
  }

  /** While all slots are taken, who has two more than one that waits loses one: slow reading keeps nobody out. */
  function relieve(): void {
    const needy = held < slots ? null : nextClient()
    if (needy === null) return
    const before = waiting
    const holders = [...clients.values()].filter(each => each.held.size >= needy.held.size + 2)
    holders.sort((a, b) => b.held.size - a.held.size)
    holders.flatMap(dispensable)[0]?.end()
    if (waiting < before) relieve() // the next one that waits
  }

  function relieveEverySecond(): void {
    relieve()
    isRelieving = waiting > 0
    if (isRelieving) later(relieveEverySecond, SECOND_MS)
  }

  return {
    /**
     * A slot for a long answer, at once or when others are released. @throws ApiError RATE_LIMIT_EXCEEDED when the
     * tenant, or trial keys together, keep theirs for too long; DB_EXECUTE_FAILED when keys on plans do.
     */
    acquire(tenant: Tenant): Awaitable<Slot> {
      const client = clientOf(tenant)
      try {
        const isFirst = held < slots && client.waiting.size === 0 && mayHoldMore(client)
        const slot = isFirst ? take(client) : null
        if (slot !== null) return slot
        if (isStopping) throw stopping()
        if (client.waiting.size >= WAITING_EACH_MAX || waiting >= WAITING_MAX) {
          throw refusalOf(client, options)
        }
      } catch (error) {
        forgetUnused(client)
        throw error
      }
      const slot = wait(client)
      if (isRelieving) relieve()
      else relieveEverySecond()
      return slot
    },

    /** Refuses what waits, and what would wait from now on. */
    refuseWaiting(): void {
      isStopping = true
      for (const client of [...clients.values()]) {
        for (const one of [...client.waiting]) one.fail(stopping())
      }
    },
  }
}
