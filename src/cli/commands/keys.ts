/** The `keys` commands that show or change a key, and the list of all `keys` commands. */
import { clientBucket } from '../../access/entitlements.ts'
import { DEMO_KEY, keyState } from '../../access/key.ts'
import * as manage from '../../access/manage.ts'
import { TEMP_PLAN } from '../../access/plan.ts'
import type { UsagePart } from '../../access/rate-limit.ts'
import { operatorReport } from '../../api/key-report.ts'
import { CommandError } from '../../lib/errors.ts'
import { formatCount } from '../../lib/plural.ts'
import { formatInstant, formatInstantOrNull } from '../../lib/time.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, printJson, say, show, table } from '../command.ts'
import { exportKeys, importKeys } from './key-file.ts'
import { addKey, addTemporaryKey, expiryOf, rotateKey, summaryOf } from './new-key.ts'

const SETTINGS = [...DATA_SETTINGS, 'json'] as const
const listKeys = command({
  name: 'keys list',
  summary: 'list keys with state and today’s use',
  settings: SETTINGS,
  example: 'proxylist keys list --json',
  async run({ settings, clock }) {
    const nowMs = clock()
    const keys = await storesOf(settings, clock).registry('read', each => each.keys.list(nowMs))
    const shown = keys.map(key => ({
      id: key.id,
      prefix: key.prefix,
      label: key.label,
      note: key.note,
      from: key.from,
      plan: key.plan,
      kind: key.plan === null ? 'temporary' : 'regular',
      created: formatInstant(key.createdAt),
      expires: formatInstantOrNull(key.expiresAt),
      state: keyState(key, nowMs),
      requests_today: key.requestsToday,
      subnets_today: key.subnetsToday,
    }))
    await show(settings.json, shown, {
      ID: ({ id }) => id,
      PREFIX: ({ prefix }) => `${prefix}…`,
      PLAN: ({ plan }) => plan ?? '(temporary)',
      STATE: ({ state }) => state,
      EXPIRES: ({ expires }) => expires ?? 'never',
      REQUESTS: key => String(key.requests_today),
      SUBNETS: key => String(key.subnets_today),
      LABEL: ({ label }) => label,
      NOTE: ({ note }) => note,
    })
  },
})

type Described = ReturnType<typeof operatorReport>

/** A key as lines for a terminal. */
function draw(key: Described): string {
  const facts = [
    ['id', key.id],
    ['prefix', `${key.prefix}…`],
    ['label', key.label],
    ['note', key.note],
    ...(key.from === '' ? [] : [['only from', key.from]]),
    ['plan', key.plan],
    ['state', key.state],
    ['created', key.created],
    ['expires', key.expires ?? 'never'],
    ...key.old_secrets_until.map(until => ['old secret', `valid until ${until}`]),
    ['last seen', key.last_seen ?? 'not in the last 90 days'],
  ]
  const { requests, records, refused } = key.today
  return [
    facts.map(([name = '', fact]) => `${`${name.padEnd(10)}  ${fact}`.trimEnd()}\n`).join(''),
    key.limits.length > 0 &&
      table(key.limits, {
        LIMIT: ({ name }) => name,
        LEFT: ({ left }) => formatCount(left),
        OF: ({ quota }) => formatCount(quota),
        WINDOW: ({ window }) => `${formatCount(window)} s`,
        'RESET IN': ({ reset }) => `${formatCount(reset)} s`,
      }),
    `today: ${formatCount(requests)} requests, ${formatCount(records)} records, ${formatCount(refused)} refused\n`,
    key.days.length > 0 &&
      table(key.days.toReversed(), {
        DAY: ({ day }) => day,
        REQUESTS: each => formatCount(each.requests),
        RECORDS: each => formatCount(each.records),
        REFUSED: each => formatCount(each.refused),
      }),
  ]
    .filter(part => part !== false)
    .join('\n')
}

const showKey = command({
  name: 'keys show',
  summary: 'show a key, its limits, and its use by day',
  arguments: '<id>',
  settings: SETTINGS,
  example: 'proxylist keys show k3x9m2ab',
  async run({ settings, args: [id = ''], clock }) {
    const nowMs = clock()
    const stores = storesOf(settings, clock)
    const facts = await stores.registry('read', registry => manage.factsOf(registry, id, nowMs))
    const key = operatorReport(facts, nowMs)
    await (settings.json ? printJson(key) : print(draw(key)))
  },
})

