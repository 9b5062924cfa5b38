/**
 * What the parts of the checker tell each other, and its ports: the words of its results, what it remembers of
 * an address, and what it needs of a store (contract H).
 */
import type { Awaitable } from '../lib/awaitable.ts'
import type { Address, Anon, ProxyType, Service } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'

/** Why a check failed, with the sentence that `check explain` says. */
export const REASONS = {
  timeout: 'nobody answered the connection in time',
  refused: 'the connection was refused',
  reset: 'the connection was reset',
  unreachable: 'the address cannot be reached',
  closed: 'the connection was closed without an answer',
  'no answer': 'it connected, but sent no answer in time',
  'not a proxy': 'it answered, but not as a proxy that serves us',
  credentials: 'it wants a user and a password',
  'proxy error': 'it could not reach the judge',
  'too long': 'it sent more than was asked for',
  'not the judge': 'what it sent is not from the judge',
  forged: 'what it sent pretends to be from the judge: the signature is wrong',
  replayed: 'it sent an answer of the judge to another check',
  altered: 'it changed what the judge sent',
  intercepted: 'it broke the TLS connection to the judge open',
  forwarder: 'it forwards plainly to the judge, and is no proxy',
  'own address': 'it is the judge itself',
} as const satisfies { readonly [reason: string]: string }

export type Reason = keyof typeof REASONS

/** One connection of a check. */
export type Attempt = {
  type: ProxyType
  purpose: 'judge' | 'TLS' | 'speed' | Service
  /** `ok`, or why not. */
  result: 'ok' | Reason
  /** How long it took, in whole milliseconds. */
  ms: number
  /** What was seen, for people: a status, a name of a header. Never more than 80 characters. */
  detail: string
}

/** What a successful check measured. What it did not look at is missing. */
export type Measured = {
  type: ProxyType
  anon: Anon
  /** What made it less than elite: `peer`, or the name of a header; `''` for elite. */
  because: string
  /** The peer that the judge saw on the plain way; `''` when only TLS worked. */
  ipOut: string
  /** From dialling to the first byte of the judge; a probe knows it, and it is forgotten where we lagged: `null`. */
  pingMs: number | null
  /** Bytes per second. */
  speed?: number
  services?: Partial<Record<Service, boolean>>
  /** Whether TLS through it reached the judge unbroken. */
  hasTls?: boolean
}

/** What one check found; `deferred` says nothing of the address: something of ours was short. */
export type CheckResult = { attempts: readonly Attempt[]; bytes: number } & (
  | { kind: 'alive'; measured: Measured }
  | { kind: 'dead'; reason: Reason }
  | { kind: 'deferred'; why: string }
)

/** What a check is asked to find out besides type, anonymity and ping. */
export type CheckRequest = {
  address: Address
  /** The type it had, or its file said; `null` unknown. */
  known: ProxyType | null
  wantsSpeed: boolean
  wantsServices: boolean
  wantsTls: boolean
}

/** What ends work from outside: an `AbortSignal`, or what costs less where there are thousands, `Stop` of `dial.ts`. */
export type Stopping = {
  readonly aborted: boolean
  addEventListener(type: 'abort', run: () => void): void
  removeEventListener(type: 'abort', run: () => void): void
}

/** Checks one address. Never rejects; ends at once when `signal` is aborted. */
export type Probe = (request: CheckRequest, signal: Stopping) => Promise<CheckResult>

/** What a self-check found: the judge answers, or a sentence that says why it does not. */
export type SelfCheck =
  | {
      ok: true
      /** The judge's clock less ours. */
      offsetMs: number
      /** When the judge began, by our clock. */
      startedMs: number
    }
  | { ok: false; problem: string }

/** In order of precedence: alive at the last check; was alive once; never seen alive. */
export const QUEUES = ['living', 'down', 'raw'] as const
export type Queue = (typeof QUEUES)[number]

/** One past check of an address. */
export type Past = {
  /** Unix milliseconds. */
  at: number
  result: 'ok' | Reason
  attempts: readonly Attempt[]
  measured?: Measured
}

/**
 * What is remembered of an address. Times but those of `history` are of the schedule's clock: Unix milliseconds
 * where no clock was ever wrong, and they never step (`checker.ts`).
 */
