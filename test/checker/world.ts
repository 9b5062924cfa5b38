/** A checker with a fake clock, timers, proxies, judge and list. */
import { type CheckerOptions, createChecker } from '../../src/checker/checker.ts'
import type {
  CheckerList,
  CheckerStatus,
  CheckRequest,
  CheckResult,
  Measured,
  Reason,
  SelfCheck,
} from '../../src/checker/ports.ts'
import { orAborted } from '../../src/lib/errors.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import {
  addressText,
  type CandidateRow,
  type IncomingProxy,
  parseAddress,
} from '../../src/proxies/proxy.ts'
import { idOf } from '../../src/proxies/row.ts'
import { openCandidates } from '../../src/sqlite/candidates.ts'
import { T0 } from '../support/fixtures.ts'
import { createRandom } from '../support/random.ts'
import { onCleanUp } from '../support/temporary.ts'

/** A stopwatch, timers and a clock that a test moves. */
export function createTime() {
  let elapsedMs = 0
  let stepMs = 0
  let timers: { run: () => void; at: number }[] = []
  const settle = (): Promise<void> => new Promise(resume => setImmediate(resume))
  return {
    elapsedMs: (): number => elapsedMs,
    clock: (): number => T0 + elapsedMs + stepMs,
    /** Sets the clock of the machine. */
    step(ms: number): void {
      stepMs += ms
    },
    /** The program hangs for so long. */
    stall(ms: number): void {
      elapsedMs += ms
    },
    later(run: () => void, ms: number): () => void {
      const timer = { run, at: elapsedMs + ms }
      timers.push(timer)
      return () => {
        timers = timers.filter(other => other !== timer)
      }
    },
    /** Lets time pass: runs timers when they are due, and waits for their effects. */
    async pass(ms: number): Promise<void> {
      const until = elapsedMs + ms
      await settle()
      for (;;) {
        const next = timers.reduce((least, { at }) => Math.min(least, at), Number.POSITIVE_INFINITY)
        if (next > until) break
        elapsedMs = Math.max(elapsedMs, next)
        const due = timers.filter(({ at }) => at <= elapsedMs)
        timers = timers.filter(({ at }) => at > elapsedMs)
        for (const { run } of due) run()
        await settle()
      }
      elapsedMs = Math.max(elapsedMs, until)
    },
  }
}
export type TestTime = ReturnType<typeof createTime>

/** A list in memory. */
export function createTestList() {
  const rows = new Map<number, IncomingProxy>()
  let version = 0
  const toListed = ({ ip, port, types, checkedAt, works }: IncomingProxy): CandidateRow => ({
    ...{ ip, port, types, checkedAt, works },
  })
  const list = {
    rows,
    /** Transactions so far, and rows lowered. */
    commits: 0,
    lowered: 0,
    /** The error of each transaction. */
    failure: null as Error | null,
    /** Another import has locked the list until this resolves. */
    locked: null as Promise<void> | null,
    /** Adds a row as another process does. */
    put(row: Partial<IncomingProxy> & { address: string; ageSeconds: number }): void {
      const { address, ageSeconds, ...rest } = row
      const at = parseAddress(address)
      if (at === null) throw new Error(address)
      version += 1
      rows.set(idOf(at), {
        ...at,
        ...{ types: 1, checkedAt: T0 / 1000 - ageSeconds, ipOut: '', anon: '' },
        ...{ speed: null, pingMs: null, country: '', city: '', cityEn: '', works: null },
        ...{ services: new Set(), servicesStated: new Set(), ...rest },
      })
    },
    row(address: string): IncomingProxy | undefined {
      return [...rows.values()].find(row => addressText(row) === address)
    },
    version: () => String(version),
    page: (afterId: number): CandidateRow[] =>
      [...rows]
        .filter(([id]) => id > afterId)
        .sort(([a], [b]) => a - b)
        .slice(0, 2_000)
        .map(([, row]) => toListed(row)),
    begin(_: 'set', onWait = () => {}) {
      const changes: (() => void)[] = []
      return {
        async lock(signal?: AbortSignal): Promise<void> {
          if (list.locked !== null) {
            onWait()
            await orAborted(list.locked, signal ?? new AbortController().signal)
          }
          if (list.failure !== null) throw list.failure
        },
        add: (row: IncomingProxy): void =>
          void changes.push(() => {
            const { speed, pingMs, works } = rows.get(idOf(row)) ?? row
            rows.set(idOf(row), {
              ...row,
              speed: row.speed ?? speed,
              pingMs: row.pingMs ?? pingMs,
              works: row.works ?? works,
            })
          }),
        lower: (address: Parameters<typeof idOf>[0], works: number | null): void =>
          void changes.push(() => {
            const row = rows.get(idOf(address))
            if (row === undefined || row.works === works) return
            rows.set(idOf(address), { ...row, works })
            list.lowered += 1
          }),
        commit() {
          list.commits += 1
          version += 1
          for (const change of changes) change()
          return { added: 0, updated: 0, unchanged: 0, removed: 0 }
        },
        rollback() {},
      }
    },
  }
  return list satisfies CheckerList & { [member: string]: unknown }
}

