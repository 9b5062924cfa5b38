/** The judge of runs with many nodes: it has no complaint of what is right, and finds what is not. */
import { describe, expect, test } from 'bun:test'
import { T0 } from '../../../support/fixtures.ts'
import {
  type Caller,
  createLimiterOracle,
  dayOf,
  type LimiterOracle,
  type Rule,
  rateLimitOf,
  rulesOf,
} from '../../../support/limiter-oracle.ts'
import { CODES, type Judged, judge } from './judge.ts'
import {
  type AdmissionRow,
  type Asked,
  historiesOf,
  type JournalRows,
  type NetworksRow,
  type Step,
} from './records.ts'
import { burst, type Kind, networksOf, regular } from './traffic.ts'

const FIVE: Kind = regular('five', 1, 1, burst(5, 5))
const BOTH: Kind = regular('both', 1, 1, { ...burst(2, 1), daily: 9 })
const DAILY: Kind = regular('daily', 1, 1, { daily: 3 })
const SUBNETS: Kind = regular('subnets', 1, 1, { subnets: 3 })
const TEMP: Kind = { ...FIVE, name: 'temp', caller: 'temp' }

/** How long a request is under way, and when within that it is decided. */
const WAY_MS = 20
const DECIDED_MS = 12

const ADDRESS = '50.0.0.7'
const PORT = 2000
/** The answer to a request for this port, of three networks. */
const BODY = networksOf(PORT)
  .map(network => `${network}.0.1:${PORT}\n`)
  .join('')

function callerOf({ name, caller, limits }: Kind): Caller {
  const id = `k-${name}`
  return caller === 'regular' ? { kind: caller, id, plan: limits } : { kind: 'temp', id }
}

/** How a node answers with a decision, but for RateLimit. */
function answerOf({ caller, limits }: Kind, decision: ReturnType<LimiterOracle['admit']>) {
  if (decision.kind === 'admitted') return { status: 200, code: '', fields: {}, retryAfter: '' }
  const { by, retryAfterSeconds: wait } = decision
  return {
    status: 429,
    code: CODES[caller][by],
    fields: { retry_after: wait, ...(by === 'daily' && { daily_limit: limits.daily ?? 0 }) },
    retryAfter: String(wait),
  }
}

/** A run on paper: requests that the oracle decides, as their clients, the journal and a log write them. */
function createRun(isLogged = false) {
  const oracle = createLimiterOracle()
  const asked: Asked[] = []
  const rows: JournalRows = { admissions: [], networks: [] }
  const addAdmission = (rule: Rule, at: number, realMs: number, xid: string): void => {
    const row: AdmissionRow = {
      ...{ seq: rows.admissions.length + 1, subject: rule.subject, at, realMs, added: 1 },
      ...{ gone: [], oldest: null, xid },
    }
    rows.admissions.push(row)
  }
  const run = {
    asked,
    rows,
    /** Sends a request of a kind at an instant; the clock of limits is ahead by `offsetMs`. */
    ask(of: Kind, sentMs: number, offsetMs = 0): Asked {
      const caller = callerOf(of)
      const realMs = sentMs + DECIDED_MS
      const decision = oracle.admit(caller, ADDRESS, realMs + offsetMs)
      const rules = rulesOf(caller, ADDRESS)
      const one: Asked = {
        ...{ of, caller, rules, kind: 0, subject: 0, place: 0, port: PORT },
        ...{ id: '', sentMs, receivedMs: sentMs + WAY_MS },
        body: decision.kind === 'admitted' ? BODY : '',
        nowMs: isLogged ? realMs : null,
        ...answerOf(of, decision),
        rateLimit: rateLimitOf(decision.limits),
      }
      asked.push(one)
      if (decision.kind === 'admitted') {
        for (const [i, rule] of rules.entries()) {
          addAdmission(rule, decision.instants[i] ?? 0, realMs, String(asked.length))
        }
      }
      return one
    },
    /** Counts an admission that no answer is of. */
    count(of: Kind, realMs: number): void {
      const [rule] = rulesOf(callerOf(of), ADDRESS)
      if (rule) addAdmission(rule, realMs, realMs, 'none')
    },
    /** Gives back the last admission of a kind. */
    refund(of: Kind, realMs: number): void {
      const [rule] = rulesOf(callerOf(of), ADDRESS)
      const last = rows.admissions.findLast(({ subject }) => subject === rule?.subject)
      if (!last) throw new Error('nothing was admitted')
      const seq = rows.admissions.length + 1
      const back = { seq, realMs, added: -1, gone: [last.at], xid: `back ${seq}` }
      rows.admissions.push({ ...last, ...back })
      oracle.refund(callerOf(of), ADDRESS, [last.at])
    },
    addNetworks(networks: string[], realMs: number): void {
      const subject = `key:k-${SUBNETS.name}:served`
      const row: NetworksRow = { subject, day: dayOf(realMs), realMs, added: networks }
      rows.networks.push(row)
    },
    judge: (steps?: readonly Step[]): Judged => judge(asked, historiesOf(rows, steps)),
  }
  return run
}

