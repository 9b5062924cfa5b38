/**
 * Owns what the parts of a run share, made when first asked for, in one temporary directory: row
 * files, data directories of the program with keys, lists of request targets, and its server.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from '../../support/launch.ts'
import { temporaryDirectory } from '../../support/temporary.ts'
import { addCustomers, writeTargets } from '../support/customers.ts'
import { writeRows } from '../support/rows.ts'
import { startServe } from '../support/serve.ts'
import { type Finished, runCommand } from './command.ts'
import type { Options } from './options.ts'

export type Workspace = ReturnType<typeof createWorkspace>

/** A function that makes its value at its first call and then keeps it. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

export function createWorkspace(options: Options) {
  const dir = temporaryDirectory('bench')
  const startMs = Date.now()

  const importFile = (file: string, data: string): Promise<Finished> =>
    runCommand([options.binary, 'import', file, '--format', 'ndjson', '--json', '--data', data])

  async function rowFile(name: string, rows: number, checkedMs: number | null): Promise<string> {
    const file = join(dir, `${name}.ndjson`)
    await writeRows(file, rows, checkedMs)
    return file
  }

  async function filledData(name: string, file: string): Promise<string> {
    const data = join(dir, name)
    await importFile(file, data)
    return data
  }

  const timedRows = lazily(() => rowFile('rows', options.rows, startMs))
  const data = lazily(async () => {
    const made = await filledData('data', await timedRows())
    addCustomers(made, options.keys)
    return made
  })

  return {
    options,
    dir,
    importFile,
    /** NDJSON of ROWS rows with check times. */
    timedRows,
    /** The same without: each import of it updates every row. */
    untimedRows: lazily(() => rowFile('again', options.rows, null)),
    /** A data directory with ROWS rows and the keys. */
    data,
    /** One with SMALL_ROWS rows. */
    smallData: lazily(async () => {
      return filledData('small', await rowFile('few', options.smallRows, startMs))
    }),
    /** Files of request targets. */
    targets: lazily(async () => writeTargets(dir, options.keys)),

    emptyData(name: string): string {
      const made = join(dir, name)
      mkdirSync(made)
      return made
    },

    /** Starts the program with everything on; the access log is written to /dev/null. */
    serve: async (): Promise<Server> =>
      startServe(options.binary, { data: await data(), more: ['--grace', '1s'] }),
  }
}