export type Candidate = {
  /** See `idOf`. */
  id: number
  queue: Queue
  /** When it is due, and from when on idle budget may go to it, which is not later. */
  nextAtMs: number
  idleAtMs: number
  /** Its last success; `null` never. */
  okAtMs: number | null
  /** The type that a file or the list says; `null` unknown. */
  hint: ProxyType | null
  /** When it was first parsed of. */
  addedMs: number
  /** Failures since the last success. */
  streak: number
  /** How much of its checks succeeded; `null` never checked, and nobody says. */
  works: Works | null
  checkedMs: number | null
  /** What was measured last, and when the rarer measurements were made. */
  measured: Measured | null
  speedMs: number | null
  servicesMs: number | null
  tlsMs: number | null
  /** The checks of the last twenty attempts, newest first. */
  history: readonly Past[]
}

/** Weighted seconds of successes and of all checks, as of `checkedMs`, and how many checks those are. */
export type Works = { good: number; total: number; checks: number }

type QueueCounts = { readonly [Q in Queue]: number }

/** What a checker must not forget when it starts again. */
export type Ledger = {
  /** The latest that the schedule's clock has shown. */
  atMs: number
  /** The UTC day of that clock, and the bytes that measuring speeds has cost on it. */
  day: number
  speedBytes: number
}

/** An address that comes later: not before `untilMs`, when it is due; with `asItIs`, if it is not due later. */
export type Postponed = { id: number; untilMs: number; asItIs: boolean }

/** What is checked is stored after what is postponed. */
export type Batch = {
  checked: readonly Candidate[]
  forgotten: readonly number[]
  postponed: readonly Postponed[]
  ledger: Ledger
}

/** The memory of the checker, which nobody else writes. Failures are `StoreError`s. */
export interface CandidateStore {
  /** Adds those that are not there; returns how many. */
  add(candidates: readonly Candidate[]): number
  find(id: number): Candidate | null
  /** Addresses of a queue that are due, the longest due first, without those that are excluded. */
  due(queue: Queue, nowMs: number, count: number, excluded: ReadonlySet<number>): number[]
  /** Addresses that are not due and may be checked early, the next due first. */
  idle(nowMs: number, count: number, excluded: ReadonlySet<number>): number[]
  /** Stores a batch in one transaction. */
  save(batch: Batch): void
  /** `null` before the first batch. */
  ledger(): Ledger | null
  counts(): QueueCounts
  /** Of the living, how many succeeded since. */
  freshSince(ms: number): number
  /** How late the latest of the living is, in milliseconds; 0 when none is due. */
  lagMs(nowMs: number): number
}

/** What the checker reads of a row of the list; `checkedAt` in Unix seconds. */
export type ListedRow = Address & {
  type: ProxyType
  checkedAt: number
  works: number | null
  speed: number | null
  pingMs: number | null
}

/** The list, as the checker reads and writes it. Failures are `StoreError`s. */
export interface CheckerList {
  begin(mode: 'set'): Pick<ImportTx, 'lock' | 'add' | 'lower' | 'commit' | 'rollback'>
  /** A string that changes when others have changed the list. */
  version(): Awaitable<string>
  /** The first rows after an id, by id; none at the end. */
  page(afterId: number): Awaitable<readonly ListedRow[]>
  /** The rows of these ids that are there. */
  find(ids: readonly number[]): Awaitable<readonly ListedRow[]>
}

/** What the server, its metrics and its console show of the checker. */
export type CheckerStatus = {
  /** When it was written, Unix milliseconds. */
  at: number
  startedMs: number
  /** Whether its run ends by itself: then nobody misses it. */
  once: boolean
  /** `null` while the judge answers, else what is wrong, since when. */
  judgeProblem: { sentence: string; sinceMs: number } | null
  queues: QueueCounts
  /** Checks begun, found alive, and put off, since the start. */
  checked: number
  alive: number
  deferred: number
  /** Failures by reason since the start. */
  failures: { readonly [reason in Reason]?: number }
  /** Checks a second, over the last minute. */
  rate: number
  /** Share of the living that succeeded within the last ten minutes, 0–1; `null` without any. */
  coverage: number | null
  lagSeconds: number
  /** Bytes sent and received since the start. */
  bytes: number
  /** The rate that would keep the living fresh; `null` when this one does. */
  neededRate: number | null
}

/** Where the status stands: written by the checker, read by servers. */
export interface CheckerStatusStore {
  write(status: CheckerStatus): Awaitable<void>
  /** `null` when no checker ever ran. */
  read(): Awaitable<CheckerStatus | null>
}
