/**
 * What the parts of a run share, made when first used, in one temporary directory: row
 * files, lists of request targets, and the builds of the program with their data directories.
 */
import { Database } from 'bun:sqlite'
import { cpSync, existsSync, mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { launch, type Server } from '../../support/launch.ts'
import { temporaryDirectory } from '../../support/temporary.ts'
import { addCustomers, writeTargets } from '../support/customers.ts'
import { binaryPath, numberFrom } from '../support/main.ts'
import { type Memory, readMemory } from '../support/process.ts'
import { type RowFile, writeRows } from '../support/rows.ts'
import { files, startServe } from '../support/serve.ts'

/** The numbers of a run, with their defaults; test/README.md says what they are. */
const NUMBERS = {
  /** Proxies in the list, and in the small list that the growth of cost is measured against. */
  ROWS: 100_000,
  SMALL_ROWS: 10_000,
  KEYS: 20_000,
  /** Alternations A B A B of each comparison. */
  ROUNDS: 3,
  /** Seconds of one measured run of a server. */
  DURATION: 5,
  CONNECTIONS: 64,
  /** Requests a second that the open-loop client sends. */
  RATE: 5_000,
  OPEN_SECONDS: 20,
  /** Selects timed for each filter. */
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
export function readOptions() {
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
    /** The compiled program, and an earlier build of it to compare with, or `null`. */
    binary: binaryPath(),
    before: beforeFrom(process.env.BEFORE),
    /**
     * An empty database that nodes share, `own` for a server of the run itself, or `null`: without, no
     * nodes are measured.
     */
    database: databaseFrom(process.env.DATABASE),
  }
}
export type Options = ReturnType<typeof readOptions>

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

/** Between two readings of a running command's memory. */
const SAMPLE_EVERY_MS = 10

/** A finished command; `peakBytes` is `null` where it is unknown. */
export type Finished = { seconds: number; peakBytes: number | null; stdout: string }

/**
 * Runs a command and watches its memory; it is killed after `deadlineSeconds`.
 * @throws Error with its stderr when it fails.
 */
export async function runCommand(command: string[], deadlineSeconds?: number): Promise<Finished> {
  const startMs = performance.now()
  const child = launch(command, { ...(deadlineSeconds !== undefined && { deadlineSeconds }) })
  // The kernel counts the memory of this process into the child's maxRSS (it is forked from
  // here), so the peak is read from /proc while the child lives; maxRSS only bounds it.
  const last: { memory: Memory | null } = { memory: null }
  const timer = setInterval(() => {
    last.memory = readMemory(child.pid) ?? last.memory
  }, SAMPLE_EVERY_MS)
  const exitCode = await child.ended
  clearInterval(timer)
  const seconds = (performance.now() - startMs) / 1000
  const { stdout, stderr } = child.written
  if (exitCode !== 0) {
    throw new Error(`${command.slice(0, 2).join(' ')} exited with ${exitCode}: ${stderr}`)
  }
  const peakBytes = last.memory?.peakBytes ?? child.resourceUsage()?.maxRSS ?? null
  return { seconds, peakBytes, stdout }
}

export type Build = ReturnType<typeof createBuild>

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
  /** The data directory whose customers it gets; `null`: they are added by the code of this tree. */
  customersOf: (() => Promise<string>) | null
}

/** A function that makes its value at its first call and then keeps it. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** Copies plans and keys: an earlier program cannot read what the code of this tree would write. */
function copyCustomers(from: string, to: string): void {
  const db = new Database(files(to).access)
  db.run('attach ? as other', [files(from).access])
  for (const table of ['plans', 'keys']) {
    const columnsOf = (schema: string): string[] =>
      db
        .query<{ name: string }, [string, string]>('select name from pragma_table_info(?, ?)')
        .all(table, schema)
        .map(({ name }) => name)
    const earlier = new Set(columnsOf('main'))
    const columns = columnsOf('other').filter(name => earlier.has(name))
    db.run(
      `insert or replace into main.${table} (${columns}) select ${columns} from other.${table}`,
    )
  }
  db.close(true)
}