const PARTS: { [part in UsagePart]: string } = {
  window: 'its burst window',
  day: 'its requests and networks of today',
  all: 'its burst window, and its use of today',
}

const resetKey = command({
  name: 'keys reset',
  summary: 'give a key, or the client addresses of demo or temp, a fresh start',
  arguments: '<id>',
  settings: [...SETTINGS, 'window', 'day', 'address'],
  example: 'proxylist keys reset k3x9m2ab --window',
  async run({ settings, args: [id = ''], clock }) {
    const { window, day, address } = settings
    const part = window === day ? 'all' : window ? 'window' : 'day'
    const nowMs = clock()
    await storesOf(settings, clock).registry('change', registry => {
      if (id === DEMO_KEY || id === TEMP_PLAN) {
        const subject = {
          kind: id,
          id: address === undefined ? null : clientBucket(address),
        } as const
        return registry.usage.reset(subject, part, nowMs)
      }
      if (address !== undefined) throw new CommandError('--address is for demo and temp', 2)
      return manage.resetKey(registry, id, part, nowMs)
    })
    say(`reset ${id}${address === undefined ? '' : ` from ${address}`}: ${PARTS[part]}`)
    if (settings.json) await printJson({ id, address: address ?? null, reset: part })
  },
})

const revokeKey = command({
  name: 'keys revoke',
  summary: 'revoke a key permanently, and cut its downloads',
  arguments: '<id>',
  settings: SETTINGS,
  example: 'proxylist keys revoke k3x9m2ab',
  async run({ settings, args: [id = ''], clock }) {
    const stores = storesOf(settings, clock)
    await stores.registry('change', registry => manage.revokeKey(registry, id, clock()))
    say(`key ${id} is revoked`)
    if (settings.json) await printJson({ id, state: 'revoked' })
  },
})

const setKey = command({
  name: 'keys set',
  summary: 'change plan, label, note, networks or expiry of a key',
  arguments: '<id>',
  settings: [...SETTINGS, 'plan', 'label', 'note', 'from', 'expires'],
  example: 'proxylist keys set k3x9m2ab --plan classic --expires never',
  async run({ settings, args: [id = ''], clock }) {
    const { plan, label, note, from, expires } = settings
    const nowMs = clock()
    const changes = {
      ...(plan !== undefined && { plan }),
      ...(label !== undefined && { label }),
      ...(note !== undefined && { note }),
      ...(from !== undefined && { from }),
      ...(expires !== undefined && { expiresAt: manage.endOf(expires, nowMs, '--expires') }),
    }
    if (Object.keys(changes).length === 0) {
      throw new CommandError(
        'nothing to change: give --plan, --label, --note, --from or --expires',
        2,
      )
    }
    const stores = storesOf(settings, clock)
    const key = await stores.registry('change', registry =>
      manage.changeKey(registry, id, changes, nowMs),
    )
    const named = key.label === '' ? 'no label' : `label ${key.label}`
    const noted = key.note === '' ? '' : ` note ${key.note},`
    const only = key.from === '' ? '' : ` only from ${key.from},`
    const end = expiryOf(key.expiresAt)
    say(`key ${id}: plan ${key.plan ?? TEMP_PLAN}, ${named},${noted}${only} ${end}`)
    if (settings.json) await printJson({ id, ...summaryOf(key) })
  },
})

const removeKey = command({
  name: 'keys remove',
  summary: 'remove a revoked key and its use',
  arguments: '<id>',
  settings: SETTINGS,
  example: 'proxylist keys remove k3x9m2ab',
  async run({ settings, args: [id = ''], clock }) {
    await storesOf(settings, clock).registry('change', registry => manage.removeKey(registry, id))
    say(`key ${id} is removed`)
    if (settings.json) await printJson({ id, state: 'removed' })
  },
})

export const KEY_COMMANDS = [
  ...[addKey, addTemporaryKey, listKeys, showKey, setKey, rotateKey, resetKey, revokeKey],
  ...[removeKey, exportKeys, importKeys],
]
