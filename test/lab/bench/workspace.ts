/**
 * What the parts of a run share, made when first used, in one temporary directory: row files, lists of request
 * targets, and the builds of the program with their data directories.
 */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { launch, type Server, succeed } from '../../support/launch.ts'
import { ROOT } from '../../support/program.ts'
import { onCleanUp, temporaryDirectory } from '../../support/temporary.ts'
import { addCustomers, customers, writeTargets } from '../support/customers.ts'
import { binaryPath, numberFrom } from '../support/main.ts'
import { type Memory, readMemory } from '../support/process.ts'
import { type RowFile, writeRows } from '../support/rows.ts'
import { startServe } from '../support/serve.ts'
import { flagsOf } from '../support/shared-database.ts'

/** The numbers of a run, with their defaults; test/README.md says what they are. */
const NUMBERS = {
  ...{ ROWS: 100_000, KEYS: 20_000, ROUNDS: 3, DURATION: 5, CONNECTIONS: 64 },
  ...{ RATE: 5_000, OPEN_SECONDS: 20 },
} as const

function generatorFrom(text: string | undefined): 'wrk' | 'bun' {
  if (text && text !== 'wrk' && text !== 'bun') throw new Error('GENERATOR must be wrk or bun')
  if (text === 'wrk' && !Bun.which('wrk')) throw new Error('GENERATOR=wrk, but wrk is missing')
  return text !== 'bun' && Bun.which('wrk') ? 'wrk' : 'bun'
}

/** The path of an earlier build; of a commit, one is made. */
async function beforeFrom(text: string | undefined): Promise<string | null> {
  if (!text) return null
  if (existsSync(text)) return resolve(text)
  const tree = join(temporaryDirectory('before'), 'tree')
  await succeed(['git', '-C', ROOT, 'worktree', 'add', '--detach', tree, text])
  onCleanUp(() => void Bun.spawnSync(['git', '-C', ROOT, 'worktree', 'remove', '--force', tree]))
  await succeed(['make', '-s', '-C', tree, 'build'], { env: process.env, deadlineSeconds: 900 })
  return join(tree, 'dist/proxylist')
}

/** Reads the environment. @throws Error for a value that is not accepted. */
export async function readOptions() {
  const numberOf = (name: keyof typeof NUMBERS): number => numberFrom(name, NUMBERS[name])
  return {
    rows: numberOf('ROWS'),
    keys: numberOf('KEYS'),
    rounds: numberOf('ROUNDS'),
    durationSeconds: numberOf('DURATION'),
    connections: numberOf('CONNECTIONS'),
    ratePerSecond: numberOf('RATE'),
    openSeconds: numberOf('OPEN_SECONDS'),
    generator: generatorFrom(process.env.GENERATOR),
    /** The compiled program, and an earlier build of it to compare with, or `null`. */
    binary: binaryPath(),
    before: await beforeFrom(process.env.BEFORE),
    /** Whether a node over PostgreSQL is measured too. */
    hasDatabase: Boolean(process.env.DATABASE),
  }
}
export type Options = Awaited<ReturnType<typeof readOptions>>

/** The command that repeats this run. */
export function commandLine(): string {
  const names = [...Object.keys(NUMBERS), 'ONLY', 'GENERATOR', 'BEFORE', 'DATABASE']
  const given = names.filter(name => process.env[name]).map(name => `${name}=${process.env[name]}`)
  return ['make bench', ...given].join(' ')
}

/** Between two readings of a running command's memory. */
const SAMPLE_EVERY_MS = 10

/** A finished command; `peakBytes` is `null` where it is unknown. */
export type Finished = { seconds: number; peakBytes: number | null; stdout: string }

/** Runs a command and watches its memory. @throws Error with its stderr when it fails. */
export async function runCommand(command: string[], deadlineSeconds = 3_600): Promise<Finished> {
  const startMs = performance.now()
  const child = launch(command, { deadlineSeconds })
  // The kernel counts the memory of this process into the child's maxRSS (it is forked from here), so the peak is
  // read from /proc while the child lives.
  let memory: Memory | null = null
  const timer = setInterval(() => {
    memory = readMemory(child.pid) ?? memory
  }, SAMPLE_EVERY_MS)
  const exitCode = await child.ended
  clearInterval(timer)
  const seconds = (performance.now() - startMs) / 1000
  const { stdout, stderr } = child.written
  if (exitCode !== 0) {
    throw new Error(`${command.slice(0, 2).join(' ')} exited with ${exitCode}: ${stderr}`)
  }
  return { seconds, peakBytes: (memory as Memory | null)?.peakBytes ?? null, stdout }
}

