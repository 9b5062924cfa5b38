/**
 * What the parts of a run share, made when first used, in one temporary directory: row
 * files, lists of request targets, and the builds of the program with their data directories.
 */
import { join } from 'node:path'
import { temporaryDirectory } from '../../support/temporary.ts'
import { writeTargets } from '../support/customers.ts'
import { type RowFile, writeRows } from '../support/rows.ts'
import { type Build, createBuild, lazily } from './build.ts'
import type { Options } from './options.ts'

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
