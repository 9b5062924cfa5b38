/** Owns `keys show` and `keys reset`: everything known of a key, and giving it a fresh start. */
import { clientBucket, keySubject } from '../../access/entitlements.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { factsOf, findKey } from '../../access/manage.ts'
import { TEMP_PLAN } from '../../access/plan.ts'
import type { Registry } from '../../access/ports.ts'
import type { UsagePart } from '../../access/rate-limit.ts'
import { operatorReport } from '../../api/key-report.ts'
import { CommandError } from '../../lib/errors.ts'
import { storesOf } from '../../stores.ts'
import { columns, counted } from '../chart.ts'
import { command, DATA_SETTINGS, print, printJson, say, table } from '../command.ts'

type Described = ReturnType<typeof operatorReport>

/** What is known of a key as lines of a terminal. */
function draw(key: Described): string {
  const facts = [
    ['prefix', `${key.prefix}…`],
    ['label', key.label],
    ['plan', key.plan],
    ['state', key.state],
    ['created', key.created],
    ['expires', key.expires ?? 'never'],
    ...(key.old_secret_until ? [['old secret', `valid until ${key.old_secret_until}`]] : []),
    ['last seen', key.last_seen ?? 'not in the last 90 days'],
  ]
  const limits = key.limits.map(({ name, left, quota, window, reset }) => [
    ...[name, counted(left), counted(quota), `${counted(window)} s`, `${counted(reset)} s`],
  ])
  const { requests, records, refused, hours } = key.today
  const today = [
    `${counted(requests)} requests, ${counted(records)} records, ${counted(refused)} refused`,
    `|${columns(hours)}| by hour, 00 to 23 UTC; most ${counted(Math.max(...hours))}`,
  ]
  const days = key.days
    .toReversed()
    .map(each => [each.day, counted(each.requests), counted(each.records), counted(each.refused)])
  return [
    table(['id', key.id], facts),
    limits.length > 0 && table(['LIMIT', 'LEFT', 'OF', 'WINDOW', 'RESET IN'], limits),
    `today: ${today.join('\n       ')}\n`,
    days.length > 0 && table(['DAY', 'REQUESTS', 'RECORDS', 'REFUSED'], days),
  ]
    .filter(part => part !== false)
    .join('\n')
}

export const showKey = command({
  name: 'keys show',
  summary: 'show a key with its limits, when it was last seen, and its use by hour and by day',
  arguments: '<id>',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist keys show k3x9m2ab',
  async run({ settings, args: [id = ''], clock }) {
    const nowMs = clock()
    const { readRegistry } = storesOf(settings, clock)
    const facts = await readRegistry(registry => factsOf(registry, id, nowMs))
    const key = operatorReport(facts, nowMs)
    await (settings.json ? printJson(key) : print(draw(key)))
  },
})

const PARTS: { [part in UsagePart]: string } = {
  window: 'its window is',
  day: 'its requests and networks of the day are',
  all: 'its windows and its day are',
}

/** The subjects that an argument of `keys reset` names. @throws CommandError for an unknown key. */
async function subjectOf({ keys }: Registry, id: string, address: string | undefined, now: number) {
  if (id === DEMO_KEY || id === TEMP_PLAN) {
    return { kind: id, id: address === undefined ? null : clientBucket(address) } as const
  }
  if (address !== undefined) throw new CommandError('--address is for demo and temp', 2)
  await findKey(keys, id, now)
  return keySubject(id)
}

export const resetKey = command({
  name: 'keys reset',
  summary: 'give a key, or the client addresses of demo or temp, a fresh start',
  arguments: '<id>',
  settings: [...DATA_SETTINGS, 'window', 'day', 'address'],
  example: 'proxylist keys reset k3x9m2ab --window',
  async run({ settings, args: [id = ''], clock }) {
    const { window, day, address } = settings
    const part = window === day ? 'all' : window ? 'window' : 'day'
    const nowMs = clock()
    await storesOf(settings, clock).changeRegistry(async registry => {
      const subject = await subjectOf(registry, id, address, nowMs)
      await registry.usage.reset(subject, part, nowMs)
    })
    say(`${id}${address === undefined ? '' : ` from ${address}`}: ${PARTS[part]} unused again`)
  },
})
