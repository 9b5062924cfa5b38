/**
 * `keys export` and `keys import`, and the files they write and read: JSON lines with the
 * hashes of keys, and CSV with keys themselves, for who comes from another program.
 */
import {
  hashKey,
  KEY_ID,
  KEY_PREFIX,
  newKeyId,
  type StoredKey,
  shownPrefix,
} from '../../access/key.ts'
import { DEMO_PLAN, type Plan, TEMP_PLAN } from '../../access/plan.ts'
import type { LoadProblem } from '../../access/ports.ts'
import { Expected, readExpiry, readKey, readLabel, readPlanName } from '../../config/parsers.ts'
import { isRecord, type RawRow } from '../../import/reader.ts'
import { BAD_QUOTE, cellsOf } from '../../import/table.ts'
import { CommandError, messageOf, unreadable } from '../../lib/errors.ts'
import { several } from '../../lib/plural.ts'
import { formatInstant, formatInstantOrNull, parseInstant } from '../../lib/time.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say } from '../command.ts'
import { planFlags } from './plans.ts'

/** Problems that are shown; of further ones, only the number is. */
const SHOWN_MAX = 20

/** A key of a file, and the limits of its plan as flags of `plans set`; none where they are not said. */
type FileKey = StoredKey & { limits: readonly string[] }
type Problem = { line: number; reason: string }
type KeyLine = { line: number; key: FileKey }
type Line = KeyLine | Problem

const planOf = ({ plan }: Pick<StoredKey, 'plan'>): string => plan ?? TEMP_PLAN

// -----------------------------------------------------------------------------------------------
// JSON lines

