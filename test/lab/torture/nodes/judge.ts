/**
 * The judgement of a run: all that clients saw against the journal of the database. Shares no
 * code with the program.
 */
import type { Rule } from '../../../support/limiter-oracle.ts'
import { quotasOf } from '../limiter/records.ts'
import { networksOf } from '../limiter/traffic.ts'
import { countHalves, matchSubject, overCounted, overSeen } from './admissions.ts'
import { type Asked, type Outcome, outcomeOf } from './asked.ts'
import type { Histories } from './histories.ts'
import { faultOf, isRightForNetworks, missingNetworks } from './refusals.ts'

export type Judged = {
  requests: { [outcome in Outcome]: number }
  /** Admissions of the journal. */
  admissions: number
  /** Over a window, a day or a quota of networks, or before the one they follow. */
  over: number
  /** Over a window by the clients' clocks alone. */
  overSeen: number
  /** Answers without an admission of their own. */
  lost: Asked[]
  /** Admissions that no request explains. */
  double: number
  /** Transactions that counted one of two limits. */
  halves: number
  /** Refusals while no limit was full, and those with a wrong field. */
  notFull: Asked[]
  wrongFields: Asked[]
  /** Networks of answers that were not counted, and counted ones that no answer can have shown. */
  networksMissing: number
  networksUnshown: number
  networkRefusals: number
  /** Answers that no request should get. */
  wrong: Asked[]
}

/** The requests of each subject that may have been admitted, and its rule. */
function bySubject(all: readonly Asked[]) {
  const subjects = new Map<string, { rule: Rule; requests: Asked[] }>()
  for (const asked of all) {
    const outcome = outcomeOf(asked)
    for (const rule of asked.rules) {
      const its = subjects.get(rule.subject) ?? { rule, requests: [] }
      subjects.set(rule.subject, its)
      if (outcome === 'admitted' || outcome === 'unknown') its.requests.push(asked)
    }
  }
  return subjects
}

function judgeAdmissions(all: readonly Asked[], histories: Histories) {
  const subjects = bySubject(all)
  const judged = { over: 0, overSeen: 0, double: 0, lost: [] as Asked[] }
  for (const [subject, { rule, requests }] of subjects) {
    const { lost, unasked } = matchSubject(rule, histories.of(subject), requests, histories)
    judged.lost.push(...lost)
    judged.double += unasked
    const admitted = requests.filter(asked => outcomeOf(asked) === 'admitted')
    judged.overSeen += overSeen(rule, admitted, histories)
  }
  for (const [subject, history] of histories.all) {
    const rule = subjects.get(subject)?.rule
    judged.over += overCounted(rule, history)
    if (rule === undefined) judged.double += history.at.length
  }
  return judged
}

const shownIn = (body: string): string[] =>
  [...body.matchAll(/^(\d+\.\d+)\./gm)].map(([, network = '']) => network)

/** The quota of each set of networks, and the networks that it can hold. */
type Sets = Map<string, { quota: number; networks: Set<string> }>

/** Adds the networks that a request can have counted. */
function addPossible(sets: Sets, asked: Asked): void {
  const isShown = asked.status === 200
  const networks = isShown ? shownIn(asked.body) : networksOf(asked.port)
  for (const { subject, quota, networks: its } of quotasOf(asked, networks)) {
    const known = sets.get(subject) ?? { quota, networks: new Set() }
    sets.set(subject, known)
    if (!isShown && outcomeOf(asked) !== 'unknown') continue
    for (const network of its) known.networks.add(network)
  }
}

/** Networks over a quota; answers whose networks were not counted; networks that none can have shown. */
function judgeNetworks(all: readonly Asked[], histories: Histories) {
  const sets: Sets = new Map()
  for (const asked of all) addPossible(sets, asked)
  let over = 0
  let unshown = 0
  for (const [name, { networks }] of histories.sets) {
    const its = sets.get(name.slice(0, name.lastIndexOf(' ')))
    over += Math.max(0, networks.length - (its?.quota ?? 0))
    unshown += networks.filter(network => !its?.networks.has(network)).length
  }
  const served = all.filter(({ status, of }) => status === 200 && of.caller === 'regular')
  const missing = served.reduce(
    (sum, asked) => sum + missingNetworks(asked, shownIn(asked.body), histories),
    0,
  )
  return { over, missing, unshown }
}

export function judge(all: readonly Asked[], histories: Histories): Judged {
  const of = (outcome: Outcome) => all.filter(asked => outcomeOf(asked) === outcome)
  const refused = of('refused')
  const wrong = of('wrong')
  const faults = refused.map(asked => ({ asked, fault: faultOf(asked, histories) }))
  const forNetworks = all.filter(({ code }) => code === 'SUBNET_LIMIT_REACHED')
  const withFault = (kind: 'not-full' | 'fields') =>
    faults.flatMap(({ asked, fault }) => (fault === kind ? [asked] : []))
  const networks = judgeNetworks(all, histories)
  const { over, ...admissions } = judgeAdmissions(all, histories)
  const temporary = new Set(
    all.flatMap(({ of: { caller }, rules }) =>
      caller === 'temp' ? [rules[0]?.subject ?? ''] : [],
    ),
  )
  return {
    requests: {
      admitted: of('admitted').length,
      refused: refused.length,
      unknown: of('unknown').length,
      wrong: wrong.length,
    },
    ...admissions,
    admissions: histories.admissions,
    over: over + networks.over,
    halves: countHalves(histories, subject => temporary.has(subject)),
    notFull: withFault('not-full'),
    wrongFields: [
      ...withFault('fields'),
      ...forNetworks.filter(asked => !isRightForNetworks(asked, histories)),
    ],
    networksMissing: networks.missing,
    networksUnshown: networks.unshown,
    networkRefusals: forNetworks.length,
    wrong,
  }
}
