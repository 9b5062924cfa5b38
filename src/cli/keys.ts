/** Owns the `keys` commands: creating, listing and revoking access keys. */
import { isatty } from 'node:tty'
import { type ListedKey, newKey } from '../access/key.ts'
import { withRegistry } from '../app.ts'
import { Expected, readKey } from '../config/parsers.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { DAY_MS, formatInstant } from '../lib/time.ts'
import { command, print, printJson, say, table } from './command.ts'

const FOREVER = 100 * 365 * DAY_MS

/** The expiry of a key, which must be in the future. */
function futureExpiry(atMs: number, nowMs: number, flag: string): number {
  if (atMs > nowMs && atMs < nowMs + FOREVER) return atMs
  throw new CommandError(`${flag} must lie in the future, at most 100 years ahead`, 2)
}

/** Stands for stdin as the value of `--key`. */
const STDIN = '-'
/** Longer than any key, in characters; what follows is not read. */
const LINE_MAX = 4096

/** The key on the first line of stdin. @throws CommandError when there is none, or it is no key. */
async function keyFromStdin(): Promise<string> {
  if (isatty(0)) {
    throw new CommandError('--key - reads the key from stdin, which is a terminal; use < FILE', 2)
  }
  try {
    return readKey(await firstLineOfStdin())
  } catch (error) {
    if (!(error instanceof Expected)) throw new CommandError(`no key on stdin: ${messageOf(error)}`)
    throw new CommandError(`the key on stdin must be ${error.message}`, 2)
  }
}

async function firstLineOfStdin(): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  for await (const chunk of Bun.stdin.stream()) {
    text += decoder.decode(chunk, { stream: true })
    if (text.includes('\n') || text.length > LINE_MAX) break
  }
  return text.split(/\r?\n/, 1)[0] ?? ''
}

const addKey = command({
  name: 'keys add',
  summary: 'create an access key and print it once',
  settings: ['data', 'plan', 'label', 'expires', 'key'],
  example: 'proxylist keys add --plan standard --label "Example Ltd" --expires 30d',
  async run({ settings: { data, plan, label, expires, key: given }, clock }) {
    const nowMs = clock()
    const atMs = expires && (expires.kind === 'in' ? nowMs + expires.ms : expires.ms)
    const expiresAt = atMs === undefined ? null : futureExpiry(atMs, nowMs, '--expires')
    const key = given === STDIN ? await keyFromStdin() : (given ?? newKey('regular'))
    const { id, isNew } = await withRegistry(data, async ({ keys, plans }) => {
      const names = (await plans.list()).map(({ name }) => name)
      if (names.includes(plan)) return keys.add({ key, label, plan, expiresAt }, nowMs)
      throw new CommandError(`there is no plan '${plan}'; plans are ${names.join(', ')}`)
    })
    if (!isNew) throw new CommandError(`this key exists already, with id ${id}`)
    say(`key ${id} on plan ${plan}, ${until(expiresAt)}; it is shown only once:`)
    await handOver(data, id, key, clock)
  },
})

const addTemporaryKey = command({
  name: 'keys temp',
  summary: 'create a temporary key and print it: 2 requests an hour, 30 proxies an answer',
  settings: ['data', 'ttl', 'label'],
  example: 'proxylist keys temp --ttl 1h --label trial',
  async run({ settings: { data, ttl, label }, clock }) {
    const nowMs = clock()
    const expiresAt = futureExpiry(nowMs + ttl, nowMs, '--ttl')
    const key = newKey('temp')
    const { id } = await withRegistry(data, ({ keys }) =>
      keys.add({ key, label, plan: null, expiresAt }, nowMs),
    )
    say(`temporary key ${id}, ${until(expiresAt)}; it is shown only once:`)
    await handOver(data, id, key, clock)
  },
})

/** Prints a new key; if that fails, nobody could read it, and it is revoked. */
async function handOver(data: string, id: string, key: string, clock: Clock): Promise<void> {
  try {
    await Bun.write(Bun.stdout, `${key}\n`) // not `print`, which accepts a closed stdout
  } catch (error) {
    await withRegistry(data, ({ keys }) => keys.revoke(id, clock()))
    throw new CommandError(`the key could not be printed (${messageOf(error)}); it is revoked`)
  }
}

const until = (expiresAt: number | null): string =>
  expiresAt === null ? 'never expires' : `until ${formatInstant(expiresAt)}`

type State = 'active' | 'expired' | 'revoked'
function stateOf({ revokedAt, expiresAt }: ListedKey, nowMs: number): State {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && nowMs >= expiresAt ? 'expired' : 'active'
}

const listKeys = command({
  name: 'keys list',
  summary: 'list the keys with their state and today’s use',
  settings: ['data', 'json'],
  example: 'proxylist keys list --json',
  async run({ settings: { data, json }, clock }) {
    const nowMs = clock()
    const keys = await withRegistry(data, registry => registry.keys.list(nowMs))
    const shown = keys.map(key => ({
      id: key.id,
      prefix: key.prefix,
      label: key.label,
      plan: key.plan,
      kind: key.plan === null ? 'temporary' : 'regular',
      created: formatInstant(key.createdAt),
      expires: key.expiresAt === null ? null : formatInstant(key.expiresAt),
      state: stateOf(key, nowMs),
      requests_today: key.requestsToday,
      subnets_today: key.subnetsToday,
    }))
    if (json) return printJson(shown)
    const rows = shown.map(key => [
      key.id,
      `${key.prefix}…`,
      key.plan ?? '(temporary)',
      key.state,
      key.expires ?? 'never',
      String(key.requests_today),
      String(key.subnets_today),
      key.label,
    ])
    const header = ['ID', 'PREFIX', 'PLAN', 'STATE', 'EXPIRES', 'REQUESTS', 'SUBNETS', 'LABEL']
    await print(table(header, rows))
  },
})

const revokeKey = command({
  name: 'keys revoke',
  summary: 'revoke a key permanently; a running server refuses it at once',
  arguments: '<id>',
  settings: ['data'],
  example: 'proxylist keys revoke k3x9m2ab',
  async run({ settings: { data }, args: [id = ''], clock }) {
    const known = await withRegistry(data, ({ keys }) => keys.revoke(id, clock()))
    if (!known) throw new CommandError('there is no key with this id; see proxylist keys list')
    say(`key ${id} is revoked`)
  },
})

export const KEY_COMMANDS = [addKey, addTemporaryKey, listKeys, revokeKey]