function createBuild(options: BuildOptions) {
  const { name, binary, dir, keys, rowsFile, customersOf } = options
  mkdirSync(dir)

  const run = (args: readonly string[], wrapper: readonly string[] = []): Promise<Finished> =>
    runCommand([...wrapper, binary, ...args])

  const importFile = (file: string, data: string, wrapper?: readonly string[]): Promise<Finished> =>
    run(['import', file, '--json', '--data', data], wrapper)

  const data = lazily(async () => {
    const made = join(dir, 'data')
    await importFile(await rowsFile(), made)
    if (customersOf === null) addCustomers(made, keys)
    else {
      await run(['keys', 'add', '--data', made]) // creates access.db
      copyCustomers(await customersOf(), made)
    }
    return made
  })

  return {
    name,
    binary,
    run,
    /** Imports a file into a data directory; `stdout` has the summary as JSON. */
    importFile,
    /** A data directory with ROWS rows and the keys. */
    data,
    /** The path of a further data directory, which is not created. */
    path: (folder: string): string => join(dir, folder),
    /** A copy of a data directory, without the sockets of servers that use it. */
    async copy(folder: string, from?: string): Promise<string> {
      const copied = join(dir, folder)
      const original = from ?? (await data())
      const filter = (path: string): boolean => !path.endsWith('.sock')
      cpSync(original, copied, { recursive: true, preserveTimestamps: true, filter })
      return copied
    },
    /** Starts its server, by default on `data` with everything on. */
    async serve(options: ServeOptions = {}): Promise<Server> {
      const { data: other, log = 'json', wrapper = [] } = options
      const more = ['--grace', '1s', '--log', log, ...(options.more ?? [])]
      return startServe(binary, { data: other ?? (await data()), more, wrapper })
    },
  }
}

export type Workspace = ReturnType<typeof createWorkspace>

export function createWorkspace(options: Options) {
  const { rows, smallRows, keys } = options
  const dir = temporaryDirectory('bench')
  const startMs = Date.now()

  const rowFile = (name: string, form: RowFile) =>
    lazily(async () => {
      const file = join(dir, name)
      await writeRows(file, form)
      return file
    })
  const timed = { rows, nowMs: startMs } as const
  const rowFiles = {
    /** ROWS rows with check times, as NDJSON in random order, in the order of addresses, as CSV. */
    random: rowFile('random.ndjson', timed),
    sorted: rowFile('sorted.ndjson', { ...timed, order: 'sorted' }),
    csv: rowFile('random.csv', { ...timed, format: 'csv' }),
    /** The same rows without check times: each import of them updates every row. */
    untimed: rowFile('untimed.ndjson', { rows, nowMs: null }),
    small: rowFile('small.ndjson', { rows: smallRows, nowMs: startMs }),
  }

  const program = createBuild({
    ...{ name: 'this', binary: options.binary, dir: join(dir, 'this'), keys },
    ...{ rowsFile: rowFiles.random, customersOf: null },
  })
  const before =
    options.before === null
      ? null
      : createBuild({
          ...{ name: 'before', binary: options.before, dir: join(dir, 'before'), keys },
          ...{ rowsFile: rowFiles.random, customersOf: program.data },
        })
  const builds: readonly Build[] = before === null ? [program] : [program, before]

  return {
    options,
    dir,
    rowFiles,
    /** The build of this tree, and the one to compare with, if there is one. */
    program,
    before,
    /** Both, this one first. */
    builds,
    /** A data directory with SMALL_ROWS rows. */
    smallData: lazily(async () => {
      const data = program.path('small')
      await program.importFile(await rowFiles.small(), data)
      return data
    }),
    /** Files of request targets. */
    targets: lazily(async () => writeTargets(dir, keys)),
  }
}
