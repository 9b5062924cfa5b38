/** The knobs of a run: environment variables, their defaults and what they accept. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { binaryPath, numberFrom } from '../support/main.ts'

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
  /** The compiled program. */
  binary: string
  /** An earlier build of it to compare with, or `null`. */
  before: string | null
  /**
   * An empty database that nodes share, `own` for a server of the run itself, or `null`: without, no
   * nodes are measured.
   */
  database: string | null
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

function generatorFrom(text: string | undefined): 'wrk' | 'bun' {
  if (text && text !== 'wrk' && text !== 'bun') throw new Error('GENERATOR must be wrk or bun')
  if (text === 'wrk' && !Bun.which('wrk')) throw new Error('GENERATOR=wrk, but wrk is missing')
  return text !== 'bun' && Bun.which('wrk') ? 'wrk' : 'bun'
}

function beforeFrom(path: string | undefined): string | null {
  if (!path) return null
  if (!existsSync(path)) throw new Error(`BEFORE: there is no ${path}`)
  return resolve(path)
}

/** A URL is taken as it is; any other value asks for a server of the run itself. */
const databaseFrom = (text: string | undefined): string | null =>
  text ? (URL.canParse(text) ? text : 'own') : null

/** Reads the environment. @throws Error for a value that is not accepted. */
export function readOptions(): Options {
  const numberOf = (name: keyof typeof NUMBERS): number => numberFrom(name, NUMBERS[name])
  return {
    rows: numberOf('ROWS'),
    smallRows: numberOf('SMALL_ROWS'),
    keys: numberOf('KEYS'),
    rounds: numberOf('ROUNDS'),
    durationSeconds: numberOf('DURATION'),
    connections: numberOf('CONNECTIONS'),
    ratePerSecond: numberOf('RATE'),
    openSeconds: numberOf('OPEN_SECONDS'),
    selectLoops: numberOf('SELECT_LOOPS'),
    generator: generatorFrom(process.env.GENERATOR),
    binary: binaryPath(),
    before: beforeFrom(process.env.BEFORE),
    database: databaseFrom(process.env.DATABASE),
  }
}

/** The command that repeats this run. */
export function commandLine(): string {
  const names = [...Object.keys(NUMBERS), 'ONLY', 'GENERATOR', 'BEFORE']
  const given = names.filter(name => process.env[name]).map(name => `${name}=${process.env[name]}`)
  if (process.env.DATABASE) given.unshift('DATABASE=…') // its URL may hold a password
  const command = process.env.MAKELEVEL // under make
    ? ['make bench', ...given]
    : [...given, 'bun test/lab/bench/bench.ts']
  return command.join(' ')
}