const toLine = (key: FileKey): string =>
  `${JSON.stringify({
    id: key.id,
    hash: key.hash.toHex(),
    prefix: key.prefix,
    label: key.label,
    note: key.note,
    plan: key.plan,
    limits: key.limits.join(' '),
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

/** Flags of `plans set`: they are shown as a command to type. */
const readLimits = (text: string): string[] | null =>
  /^(?:--[a-z]+ [a-z\d/]+(?: (?=-)|$))+$/.test(text) ? text.split(/ (?=--)/) : null

function fromJson(text: string): FileKey {
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
    plan: nullableOf(value, 'plan', readPlanName),
    createdAt: textOf(value, 'created', parseInstant),
    expiresAt: nullableOf(value, 'expires', parseInstant),
    revokedAt: nullableOf(value, 'revoked', parseInstant),
    oldSecrets: old.map(secret => ({
      hash: textOf(secret, 'hash', readHash),
      expiresAt: textOf(secret, 'expires', parseInstant),
    })),
    limits: value.limits === undefined ? [] : textOf(value, 'limits', readLimits),
  }
}

// -----------------------------------------------------------------------------------------------
// CSV

const COLUMNS = ['key', 'label', 'note', 'plan', 'expires'] as const
type Column = (typeof COLUMNS)[number]

/** The key of a row. What is wrong with a cell names the column and never holds the value. */
function readRow(textOf: (column: Column) => string, nowMs: number): FileKey {
  function read<T>(column: Column, parse: (text: string) => T): T {
    try {
      return parse(textOf(column))
    } catch (error) {
      return fail(`${column} must be ${messageOf(error)}`)
    }
  }
  const secret = read('key', readKey)
  const end = read('expires', text => (text === '' ? null : readExpiry(text)))
  return {
    id: newKeyId(),
    hash: hashKey(secret),
    prefix: shownPrefix(secret),
    label: read('label', readLabel),
    note: read('note', readLabel),
    plan: read('plan', text => (text === '' ? 'standard' : readPlanName(text))),
    limits: [],
    createdAt: nowMs,
    expiresAt:
      end === null || end.kind === 'never' ? null : end.ms + (end.kind === 'in' ? nowMs : 0),
    revokedAt: null,
    oldSecrets: [],
  }
}

/** @throws CommandError for a header that is not understood. */
function requireHeader(names: readonly string[]): void {
  const accepted = `columns are ${COLUMNS.join(', ')}`
  const odd = names.find(name => !COLUMNS.some(column => column === name))
  // What is not a name may be a key: it is not repeated.
  if (odd !== undefined) throw new CommandError(`the header has an unknown column; ${accepted}`)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new CommandError(`the header has ${twice} twice; ${accepted}`)
  if (!names.includes('key')) throw new CommandError(`the header has no column key; ${accepted}`)
}

function readCsv(text: string, nowMs: number): Line[] {
  const [header = '', ...rows] = text.trimEnd().split(/\r\n|[\r\n]/)
  const names = (cellsOf(header, ',') ?? ['']).map(name => name.trim().toLowerCase())
  requireHeader(names)
  return rows.flatMap((row, i): Line[] => {
    const line = i + 2
    if (row.trim() === '') return []
    const cells = cellsOf(row, ',')
    if (cells === null) return [{ line, reason: `it ${BAD_QUOTE}` }]
    if (cells.length !== names.length) {
      return [{ line, reason: `it has ${cells.length} cells, not ${names.length}` }]
    }
    const textOf = (column: Column): string => cells[names.indexOf(column)]?.trim() ?? ''
    return [lineOf(line, () => readRow(textOf, nowMs))]
  })
}

// -----------------------------------------------------------------------------------------------

function lineOf(line: number, read: () => FileKey): Line {
  try {
    const key = read()
    const isReserved = key.plan === DEMO_PLAN || key.plan === TEMP_PLAN
    if (key.plan === null && key.expiresAt === null) {
      return { line, reason: 'a temporary key (its plan is null) must end' }
    }
    return isReserved ? { line, reason: `plan ${key.plan} is not for regular keys` } : { line, key }
  } catch (error) {
    // The message of another error would repeat what is in the file.
    return { line, reason: error instanceof Expected ? error.message : 'it is not JSON' }
  }
}

const readJsonLines = (text: string): Line[] =>
  text
    .split('\n')
    .map((content, i) => ({ content, line: i + 1 }))
    .filter(({ content }) => content.trim() !== '')
    .map(({ content, line }) => lineOf(line, () => fromJson(content)))

const setCommand = (plan: string, limits: readonly string[]): string =>
  ['proxylist plans set', plan, ...limits].join(' ')

function reasonOf(found: LoadProblem, { id, plan, limits }: FileKey): string {
  if (found.kind === 'known-secret') return `this key exists, as ${found.id} or in an earlier line`
  if (found.kind === 'known-id') return `there is another key with id ${id}`
  return `there is no plan '${plan}'; make it with: ${setCommand(plan ?? '', limits)}`
}

/** Where the plan of a key, if there is one, has other limits than where the key comes from. */
const planProblems = (lines: readonly KeyLine[], plans: readonly Plan[]): Problem[] =>
  lines.flatMap(({ line, key }) => {
    const plan = plans.find(({ name }) => name === planOf(key))
    const here = plan ? planFlags(plan) : key.limits
    const others = key.limits.filter(flag => !here.includes(flag))
    const reason =
      `plan '${planOf(key)}' has other limits here; make them the same with: ` +
      `${setCommand(planOf(key), others)} (or remove "limits" from its lines to use those of here)`
    return others.length === 0 ? [] : [{ line, reason }]
  })

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
    const { keys, plans } = await storesOf(settings, clock).registry('read', async registry => ({
      keys: await registry.keys.dump(),
      plans: await registry.plans.list(),
    }))
    const limits = new Map(plans.map(plan => [plan.name, planFlags(plan)]))
    const lines = keys.map(key => toLine({ ...key, limits: limits.get(planOf(key)) ?? [] }))
    await print(lines.join(''))
  },
})

export const importKeys = command({
  name: 'keys import',
  summary:
    'add keys from a file (- is stdin): of keys export, or CSV with key,label,note,plan,expires',
  arguments: '<file>',
  settings: DATA_SETTINGS,
  example: 'proxylist keys import customers.csv',
  async run({ settings, args: [file = ''], clock }) {
    const stores = storesOf(settings, clock)
    const text = await textOfFile(file)
    // Its first character tells the form; an export without keys is empty.
    const lines = /^\s*(?:\{|$)/.test(text) ? readJsonLines(text) : readCsv(text, clock())
    const bad = lines.filter(line => 'reason' in line)
    const good = lines.filter(line => 'key' in line)
    const keys = good.map(({ key }) => key)
    const problems = await stores.registry('make', async registry => {
      const ofPlans = planProblems(good, await registry.plans.list())
      const ofKeys = await registry.keys.load(keys, bad.length + ofPlans.length > 0)
      const stored = ofKeys.flatMap((problem): Problem[] => {
        const found = good[problem.index]
        return found ? [{ line: found.line, reason: reasonOf(problem, found.key) }] : []
      })
      // What says the same is said once: many keys may be on a plan that is not there.
      const first = Map.groupBy([...ofPlans, ...stored], ({ reason }) => reason).values()
      return [...bad, ...Array.from(first, same => same.slice(0, 1)).flat()]
    })
    refuse(file, problems)
    if (lines.length === 0) say(`${file}: note: no key was found`)
    say(`${keys.length} ${keys.length === 1 ? 'key is' : 'keys are'} imported`)
  },
})
