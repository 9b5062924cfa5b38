/** The types that the files of the checker share, and its ports (contract H). */
import type { Awaitable } from '../lib/awaitable.ts'
import type { Address, Anon, CandidateRow, ProxyType, Service } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'

/** The reasons for failure, in order of significance, and their sentences in `check explain`. */
export const REASONS = {
  timeout: 'the connection timed out',
  refused: 'the connection was refused',
  reset: 'the connection was reset',
  unreachable: 'the address cannot be reached',
  closed: 'the connection was closed without an answer',
  'no answer': 'it connected, but sent no answer in time',
  'not a proxy': 'it answered, but not as an open proxy',
  credentials: 'it requires a user and a password',
  'proxy error': 'it could not reach the judge',
  'too long': 'it sent more bytes than requested',
  'not the judge': 'its response is not from the judge',
  forged: 'it forged a response of the judge: the signature is wrong',
  replayed: 'it sent the response of the judge to another check',
  altered: 'it changed the response of the judge',
  intercepted: 'it intercepted the TLS connection to the judge',
  forwarder: 'it forwards all requests to the judge, and is not a proxy',
  'own address': 'it is the judge itself',
} as const satisfies { readonly [reason: string]: string }

export type Reason = keyof typeof REASONS

export type Attempt = {
  type: ProxyType
  purpose: 'judge' | 'TLS' | 'speed' | Service
  result: 'ok' | Reason
  ms: number
  /** For people: a status or an error code. */
  detail: string
}

/** The results of a successful check. Values that it did not measure are missing. */
export type Measured = {
  type: ProxyType
  /** The other named types that work. */
  others?: readonly ProxyType[]
  /** The other named types that it did not try, or that timed out. */
  undecided?: readonly ProxyType[]
  anon: Anon
  /** Why it is not elite: `peer`, or the name of a header; `''` for elite. */
  because: string
  /** The peer that the judge saw without TLS; `''` when only TLS worked. */
  ipOut: string
  /** From dialing to the first byte of the judge; `null` if this program lagged. */
  pingMs: number | null
  /** Bytes per second. */
  speed?: number
  services?: Partial<Record<Service, boolean>>
  /** Whether TLS through it reached the judge unbroken. */
  hasTls?: boolean
}

/** The result of a check. `deferred`: this machine had a problem, so the check says nothing about the address. */
export type CheckResult = { attempts: readonly Attempt[]; bytes: number } & (
  | { kind: 'alive'; measured: Measured }
  | { kind: 'dead'; reason: Reason }
  | { kind: 'deferred'; why: string }
)

/** A check to make. It always measures type, anonymity and ping. */
export type CheckRequest = {
  address: Address
  /** The type at the last success, or the best that a source named; `null`: unknown. */
  known: ProxyType | null
  /** The types that sources named, see `proxies/types.ts`; 0: unknown. */
  named: number
  wantsSpeed: boolean
  wantsServices: boolean
  wantsTls: boolean
}

/** The result of a self-check; `runsForMs`: how long ago the judge started; `problem`: a sentence. */
export type SelfCheck = { ok: true; runsForMs: number } | { ok: false; problem: string }

/** In order of precedence: alive at the last check, alive before, never seen alive. */
export const QUEUES = ['living', 'down', 'raw'] as const
export type Queue = (typeof QUEUES)[number]

export type Past = {
  /** Unix milliseconds. */
  at: number
  result: 'ok' | Reason
  attempts: readonly Attempt[]
  measured?: Measured
}

/** The checker's memory of an address. Times are in Unix milliseconds. */
export type Candidate = {
  /** See `idOf`. */
  id: number
  queue: Queue
  /** When it is due, and from when on an idle checker may check it. */
  nextAtMs: number
  idleAtMs: number
  /** The last success; `null`: never. */
  okAtMs: number | null
  /** The types that work or may work, and the ones that sources have named since; see `proxies/types.ts`. */
  named: number
  addedMs: number
  /** Failures since the last success. */
  streak: number
  /** The share of checks that succeeded; `null`: unknown. */
  works: Works | null
  checkedMs: number | null
  /** The last measurements, and when speed, services and TLS were measured. */
  measured: Measured | null
  speedMs: number | null
  servicesMs: number | null
  tlsMs: number | null
  /** The checks of the last twenty attempts, newest first. */
  history: readonly Past[]
}

/** The weighted seconds of successes and of all checks, as of `checkedMs`, and the number of checks. */
export type Works = { good: number; total: number; checks: number }

type QueueCounts = { readonly [Q in Queue]: number }

/** The bytes that measurements of speed took on a UTC day. */
export type Ledger = { day: number; speedBytes: number }

/** An address that is not due before `untilMs`. */
export type Postponed = { id: number; untilMs: number }

/** The store saves `checked` after `postponed`. */
export type Batch = {
  checked: readonly Candidate[]
  forgotten: readonly number[]
  postponed: readonly Postponed[]
  ledger: Ledger
}

/** The store of candidates. Only the checker writes to it. Failures are `StoreError`s. */
export interface CandidateStore {
  /** Adds candidates that are new; returns how many. */
  add(candidates: readonly Candidate[]): number
  find(id: number): Candidate | null
  /** Visits due addresses of a queue, the longest due first, until `visit` returns false. */
  due(queue: Queue, nowMs: number, visit: (id: number) => boolean): void
  /** Addresses that are not due and may be checked early, the next due first. */
  idle(nowMs: number, count: number, excluded: ReadonlySet<number>): number[]
  save(batch: Batch): void
  ledger(): Ledger | null
  counts(): QueueCounts
  /** The number of living addresses whose last success is later than `ms`. */
  freshSince(ms: number): number
  /** For how many milliseconds the oldest living address has been due; 0 if none is due. */
  lagMs(nowMs: number): number
}

/** The list that the checker reads and writes. Failures are `StoreError`s. */
export interface CheckerList {
  begin(
    mode: 'set',
    onWait?: () => void,
  ): Pick<ImportTx, 'lock' | 'add' | 'lower' | 'commit' | 'rollback'>
  /** A string that changes when another process changes the list. */
  version(): Awaitable<string>
  /** Rows in the order of their ids, from the first one after `afterId`; none at the end. */
  page(afterId: number): Awaitable<readonly CandidateRow[]>
}

/** The status that the server shows in its metrics and its console. */
export type CheckerStatus = {
  /** When it was written, Unix milliseconds. */
  at: number
  startedMs: number
  /** Whether the run ends by itself: then it is no problem that the status is old. */
  once: boolean
  /** `null` while the judge answers. */
  judgeProblem: { sentence: string; sinceMs: number } | null
  queues: QueueCounts
  /** Checks started, found alive, and deferred, since the start. */
  checked: number
  alive: number
  deferred: number
  failures: { readonly [reason in Reason]?: number }
  /** Checks a second, over the last minute. */
  rate: number
  /** The share of the living that succeeded within the last ten minutes, 0–1; `null` if there are none. */
  coverage: number | null
  lagSeconds: number
  bytes: number
  /** The rate that would keep the living fresh; `null` if the current rate does. */
  neededRate: number | null
}

export interface CheckerStatusStore {
  write(status: CheckerStatus): Awaitable<void>
  read(): Awaitable<CheckerStatus | null>
}
