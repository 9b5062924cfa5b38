/**
 * Owns what limits must say (contract B3 to B6), written from the contract alone: everything a
 * subject was ever admitted is kept, and each request judged by looking at all that matters.
 * Shares no code with the program.
 */

const SECOND_MS = 1_000
const DAY_MS = 86_400_000
export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)

/** What a subject is held to. */
export type Rule = {
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

/** Everything a subject was admitted, in order of admission. */
export type History = {
  at: number[]
  /** Place of each admission in the journal. */
  seq: number[]
  /** Admissions of the same UTC day up to this one. */
  nth: number[]
}

export const emptyHistory = (): History => ({ at: [], seq: [], nth: [] })

export function record(history: History, at: number, seq: number): void {
  const last = history.at.length - 1
  const isSameDay = last >= 0 && dayOf(history.at[last] ?? 0) === dayOf(at)
  history.at.push(at)
  history.seq.push(seq)
  history.nth.push(isSameDay ? (history.nth[last] ?? 0) + 1 : 1)
}

export type Said = 'admitted' | 'window' | 'daily'
export type Judgement = {
  said: Said
  /** When the request counts. */
  at: number[]
  /** Whole seconds until the same request is admitted, 0 when it is. */
  retryAfter: number
  /** The field RateLimit. */
  rateLimit: string
}

const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/** A window after the first `count` admissions of the history, for a request that counts at `at`. */
function judgeWindow(window: Rule['window'], history: History, count: number, at: number) {
  if (window === null) return { inWindow: 0, oldest: at, opensAt: 0 }
  let inWindow = 0
  while (inWindow < count && at - (history.at[count - 1 - inWindow] ?? 0) < window.ms) {
    inWindow += 1
  }
  const oldest = history.at[count - inWindow] ?? at
  // The limit-th last admission must be as old as the window is long.
  const blocking = history.at[count - window.limit] ?? 0
  return { inWindow, oldest, opensAt: inWindow < window.limit ? 0 : blocking + window.ms }
}

/** What one rule says after the first `count` admissions of the history; opening at 0 is open. */
function judgeOne(rule: Rule, history: History, count: number, nowMs: number) {
  const lastAt = history.at[count - 1] ?? nowMs
  const at = Math.max(nowMs, lastAt)
  const today = dayOf(lastAt) === dayOf(at) ? (history.nth[count - 1] ?? 0) : 0
  const midnight = (dayOf(at) + 1) * DAY_MS
  const isDayFull = rule.daily !== null && today >= rule.daily
  const window = judgeWindow(rule.window, history, count, at)
  return { rule, at, today, midnight, dayOpensAt: isDayFull ? midnight : 0, ...window }
}

/** What all rules of a request say together; all of its subjects are charged, or none. */
export function judge(
  rules: readonly Rule[],
  histories: readonly History[],
  counts: readonly number[],
  nowMs: number,
): Judgement {
  const each = rules.map((rule, i) =>
    judgeOne(rule, histories[i] ?? emptyHistory(), counts[i] ?? 0, nowMs),
  )
  const isFull = each.some(one => one.opensAt > 0)
  const isDayFull = each.some(one => one.dayOpensAt > 0)
  const said: Said = isFull ? 'window' : isDayFull ? 'daily' : 'admitted'
  const more = said === 'admitted' ? 1 : 0
  const fields: string[] = []
  for (const { rule, inWindow, oldest, today, midnight } of each) {
    if (rule.window) {
      const { name, limit, ms } = rule.window
      const used = inWindow + more
      const seconds = used === 0 ? 0 : wholeSeconds(oldest + ms - nowMs)
      fields.push(`"${name}";r=${limit - used};t=${seconds}`)
    }
    if (rule.daily !== null) {
      const left = Math.max(0, rule.daily - today - more)
      fields.push(`"daily";r=${left};t=${wholeSeconds(midnight - nowMs)}`)
    }
  }
  const opensAt = Math.max(...each.flatMap(one => [one.opensAt, one.dayOpensAt]))
  return {
    said,
    at: each.map(one => one.at),
    retryAfter: said === 'admitted' ? 0 : wholeSeconds(opensAt - nowMs),
    rateLimit: fields.join(', '),
  }
}

/** Places of a history where a rule was broken: more than a window or a day allows. */
export function overAdmissions({ window, daily }: Rule, { at, nth }: History): number {
  let over = 0
  for (let n = 0; n < at.length; n += 1) {
    const first = window ? at[n - window.limit] : undefined
    const isOverWindow = window !== null && first !== undefined && (at[n] ?? 0) - first < window.ms
    const isOverDay = daily !== null && (nth[n] ?? 0) > daily
    const isBackwards = n > 0 && (at[n] ?? 0) < (at[n - 1] ?? 0)
    if (isOverWindow || isOverDay || isBackwards) over += 1
  }
  return over
}

/** How many numbers of an ordered list are below a bound. */
export function countBelow(ordered: readonly number[], bound: number): number {
  let low = 0
  let high = ordered.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ordered[middle] ?? 0) < bound) low = middle + 1
    else high = middle
  }
  return low
}