/** What a judge says of a run, without what is as it should be. */
function complaints(judged: Judged): { [name: string]: number } {
  const { requests, admissions: _, networkRefusals: __, ...rest } = judged
  const all = { ...rest, wrong: requests.wrong }
  const sizes = Object.entries(all).map(([name, found]) => [
    name,
    Array.isArray(found) ? found.length : found,
  ])
  return Object.fromEntries(sizes.filter(([, size]) => size !== 0))
}

/** Asks every 100 ms, for three windows. */
function steadyRun(isLogged = false) {
  const run = createRun(isLogged)
  for (let n = 0; n < 150; n += 1) {
    run.ask(FIVE, T0 + 100 * n)
    if (n % 10 === 0) run.ask(DAILY, T0 + 100 * n + 50)
    if (n % 30 === 0) run.ask(TEMP, T0 + 100 * n + 60)
  }
  return run
}

describe('a run that is right', () => {
  test.each([false, true])('has no complaint, with a log: %p', isLogged => {
    const judged = steadyRun(isLogged).judge()
    expect(complaints(judged)).toEqual({})
    expect(judged.requests).toMatchObject({ unknown: 0, wrong: 0 })
    expect(judged.requests.admitted).toBeGreaterThan(15)
    expect(judged.requests.refused).toBeGreaterThan(100)
  })

  test('may have lost an answer whose request was counted', () => {
    const run = steadyRun()
    const first = run.asked.find(({ status }) => status === 200)
    if (first) Object.assign(first, { status: 0, rateLimit: '' })
    expect(complaints(run.judge())).toEqual({})
  })

  test('may refuse by the window of a new day, which has room before the answer arrives', () => {
    const run = createRun()
    const midnight = (dayOf(T0) + 1) * 86_400_000
    for (let n = 0; n < 2; n += 1) run.ask(BOTH, midnight - 995 - DECIDED_MS)
    const refused = run.ask(BOTH, midnight - 10)
    expect(refused.rateLimit).toBe('"burst";r=0;t=1, "daily";r=9;t=86400')
    expect(complaints(run.judge())).toEqual({})
  })

  test('may step its clock, ahead and back', () => {
    const run = createRun()
    const steps: Step[] = [{ offsetMs: 0, fromMs: 0, byMs: 0 }]
    for (const [n, offsetMs] of [0, 40_000, -20_000, 3_600_000].entries()) {
      const begin = T0 + n * 30_000
      steps.push({ offsetMs, fromMs: begin - 50, byMs: begin - 40 })
      for (let i = 0; i < 100; i += 1) run.ask(FIVE, begin + 100 * i, offsetMs)
    }
    expect(complaints(run.judge(steps))).toEqual({})
  })
})