export const alive = (measured: Partial<Measured> = {}): CheckResult => ({
  ...{ kind: 'alive', bytes: 600 },
  attempts: [{ type: 'http', purpose: 'judge', result: 'ok', ms: 300, detail: '200' }],
  measured: { type: 'http', anon: 'elite', because: '', ipOut: '', pingMs: 100, ...measured },
})
export const dead = (reason: Reason = 'timeout'): CheckResult => ({
  ...{ kind: 'dead', reason, bytes: 200 },
  attempts: [{ type: 'http', purpose: 'judge', result: reason, ms: 12_000, detail: '' }],
})

/** A checker in a fake world. `cleanUp` closes it. */
export function createWorld(options: Partial<CheckerOptions> = {}) {
  const time = createTime()
  const list = createTestList()
  const world = {
    time,
    list,
    store: openCandidates(null),
    /** The result of a check, and how long the check takes. */
    answer: (_: CheckRequest, _beganMs: number): CheckResult => alive(),
    takesMs: (_: CheckRequest): number => 300,
    /** The result of a self-check. */
    judge: (): SelfCheck => ({ ok: true, runsForMs: 1000 * SECOND_MS }),
    selfChecks: 0,
    said: [] as string[],
    /** Checks in the order of their start. */
    begun: [] as { address: string; at: number; request: CheckRequest }[],
    inFlight: new Map<string, number>(),
    status: null as CheckerStatus | null,
  }
  onCleanUp(world.store.close)
  const create = (changed: Partial<CheckerOptions> = {}) =>
    createChecker({
      ...{ store: world.store, status: world.store.status, list, clock: time.clock },
      ...{ elapsedMs: time.elapsedMs, later: time.later, random: createRandom(1) },
      accepts: () => true,
      log: {
        say: world.said.push.bind(world.said),
        sayRepeated: what => world.said.push(what),
      },
      ...{ perSecond: 20, inFlightMax: 500, speedBytesADay: 2 ** 40 },
      sliceMs: 250,
      ...{ once: false, placing: row => row },
      onStatus: status => {
        world.status = status
      },
      async probe(request) {
        const address = addressText(request.address)
        const beganMs = time.elapsedMs()
        world.begun.push({ address, at: beganMs, request })
        world.inFlight.set(address, (world.inFlight.get(address) ?? 0) + 1)
        await new Promise<void>(resolve => void time.later(resolve, world.takesMs(request)))
        world.inFlight.set(address, (world.inFlight.get(address) ?? 0) - 1)
        return world.answer(request, beganMs)
      },
      async selfCheck() {
        world.selfChecks += 1
        return world.judge()
      },
      ...options,
      ...changed,
    })
  return Object.assign(world, { create, checker: create() })
}
