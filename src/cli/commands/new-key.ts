/** The `keys` commands that print a secret, which is shown once: `add`, `temp` and `rotate`. */
import { isatty } from 'node:tty'
import { type NewKey, newKey } from '../../access/key.ts'
import * as manage from '../../access/manage.ts'
import { TEMP_PLAN } from '../../access/plan.ts'
import { Expected, readKey, STDIN } from '../../config/parsers.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { CommandError, orAborted, reasonOf } from '../../lib/errors.ts'
import { formatInstant, formatInstantOrNull } from '../../lib/time.ts'
import { type Stores, storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, inJson, say } from '../command.ts'

const SETTINGS = [...DATA_SETTINGS, 'json'] as const

/** The key on the one line of stdin. @throws CommandError when there is none, or it is no key. */
async function keyFromStdin(): Promise<string> {
  if (isatty(0)) {
    throw new CommandError('--key - reads the key from stdin, which is a terminal; use < FILE', 2)
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await Bun.stdin.bytes())
    const [line = '', ...more] = text.split(/\r?\n/)
    if (line !== '' && more.some(each => each !== '')) throw new Expected('one line')
    return readKey(line)
  } catch (error) {
    if (!(error instanceof Expected)) throw new CommandError(`no key on stdin: ${reasonOf(error)}`)
    throw new CommandError(`the key on stdin must be ${error.message}`, 2)
  }
}

export const addKey = command({
  name: 'keys add',
  summary: 'create a key and print it once',
  settings: [...SETTINGS, 'plan', 'label', 'note', 'from', 'expires', 'key'],
  example: 'proxylist keys add --plan standard --label "Example Ltd" --expires 30d',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    const { plan = manage.STANDARD_PLAN, label = '', note = '', from = '' } = settings
    const { expires, key: given } = settings
    const stores = storesOf(settings, clock)
    const nowMs = clock()
    const expiresAt = manage.endOf(expires, nowMs, '--expires')
    const key =
      given === STDIN ? await orAborted(keyFromStdin(), signal) : (given ?? newKey('regular'))
    const made = { key, label, note, from, plan, expiresAt }
    await makeKey(stores, made, nowMs, { settings, signal })
  },
})

export const addTemporaryKey = command({
  name: 'keys temp',
  summary: 'create a temporary key, on plan temp, and print it once',
  settings: [...SETTINGS, 'ttl', 'label', 'note', 'from'],
  example: 'proxylist keys temp --ttl 1h --label trial',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    const { ttl, label = '', note = '', from = '' } = settings
    const stores = storesOf(settings, clock)
    const nowMs = clock()
    const expiresAt = manage.futureExpiry(nowMs + ttl, nowMs, '--ttl')
    const key = { key: newKey('temp'), label, note, from, plan: null, expiresAt }
    await makeKey(stores, key, nowMs, { settings, signal })
  },
})

/** How a command prints a secret, and what ends it. */
type Output = { settings: { json: boolean }; signal: AbortSignal }

/**
 * Prints the secret of a stored key, alone or, in JSON, with the members of `known`.
 * @throws CommandError with the sentence of `outcomeOf` if that fails or a signal comes first
 */
async function printSecret(
  key: string,
  known: object,
  { settings: { json }, signal }: Output,
  outcomeOf: (reason: string) => Awaitable<string>,
): Promise<void> {
  try {
    signal.throwIfAborted()
    // Not `print`, which accepts a closed stdout, and keeps signals from being seen while it waits.
    const out = Bun.stdout.writer()
    const text = json ? inJson({ ...known, key }) : `${key}\n`
    await orAborted(Promise.all([out.write(text), out.flush()]), signal)
  } catch (error) {
    const outcome = await outcomeOf(error === signal.reason ? 'interrupted' : reasonOf(error))
    throw new CommandError(outcome, error instanceof CommandError ? error.exitCode : 1)
  }
}

/** Stores and prints a new key. If printing fails, revokes the key, which could not be read later. */
async function makeKey(stores: Stores, key: NewKey, nowMs: number, output: Output): Promise<void> {
  const id = await stores.registry('make', registry => manage.addKey(registry, key, nowMs))
  const named = key.plan === null ? `temporary key ${id}` : `key ${id} on plan ${key.plan}`
  say(`${named}, ${expiryOf(key.expiresAt)}; it is shown only once:`)
  await printSecret(key.key, { id, ...summaryOf(key) }, output, async reason => {
    await stores.registry('change', ({ keys }) => keys.revoke(id, nowMs))
    return `the key could not be printed (${reason}); it is revoked`
  })
}

/** The JSON of a key, which the commands print that make or change it. */
export const summaryOf = ({ plan, label, note, from, expiresAt }: Omit<NewKey, 'key'>) => ({
  ...{ plan: plan ?? TEMP_PLAN, label, note, from },
  expires: formatInstantOrNull(expiresAt),
})

export const expiryOf = (expiresAt: number | null): string =>
  expiresAt === null ? 'never expires' : `until ${formatInstant(expiresAt)}`

export const rotateKey = command({
  name: 'keys rotate',
  summary: 'give a key a new secret and print it once',
  arguments: '<id>',
  settings: [...SETTINGS, 'overlap'],
  example: 'proxylist keys rotate k3x9m2ab --overlap 24h',
  endsAtSignal: 'by itself',
  async run({ settings, args: [id = ''], clock, signal }) {
    const { overlap } = settings
    const change = { overlapMs: overlap, option: '--overlap' }
    const { key, untilMs } = await storesOf(settings, clock).registry('change', registry =>
      manage.rotateKey(registry, id, change, clock()),
    )
    const old = overlap === 0 ? 'ended' : `valid until ${formatInstant(untilMs)}`
    say(`key ${id} has a new secret, the old one is ${old}; it is shown only once:`)
    const failed = (reason: string) => `the secret could not be printed (${reason}); rotate again`
    const until = overlap === 0 ? null : formatInstant(untilMs)
    await printSecret(key, { id, old_secrets_until: until }, { settings, signal }, failed)
  },
})