/** A function that makes its value at its first call and then keeps it. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** How a server is started; `log` is the access log, which is written to /dev/null. */
type ServeOptions = {
  data?: string
  log?: 'json' | 'off'
  more?: readonly string[]
  wrapper?: readonly string[]
}

type BuildOptions = {
  name: string
  binary: string
  /** A folder for its data directories. */
  dir: string
  keys: number
  /** A file of the rows that its list holds. */
  rowsFile: () => Promise<string>
  /** The build whose customers it gets; `null`: they are added by the code of this tree. */
  customersOf: { binary: string; data: () => Promise<string> } | null
}

export type Build = ReturnType<typeof createBuild>

function createBuild({ name, binary, dir, keys, rowsFile, customersOf }: BuildOptions) {
  mkdirSync(dir)
  const run = (args: readonly string[], wrapper: readonly string[] = []): Promise<Finished> =>
    runCommand([...wrapper, binary, ...args])
  /** Imports a file into a data directory; `stdout` has the summary as JSON. */
  const importFile = (file: string, data: string, wrapper?: readonly string[]) =>
    run(['import', file, '--json', '--data', data], wrapper)
  /** The path of a further data directory, which is not created. */
  const path = (folder: string): string => join(dir, folder)
  /** A data directory with ROWS rows and the keys. */
  const data = lazily(async () => {
    const made = path('data')
    await importFile(await rowsFile(), made)
    if (customersOf === null) {
      addCustomers(made, keys)
      return made
    }
    // An earlier program cannot read what the code of this tree would write.
    const from = await customersOf.data()
    const { stdout } = await runCommand([customersOf.binary, 'keys', 'export', '--data', from])
    writeFileSync(path('keys.ndjson'), stdout)
    for (const [plan, limits] of Object.entries(customers(0).plans)) {
      await run(['plans', 'set', plan, ...flagsOf(limits), '--data', made])
    }
    await run(['keys', 'import', path('keys.ndjson'), '--data', made])
    return made
  })
  return {
    ...{ name, binary, run, importFile, data, path },
    /** A copy of a data directory, by default of `data`. */
    async copy(folder: string, from?: string): Promise<string> {
      const filter = (file: string): boolean => !file.endsWith('.sock') // of servers that use it
      const options = { recursive: true, preserveTimestamps: true, filter }
      cpSync(from ?? (await data()), path(folder), options)
      return path(folder)
    },
    /** Starts its server, by default on `data` with everything on. */
    async serve(options: ServeOptions = {}): Promise<Server> {
      const { data: other, log = 'json', wrapper = [], more = [] } = options
      const flags = ['--grace', '1s', '--log', log, ...more]
      return startServe(binary, { data: other ?? (await data()), more: flags, wrapper })
    },
  }
}

export type Workspace = ReturnType<typeof createWorkspace>

export function createWorkspace(options: Options) {
  const { rows, keys } = options
  const dir = temporaryDirectory('bench')
  const nowMs = Date.now()
  const rowFile = (name: string, form: Omit<RowFile, 'rows'>) =>
    lazily(async () => {
      const file = join(dir, name)
      await writeRows(file, { rows, ...form })
      return file
    })
  const rowFiles = {
    /** ROWS rows with check times, as NDJSON in random order, in the order of addresses, as CSV. */
    random: rowFile('random.ndjson', { nowMs }),
    sorted: rowFile('sorted.ndjson', { nowMs, order: 'sorted' }),
    csv: rowFile('random.csv', { nowMs, format: 'csv' }),
    /** The same rows without check times: each import of them updates every row. */
    untimed: rowFile('untimed.ndjson', { nowMs: null }),
  }
  const common = { keys, rowsFile: rowFiles.random }
  const program = createBuild({
    ...{ ...common, name: 'this', binary: options.binary, dir: join(dir, 'this') },
    customersOf: null,
  })
  const before =
    options.before === null
      ? null
      : createBuild({
          ...{ ...common, name: 'before', binary: options.before, dir: join(dir, 'before') },
          customersOf: program,
        })
  return {
    ...{ options, dir, rowFiles },
    /** The build of this tree, and the one to compare with, if there is one. */
    ...{ program, before },
    builds: before === null ? [program] : [program, before],
    /** Files of request targets. */
    targets: lazily(async () => writeTargets(dir, keys)),
  }
}