describe('a refusal by a full limit of which something was given back', () => {
  function complaintsAfter(ms: number) {
    const run = createRun()
    for (let n = 0; n < 5; n += 1) run.ask(FIVE, T0 + n)
    const given = T0 + 500
    const refused = run.ask(FIVE, given - 100)
    run.refund(FIVE, given)
    Object.assign(refused, { sentMs: given + ms, receivedMs: given + ms + WAY_MS })
    const wait = Math.ceil((5_000 + DECIDED_MS - (500 + ms + DECIDED_MS)) / 1_000)
    const rateLimit = `"burst";r=0;t=${wait}`
    Object.assign(refused, { rateLimit, retryAfter: String(wait), fields: { retry_after: wait } })
    return complaints(run.judge())
  }

  test.each([1, 100, 900])('is right %p ms later: its node may not have heard of it', ms => {
    expect(complaintsAfter(ms)).toEqual({})
  })

  test('is wrong after more than a second', () => {
    expect(complaintsAfter(1_100)).toEqual({ notFull: 1 })
  })
})

describe.each([false, true])('a planted violation is found, with a log: %p', isLogged => {
  test('an admission more than a window holds, by the journal and by the clients alone', () => {
    const run = createRun(isLogged)
    for (let n = 0; n < 5; n += 1) run.ask(FIVE, T0 + 100 * n)
    const sixth = run.ask(FIVE, T0 + 600)
    Object.assign(sixth, { status: 200, code: '', fields: {}, rateLimit: '"burst";r=0;t=5' })
    run.count(FIVE, T0 + 600 + DECIDED_MS)
    expect(complaints(run.judge())).toMatchObject({ over: 1, overSeen: 1 })
  })

  test('an answered admission that is not in the journal', () => {
    const run = steadyRun(isLogged)
    run.rows.admissions.splice(
      run.rows.admissions.findIndex(({ subject }) => subject === 'key:k-daily'),
      1,
    )
    expect(complaints(run.judge())).toHaveProperty('lost')
  })

  test('a request that counts twice', () => {
    const run = createRun(isLogged)
    run.ask(DAILY, T0)
    run.count(DAILY, T0 + DECIDED_MS)
    expect(complaints(run.judge())).toEqual({ double: 1 })
  })

  test('a refusal while no limit was full', () => {
    const run = createRun(isLogged)
    for (let n = 0; n < 6; n += 1) run.ask(FIVE, T0)
    const later = run.ask(FIVE, T0 + DECIDED_MS + 5_001)
    expect(later.status).toBe(200)
    const { fields, code, retryAfter, rateLimit } = run.asked[5] ?? later
    Object.assign(later, { status: 429, fields, code, retryAfter, rateLimit })
    run.rows.admissions.pop()
    expect(complaints(run.judge())).toEqual({ notFull: 1 })
  })

  test.each([
    ['retry_after', { fields: { retry_after: 3 }, retryAfter: '3' }],
    ['RateLimit', { rateLimit: '"burst";r=1;t=5' }],
    ['code', { code: 'DAILY_LIMIT_REACHED' }],
  ])('a refusal with a wrong %s', (_, change) => {
    const run = createRun(isLogged)
    for (let n = 0; n < 6; n += 1) run.ask(FIVE, T0)
    Object.assign(run.asked[5] ?? {}, change)
    expect(complaints(run.judge())).toEqual({ wrongFields: 1 })
  })

  test('one of the two limits of a temporary key', () => {
    const run = createRun(isLogged)
    run.ask(TEMP, T0)
    run.rows.admissions.pop()
    expect(complaints(run.judge())).toEqual({ lost: 1, halves: 1 })
  })
})

describe.each([false, true])('a planted answer or network is found, with a log: %p', isLogged => {
  test('networks over their quota, not counted, or counted and never shown', () => {
    const run = createRun(isLogged)
    run.ask(SUBNETS, T0)
    run.addNetworks(['5128'], T0 + DECIDED_MS)
    expect(complaints(run.judge())).toEqual({ networksMissing: 1 })
    run.addNetworks(['5133', '5124', '7', '8'], T0 + DECIDED_MS + 1)
    expect(complaints(run.judge())).toEqual({ over: 2, networksUnshown: 2 })
  })

  test('an answer that no request should get', () => {
    const run = createRun(isLogged)
    Object.assign(run.ask(DAILY, T0), { status: 500, code: 'INTERNAL_ERROR' })
    expect(run.judge().requests.wrong).toBe(1)
  })
})
