/**
 * A build of the program under measurement: the one of this tree, or the earlier one that it
 * is compared with. Each has data directories of its own, because their schemas may differ.
 */
import { Database } from 'bun:sqlite'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from '../../support/launch.ts'
import { addCustomers } from '../support/customers.ts'
import { files, startServe } from '../support/serve.ts'
import { type Finished, runCommand } from './command.ts'

export type Build = ReturnType<typeof createBuild>

/** How a server is started; `log` is the access log, which is written to /dev/null. */
type ServeOptions = { data?: string; log?: 'json' | 'off'; wrapper?: readonly string[] }

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
export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
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

export function createBuild(options: BuildOptions) {
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
    /** A copy of a data directory that no server uses. */
    async copy(folder: string, from?: string): Promise<string> {
      const copied = join(dir, folder)
      const original = from ?? (await data())
      cpSync(original, copied, { recursive: true, preserveTimestamps: true })
      return copied
    },
    /** Starts its server, by default on `data` with everything on. */
    async serve({ data: other, log = 'json', wrapper = [] }: ServeOptions = {}): Promise<Server> {
      const more = ['--grace', '1s', '--log', log]
      return startServe(binary, { data: other ?? (await data()), more, wrapper })
    },
  }
}
