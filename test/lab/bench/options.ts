/** Owns the knobs of a run: environment variables, their defaults and what they accept. */
import { join, resolve } from 'node:path'

export const ROOT = join(import.meta.dir, '../../..')

/** The parts of a run, in the order in which they run. Imports that touch the list come last. */
export const PARTS = [
  'select',
  'repeated',
  'distinct',
  'refused',
  'start',
  'whole',
  'stuck',
  'open',
  'open-whole',
  'import',
  'open-import',
] as const
export type Part = (typeof PARTS)[number]

export type Options = {
  /** Proxies in the list. */
  rows: number
  /** Proxies in the small list that the growth of cost is measured against. */
  smallRows: number
  keys: number
  /** Alternations A B A B of each comparison. */
  rounds: number
  /** Length of one measured run of a server. */
  durationSeconds: number
  connections: number
  /** Requests a second that the open-loop client sends. */
  ratePerSecond: number
  openSeconds: number
  /** Selects timed for each filter. */
  selectLoops: number
  generator: 'wrk' | 'bun'
  parts: readonly Part[]
  /** The compiled program. */
  binary: string
}

const NUMBERS = {
  ROWS: 100_000,
  SMALL_ROWS: 10_000,
  KEYS: 20_000,
  ROUNDS: 3,
  DURATION: 5,
  CONNECTIONS: 64,
  RATE: 5_000,
  OPEN_SECONDS: 20,
  SELECT_LOOPS: 50,
} as const
const TEXTS = ['ONLY', 'GENERATOR', 'PROXYLIST_BINARY'] as const

/** @throws Error naming the variable and what it accepts. */
function numberFrom(name: keyof typeof NUMBERS): number {
  const text = process.env[name] || String(NUMBERS[name])
  if (!/^[1-9]\d{0,7}$/.test(text)) throw new Error(`${name} must be an integer from 1 to 99999999`)
  return Number(text)
}

function partsFrom(text: string | undefined): readonly Part[] {
  if (!text) return PARTS
  const wanted = text.split(',').map(name => name.trim())
  const unknown = wanted.filter(name => !PARTS.some(part => part === name))
  if (unknown.length > 0) throw new Error(`ONLY takes ${PARTS.join(', ')}; not ${unknown.join()}`)
  return PARTS.filter(part => wanted.includes(part))
}

function generatorFrom(text: string | undefined): 'wrk' | 'bun' {
  if (text && text !== 'wrk' && text !== 'bun') throw new Error('GENERATOR must be wrk or bun')
  if (text === 'wrk' && !Bun.which('wrk')) throw new Error('GENERATOR=wrk, but wrk is missing')
  return text !== 'bun' && Bun.which('wrk') ? 'wrk' : 'bun'
}

/** Reads the environment. @throws Error for a value that is not accepted. */
export function readOptions(): Options {
  return {
    rows: numberFrom('ROWS'),
    smallRows: numberFrom('SMALL_ROWS'),
    keys: numberFrom('KEYS'),
    rounds: numberFrom('ROUNDS'),
    durationSeconds: numberFrom('DURATION'),
    connections: numberFrom('CONNECTIONS'),
    ratePerSecond: numberFrom('RATE'),
    openSeconds: numberFrom('OPEN_SECONDS'),
    selectLoops: numberFrom('SELECT_LOOPS'),
    generator: generatorFrom(process.env.GENERATOR),
    parts: partsFrom(process.env.ONLY),
    binary: resolve(ROOT, process.env.PROXYLIST_BINARY || 'dist/proxylist'),
  }
}

/** The command that repeats this run; the binary's path is nobody's business. */
export function commandLine(): string {
  const names = [...Object.keys(NUMBERS), ...TEXTS].filter(name => name !== 'PROXYLIST_BINARY')
  const given = names.filter(name => process.env[name]).map(name => `${name}=${process.env[name]}`)
  // Make counts its own depth; `make bench` is what was typed then.
  const command = process.env.MAKELEVEL
    ? ['make bench', ...given]
    : [...given, 'bun test/lab/bench/bench.ts']
  return command.join(' ')
}
