/** `stats`: the use of the last 24 hours and the counts of the list, drawn for a terminal. */
import { type DayUse, type KeyUse, mergeDays, unusedDay, utcHour } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { DEMO_PLAN, TEMP_PLAN } from '../../access/plan.ts'
import type { Registry } from '../../access/ports.ts'
import type { Clock } from '../../lib/clock.ts'
import { formatCount } from '../../lib/plural.ts'
import { formatInstant, HOUR_MS, SECOND_MS, toSeconds, utcDay } from '../../lib/time.ts'
import type { Breakdown } from '../../proxies/stats.ts'
import { type Stores, storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, printJson, table } from '../command.ts'

/** Hours that are shown, this one included; keys and countries that are, at most. */
const HOURS = 24
const TOP = 10

const onDay = ({ days }: KeyUse, day: number): DayUse =>
  days.find(each => each.day === day) ?? unusedDay(day)

async function useOf({ keys, usage }: Registry, nowMs: number) {
  const today = utcDay(nowMs)
  const demo = { id: DEMO_KEY, label: '', plan: DEMO_PLAN }
  const all = [demo, ...(await keys.list(nowMs))]
  const uses = await usage.history(
    all.map(({ id }) => id),
    today - 1,
    today,
  )
  const days = mergeDays(
    [unusedDay(today - 1), unusedDay(today)],
    uses.flatMap(use => use.days),
  )
  const total = { lastSeenMs: null, days }
  const thisHour = Math.floor(nowMs / HOUR_MS)
  const hours = Array.from({ length: HOURS }, (_, i) => {
    const atMs = (thisHour - HOURS + 1 + i) * HOUR_MS
    const requests = onDay(total, utcDay(atMs)).hours[utcHour(atMs)] ?? 0
    return { hour: formatInstant(atMs), requests }
  })
  const { requests, records, refused } = onDay(total, today)
  const top = all
    .map(({ id, label, plan }, i) => {
      const { requests, records, refused } = onDay(uses[i] ?? total, today)
      return { id, label, plan: plan ?? TEMP_PLAN, requests, records, refused }
    })
    .filter(key => key.requests + key.refused > 0)
    .sort((a, b) => b.requests - a.requests || b.refused - a.refused)
    .slice(0, TOP)
  return { today: { requests, records, refused }, hours, keys: top }
}

function listOf({ rows, newest, types, countries, ages }: Breakdown, nowMs: number) {
  const newestSeconds = newest === null ? null : Math.max(0, toSeconds(nowMs) - newest)
  return { total: rows, newest_seconds: newestSeconds, types, countries, ages }
}

const NO_USE = { today: { requests: 0, records: 0, refused: 0 }, hours: [], keys: [] }
const NO_LIST = { total: 0, newest_seconds: null, types: [], countries: [], ages: [] }

/** All figures; 0 where keys or the list do not exist. */
async function figuresOf(stores: Stores, clock: Clock) {
  const nowMs = clock()
  const there = stores.has()
  const use =
    there.registry || !there.list
      ? await stores.registry('read', registry => useOf(registry, nowMs))
      : NO_USE
  const list = there.list
    ? await stores.readList(({ breakdown }) => listOf(breakdown(nowMs), nowMs))
    : NO_LIST
  return { ...use, list }
}
type Figures = Awaited<ReturnType<typeof figuresOf>>

/** The widest bar, in characters. */
const WIDTH = 40

/** Names with their numbers and bars. */
function bars(rows: readonly (readonly [name: string, value: number])[]): string {
  const most = Math.max(1, ...rows.map(([, value]) => value))
  const nameWidth = Math.max(0, ...rows.map(([name]) => name.length))
  const width = formatCount(most).length
  const lines = rows.map(([name, value]) => {
    const bar = '█'.repeat(Math.ceil((value / most) * WIDTH))
    return `  ${name.padEnd(nameWidth)}  ${formatCount(value).padStart(width)}  ${bar}`.trimEnd()
  })
  return lines.map(line => `${line}\n`).join('')
}

const AGE_WORDS = new Map([
  [60, 'a minute'],
  [300, '5 minutes'],
  [600, '10 minutes'],
  [3600, 'an hour'],
  [86_400, 'a day'],
  [604_800, 'a week'],
])

function drawList({ total, newest_seconds: newest, types, countries, ages }: Figures['list']) {
  if (total === 0 || newest === null) return 'The list is empty.\n'
  const shown = countries.slice(0, TOP)
  const rest = countries.slice(TOP).reduce((sum, { count }) => sum + count, 0)
  const age = newest * SECOND_MS < HOUR_MS ? `${newest} s` : `${Math.floor(newest / 3600)} h`
  return [
    `List: ${formatCount(total)} proxies, the newest check ${age} ago\n`,
    `By type\n${bars(types.map(({ type, count }) => [type, count]))}`,
    `By country\n${bars([
      ...shown.map(({ country, count }) => [country || 'unknown', count] as const),
      ...(rest > 0 ? [['others', rest] as const] : []),
    ])}`,
    `By age of the check\n${bars(
      ages.map(({ seconds, count }) => [
        seconds === null ? 'older' : `up to ${AGE_WORDS.get(seconds) ?? `${seconds} s`}`,
        count,
      ]),
    )}`,
  ].join('\n')
}

function draw({ today, hours, keys, list }: Figures): string {
  const { requests, records, refused } = today
  return [
    `Today (UTC): ${formatCount(requests)} requests, ${formatCount(records)} records, ` +
      `${formatCount(refused)} refused\n`,
    `Requests by hour (UTC)\n${bars(hours.map(each => [each.hour.slice(11, 16), each.requests]))}`,
    ...(keys.length === 0
      ? []
      : [
          table(keys, {
            KEY: ({ id }) => id,
            PLAN: ({ plan }) => plan,
            REQUESTS: key => formatCount(key.requests),
            RECORDS: key => formatCount(key.records),
            REFUSED: key => formatCount(key.refused),
            LABEL: ({ label }) => label,
          }),
        ]),
    drawList(list),
  ].join('\n')
}

export const statsCommand = command({
  name: 'stats',
  summary: 'show requests by hour, today’s busiest keys, and the list by type, country and age',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist stats',
  kept: 'nothing was changed',
  async run({ settings, clock }) {
    const figures = await figuresOf(storesOf(settings, clock), clock)
    await (settings.json ? printJson(figures) : print(draw(figures)))
  },
})
