/**
 * `keys export` and `keys import`, and the files they write and read: JSON lines with the
 * hashes of keys, and CSV with keys themselves, for who comes from another program.
 */
import Papa from 'papaparse'
import { hashKey, newKeyId, type StoredKey, shownPrefix } from '../../access/key.ts'
import { DEMO_PLAN, type Plan, TEMP_PLAN } from '../../access/plan.ts'
import type { LoadProblem } from '../../access/ports.ts'
import { Expected, readExpiry, readKey, readLabel, readPlanName } from '../../config/parsers.ts'
import { CommandError, messageOf, unreadable } from '../../lib/errors.ts'
import { formatInstant, parseInstant } from '../../lib/time.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say } from '../command.ts'
import { planFlags } from './plans.ts'

/** Problems that are shown; of further ones, only the number is. */
const SHOWN_MAX = 20

/** A key of a file, and the limits of its plan as flags of `plans set`; none where they are not said. */
type FileKey = { key: StoredKey; limits: readonly string[] }
/** A key and the line it is on; or why there is none. */
type Line = { line: number } & (({ kind: 'key' } & FileKey) | { kind: 'bad'; reason: string })

// -----------------------------------------------------------------------------------------------
// JSON lines

const planOf = ({ plan }: StoredKey): string => plan ?? TEMP_PLAN

const toLine = (key: StoredKey, limits: readonly string[]): string =>
  `${JSON.stringify({
    id: key.id,
    hash: Buffer.from(key.hash).toString('hex'),
    prefix: key.prefix,
    label: key.label,
    plan: key.plan,
    limits: limits.join(' '),
    created: formatInstant(key.createdAt),
    expires: key.expiresAt === null ? null : formatInstant(key.expiresAt),
    revoked: key.revokedAt === null ? null : formatInstant(key.revokedAt),
    old_secrets: key.oldSecrets.map(({ hash, expiresAt }) => ({
      hash: Buffer.from(hash).toString('hex'),
      expires: formatInstant(expiresAt),
    })),
  })}\n`

const fail = (reason: string): never => {
  throw new Expected(reason)
}

/** A member that must be text which `read` accepts. */
function textOf<T>(
  from: { [name: string]: unknown },
  name: string,
  read: (text: string) => T | null,
): T {
  const value = from[name]
  const found = typeof value === 'string' ? read(value) : null
  return found ?? fail(`${name} is missing or is not as keys export writes it`)
}
const nullableOf = <T>(
  from: { [name: string]: unknown },
  name: string,
  read: (text: string) => T | null,
): T | null => (from[name] === null ? null : textOf(from, name, read))

const readHash = (text: string): Uint8Array | null =>
  /^[0-9a-f]{64}$/.test(text) ? new Uint8Array(Buffer.from(text, 'hex')) : null
const matching =
  (pattern: RegExp) =>
  (text: string): string | null =>
    pattern.test(text) ? text : null

/** Flags of `plans set`: they are shown as a command to type. */
const readLimits = (text: string): string[] | null =>
  /^(?:--[a-z]+ [a-z\d/]+(?: (?=-)|$))+$/.test(text) ? text.split(/ (?=--)/) : null

