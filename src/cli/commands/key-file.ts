/** `keys export` and `keys import`, and their file: one key a line in JSON, with the hash of its secret. */
import { KEY_ID, KEY_PREFIX, type StoredKey } from '../../access/key.ts'
import { DEMO_PLAN, TEMP_PLAN } from '../../access/plan.ts'
import type { LoadProblem } from '../../access/ports.ts'
import { Expected, readCallers, readLabel, readPlanName } from '../../config/parsers.ts'
import { isRecord, type RawRow } from '../../import/reader.ts'
import { CommandError, unreadable } from '../../lib/errors.ts'
import { several } from '../../lib/plural.ts'
import { formatInstant, formatInstantOrNull, parseInstant } from '../../lib/time.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say } from '../command.ts'

/** Problems that are shown; of further ones, only the number is. */
const SHOWN_MAX = 20

type Problem = { line: number; reason: string }
type Line = { line: number; key: StoredKey } | Problem

const toLine = (key: StoredKey): string =>
  `${JSON.stringify({
    id: key.id,
    hash: key.hash.toHex(),
    prefix: key.prefix,
    label: key.label,
    note: key.note,
    from: key.from,
    plan: key.plan,
    created: formatInstant(key.createdAt),
    expires: formatInstantOrNull(key.expiresAt),
    revoked: formatInstantOrNull(key.revokedAt),
    old_secrets: key.oldSecrets.map(({ hash, expiresAt }) => ({
      hash: hash.toHex(),
      expires: formatInstant(expiresAt),
    })),
  })}\n`

const fail = (reason: string): never => {
  throw new Expected(reason)
}

/** A member that must be text which `read` accepts. */
function textOf<T>(from: RawRow, name: string, read: (text: string) => T | null): T {
  const value = from[name]
  const found = typeof value === 'string' ? read(value) : null
  return found ?? fail(`${name} is missing or is not as keys export writes it`)
}
const nullableOf = <T>(from: RawRow, name: string, read: (text: string) => T | null): T | null =>
  from[name] === null ? null : textOf(from, name, read)

const readHash = (text: string): Uint8Array | null =>
  /^[0-9a-f]{64}$/.test(text) ? new Uint8Array(Buffer.from(text, 'hex')) : null
const matching =
  (pattern: RegExp) =>
  (text: string): string | null =>
    pattern.test(text) ? text : null

function fromJson(text: string): StoredKey {
  const value: unknown = JSON.parse(text)
  if (!isRecord(value)) return fail('it is not a JSON object')
  const { old_secrets: old } = value
  if (!Array.isArray(old) || !old.every(isRecord)) return fail('old_secrets must be an array')
  return {
    id: textOf(value, 'id', matching(KEY_ID)),
    hash: textOf(value, 'hash', readHash),
    prefix: textOf(value, 'prefix', matching(KEY_PREFIX)),
    label: textOf(value, 'label', readLabel),
    note: textOf(value, 'note', readLabel),
    from: value.from === undefined ? '' : textOf(value, 'from', readCallers),
    plan: nullableOf(value, 'plan', readPlanName),
    createdAt: textOf(value, 'created', parseInstant),
    expiresAt: nullableOf(value, 'expires', parseInstant),
    revokedAt: nullableOf(value, 'revoked', parseInstant),
    oldSecrets: old.map(secret => ({
      hash: textOf(secret, 'hash', readHash),
      expiresAt: textOf(secret, 'expires', parseInstant),
    })),
  }
}

function lineOf(text: string, line: number): Line {
  try {
    const key = fromJson(text)
    const isReserved = key.plan === DEMO_PLAN || key.plan === TEMP_PLAN
    if (key.plan === null && key.expiresAt === null) {
      return { line, reason: 'a temporary key (its plan is null) must end' }
    }
    return isReserved ? { line, reason: `plan ${key.plan} is not for regular keys` } : { line, key }
  } catch (error) {
    // The message of another error would repeat the content of the file.
    return { line, reason: error instanceof Expected ? error.message : 'it is not JSON' }
  }
}

const readLines = (text: string): Line[] =>
  text
    .split('\n')
    .map((content, i) => ({ content, line: i + 1 }))
    .filter(({ content }) => content.trim() !== '')
    .map(({ content, line }) => lineOf(content, line))

function reasonOf(found: LoadProblem, { id, plan }: StoredKey): string {
  if (found.kind === 'known-secret') return `this key exists, as ${found.id} or in an earlier line`
  if (found.kind === 'known-id') return `there is another key with id ${id}`
  return `there is no plan '${plan}'; make it with: proxylist plans set ${plan}`
}

/** Reports problems on stderr, by line. @throws CommandError if there is any. */
function refuse(file: string, problems: readonly Problem[]): void {
  if (problems.length === 0) return
  const inOrder = problems.toSorted((a, b) => a.line - b.line)
  for (const { line, reason } of inOrder.slice(0, SHOWN_MAX)) say(`${file}:${line}: ${reason}`)
  if (problems.length > SHOWN_MAX) say(`… and ${problems.length - SHOWN_MAX} more`)
  const lines = several(new Set(problems.map(({ line }) => line)).size, 'bad line')
  throw new CommandError(`${file}: ${lines}; no key was imported`)
}

/** The text of a file, or of stdin. @throws CommandError when it cannot be read. */
async function textOfFile(file: string): Promise<string> {
  try {
    const bytes = await (file === '-' ? Bun.stdin : Bun.file(file)).bytes()
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw unreadable(file, error)
  }
}

export const exportKeys = command({
  name: 'keys export',
  summary: 'print all keys, with hashes of their secrets, as NDJSON',
  settings: DATA_SETTINGS,
  example: 'proxylist keys export > keys.ndjson',
  async run({ settings, clock }) {
    const keys = await storesOf(settings, clock).registry('read', each => each.keys.dump())
    await print(keys.map(toLine).join(''))
  },
})

export const importKeys = command({
  name: 'keys import',
  summary: 'add the keys of a file that keys export wrote (- is stdin)',
  arguments: '<file>',
  settings: DATA_SETTINGS,
  example: 'proxylist keys import keys.ndjson',
  async run({ settings, args: [file = ''], clock }) {
    const stores = storesOf(settings, clock)
    const text = await textOfFile(file)
    const lines = readLines(text)
    const bad = lines.filter(line => 'reason' in line)
    const good = lines.filter(line => 'key' in line)
    const keys = good.map(({ key }) => key)
    const problems = await stores.registry('make', async registry => {
      const found = await registry.keys.load(keys, bad.length > 0)
      const stored = found.flatMap((problem): Problem[] => {
        const line = good[problem.index]
        return line ? [{ line: line.line, reason: reasonOf(problem, line.key) }] : []
      })
      // What says the same is said once: many keys may be on a plan that is not there.
      const first = Map.groupBy(stored, ({ reason }) => reason).values()
      return [...bad, ...Array.from(first, same => same.slice(0, 1)).flat()]
    })
    refuse(file, problems)
    if (lines.length === 0) say(`${file}: note: no key was found`)
    say(`${several(keys.length, 'key is', 'keys are')} imported`)
  },
})