const isObject = (value: unknown): value is { [name: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function fromJson(text: string): FileKey {
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return fail('it is not a JSON object')
  const { old_secrets: old } = value
  if (!Array.isArray(old) || !old.every(isObject)) return fail('old_secrets must be an array')
  const key = {
    id: textOf(value, 'id', matching(/^[a-z0-9]{1,40}$/)),
    hash: textOf(value, 'hash', readHash),
    prefix: textOf(value, 'prefix', matching(/^\P{Cc}{0,8}$/u)),
    label: textOf(value, 'label', readLabel),
    plan: nullableOf(value, 'plan', readPlanName),
    createdAt: textOf(value, 'created', parseInstant),
    expiresAt: nullableOf(value, 'expires', parseInstant),
    revokedAt: nullableOf(value, 'revoked', parseInstant),
    oldSecrets: old.map(secret => ({
      hash: textOf(secret, 'hash', readHash),
      expiresAt: textOf(secret, 'expires', parseInstant),
    })),
  }
  return { key, limits: value.limits === undefined ? [] : textOf(value, 'limits', readLimits) }
}

// -----------------------------------------------------------------------------------------------
// CSV

const COLUMNS = ['key', 'label', 'plan', 'expires'] as const
type Cells = { [column in (typeof COLUMNS)[number]]: string }

/** A cell, or what is wrong with it; the message names the column and never holds the value. */
function cell<T>(column: string, text: string, read: (text: string) => T): T {
  try {
    return read(text)
  } catch (error) {
    return fail(`${column} must be ${messageOf(error)}`)
  }
}

function fromCells({ key, label, plan, expires }: Cells, nowMs: number): FileKey {
  const secret = cell('key', key, readKey)
  const end = expires === '' ? ({ kind: 'never' } as const) : cell('expires', expires, readExpiry)
  const made = {
    id: newKeyId(),
    hash: hashKey(secret),
    prefix: shownPrefix(secret),
    label: cell('label', label, readLabel),
    plan: plan === '' ? 'standard' : cell('plan', plan, readPlanName),
    createdAt: nowMs,
    expiresAt: end.kind === 'never' ? null : end.kind === 'in' ? nowMs + end.ms : end.ms,
    revokedAt: null,
    oldSecrets: [],
  }
  return { key: made, limits: [] }
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
  const { data, errors } = Papa.parse<string[]>(text.trimEnd(), { delimiter: ',' })
  const [broken] = errors
  if (broken) throw new CommandError(`line ${(broken.row ?? 0) + 1}: ${broken.message}`)
  const names = (data[0] ?? []).map(name => name.trim().toLowerCase())
  requireHeader(names)
  return data.slice(1).flatMap((row, i): Line[] => {
    const line = i + 2
    if (row.length === 1 && row[0]?.trim() === '') return []
    if (row.length !== names.length) {
      return [{ kind: 'bad', line, reason: `it has ${row.length} cells, not ${names.length}` }]
    }
    const of = (column: string): string => row[names.indexOf(column)]?.trim() ?? ''
    const cells = { key: of('key'), label: of('label'), plan: of('plan'), expires: of('expires') }
    return [lineOf(line, () => fromCells(cells, nowMs))]
  })
}

// -----------------------------------------------------------------------------------------------

function lineOf(line: number, read: () => FileKey): Line {
  try {
    const { key, limits } = read()
    const isReserved = key.plan === DEMO_PLAN || key.plan === TEMP_PLAN
    const reason = `plan ${key.plan} is not for regular keys`
    return isReserved ? { kind: 'bad', line, reason } : { kind: 'key', line, key, limits }
  } catch (error) {
    // The message of another error would repeat what is in the file.
    const reason = error instanceof Expected ? error.message : 'it is not JSON'
    return { kind: 'bad', line, reason }
  }
}

const readJsonLines = (text: string): Line[] =>
  text
    .split('\n')
    .flatMap((content, i) =>
      content.trim() === '' ? [] : [lineOf(i + 1, () => fromJson(content))],
    )

/** The keys of a file in either form, which its first character tells; an export without keys is empty. */
const readKeys = (text: string, nowMs: number): Line[] =>
  /^\s*(?:\{|$)/.test(text) ? readJsonLines(text) : readCsv(text, nowMs)

const setCommand = (plan: string, limits: readonly string[]): string =>
  ['proxylist plans set', plan, ...limits].join(' ')

function reasonOf(problem: LoadProblem, { key: { id, plan }, limits }: FileKey): string {
  if (problem.kind === 'known-secret') return `this key exists already, with id ${problem.id}`
  if (problem.kind === 'known-id') return `there is another key with id ${id}`
  return `there is no plan '${plan}'; make it with: ${setCommand(plan ?? '', limits)}`
}

type Problem = { line: number; reason: string }
type KeyLine = Extract<Line, { kind: 'key' }>

/** What each plan that is there has other limits than where the keys come from; once a plan. */
function planProblems(lines: readonly KeyLine[], plans: readonly Plan[]): Problem[] {
  const seen = new Set<string>()
  return lines.flatMap(({ line, key, limits }) => {
    const plan = plans.find(({ name }) => name === planOf(key))
    if (plan === undefined || seen.has(plan.name)) return []
    const here = planFlags(plan)
    const others = limits.filter(flag => !here.includes(flag))
    if (others.length === 0) return []
    seen.add(plan.name)
    const reason =
      `plan '${plan.name}' has other limits here; make them the same with: ` +
      `${setCommand(plan.name, others)} (or remove "limits" from its lines to use those of here)`
    return [{ line, reason }]
  })
}

/** Why keys cannot be stored. What says the same is said once: many may be on a plan that is not there. */
function loadProblems(lines: readonly KeyLine[], problems: readonly LoadProblem[]): Problem[] {
  const byReason = new Map<string, Problem>()
  for (const problem of problems) {
    const of = lines[problem.index]
    const reason = of ? reasonOf(problem, of) : ''
    if (of && !byReason.has(reason)) byReason.set(reason, { line: of.line, reason })
  }
  return [...byReason.values()]
}

/** Reports problems on stderr, by line. @throws CommandError if there is any. */
function refuse(file: string, problems: readonly Problem[]): void {
  if (problems.length === 0) return
  const inOrder = problems.toSorted((a, b) => a.line - b.line)
  for (const { line, reason } of inOrder.slice(0, SHOWN_MAX)) say(`${file}:${line}: ${reason}`)
  if (problems.length > SHOWN_MAX) say(`… and ${problems.length - SHOWN_MAX} more`)
  const count = new Set(problems.map(({ line }) => line)).size
  const lines = count === 1 ? 'bad line' : 'bad lines'
  throw new CommandError(`${file}: ${count} ${lines}; no key was imported`)
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
  summary: 'print all keys with the hashes of their secrets, one JSON object per line',
  settings: DATA_SETTINGS,
  example: 'proxylist keys export > keys.ndjson',
  async run({ settings, clock }) {
    const { keys, plans } = await storesOf(settings, clock).registry('read', async registry => ({
      keys: await registry.keys.dump(),
      plans: await registry.plans.list(),
    }))
    const limits = new Map(plans.map(plan => [plan.name, planFlags(plan)]))
    await print(keys.map(key => toLine(key, limits.get(planOf(key)) ?? [])).join(''))
  },
})

export const importKeys = command({
  name: 'keys import',
  summary:
    'add all keys of a file (- is stdin): of keys export, or CSV with key,label,plan,expires',
  arguments: '<file>',
  settings: DATA_SETTINGS,
  example: 'proxylist keys import customers.csv',
  async run({ settings, args: [file = ''], clock }) {
    const stores = storesOf(settings, clock)
    const lines = readKeys(await textOfFile(file), clock())
    const keys = lines.filter(line => line.kind === 'key')
    const problems = await stores.registry('make', async ({ keys: { load }, plans }) => {
      const known = [
        ...lines.filter(line => line.kind === 'bad'),
        ...planProblems(keys, await plans.list()),
      ]
      const stored = keys.map(({ key }) => key)
      return [...known, ...loadProblems(keys, await load(stored, known.length > 0))]
    })
    refuse(file, problems)
    if (lines.length === 0) say(`${file}: note: no key was found`)
    say(`${keys.length} ${keys.length === 1 ? 'key is' : 'keys are'} imported`)
  },
})
